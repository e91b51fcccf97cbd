"""Runs a cell as JupyterLab does, over HTTP and a WebSocket, and prints its output: run-cell.py URL CODE"""

import asyncio
import json
import sys
import urllib.request
import uuid
from urllib.parse import parse_qs, urlsplit

from tornado.websocket import websocket_connect

url, code = urlsplit(sys.argv[1]), sys.argv[2]
token = parse_qs(url.query)["token"][0]
headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
request = urllib.request.Request(f"http://{url.netloc}/api/kernels", data=b"{}", method="POST", headers=headers)
kernel = json.load(urllib.request.urlopen(request, timeout=30))["id"]

identifier = uuid.uuid4().hex
cell = {
    "channel": "shell",
    "header": {"msg_id": identifier, "msg_type": "execute_request", "session": "s", "username": "u", "version": "5.3", "date": ""},
    "parent_header": {},
    "metadata": {},
    "content": {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True},
    "buffers": [],
}


async def run() -> None:
    socket = await websocket_connect(f"ws://{url.netloc}/api/kernels/{kernel}/channels?token={token}")
    await socket.write_message(json.dumps(cell))
    status, idle = None, False
    # The reply and the output arrive over different channels, in any order. The kernel is idle after all output.
    while status is None or not idle:
        message = json.loads(await asyncio.wait_for(socket.read_message(), 60))
        if message["parent_header"].get("msg_id") != identifier:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            print(content["text"], end="")
        elif kind == "execute_reply":
            status = content["status"]
        elif kind == "status":
            idle = content["execution_state"] == "idle"
    print(status)


asyncio.run(run())
