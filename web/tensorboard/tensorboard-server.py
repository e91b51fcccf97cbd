"""Runs TensorBoard on a Unix socket for as long as standard input stays open.

tensorboard.ts starts it, with one argument: a JSON object of
  packages   folders to import from
  socket     path of the socket, in a folder that no other user can access
  flags      TensorBoard's command line
and reads one line of JSON from standard output: {"ready": true}, or {"missing": "why TensorBoard cannot be imported"}.
"""

import json
import logging
import mimetypes
import os
import sys
import threading


def leave_with_parent():
    # When the parent exits for any reason, the kernel closes the parent's end of the pipe.
    while os.read(0, 4096):
        pass
    os._exit(0)


def say(message):
    os.write(1, (json.dumps(message) + "\n").encode())


def main():
    arguments = json.loads(sys.argv[1])
    parent = threading.Thread(target=leave_with_parent, daemon=True)
    parent.start()

    sys.path[:0] = arguments["packages"]
    try:
        from tensorboard import default, program
        from werkzeug import serving
    except ImportError as error:
        say({"missing": "%s: %s" % (type(error).__name__, error)})
        return 1

    class Handler(serving.WSGIRequestHandler):
        # Keeps connections alive. The timeout releases an idle connection's thread.
        protocol_version = "HTTP/1.1"
        timeout = 300

    class Server(serving.ThreadedWSGIServer, program.TensorBoardServer):
        daemon_threads = True
        request_queue_size = 128

        def __init__(self, wsgi_app, flags):
            super().__init__("unix://" + arguments["socket"], 0, wsgi_app, Handler)

        def get_url(self):
            return "unix://" + arguments["socket"]

        def handle_error(self, request, client_address):
            # A browser may disconnect at any time.
            if not isinstance(sys.exc_info()[1], OSError):
                super().handle_error(request, client_address)

    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    # Overrides the node's own media type table, which may contain types that browsers reject.
    for kind, ending in (("text/javascript", ".js"), ("text/html", ".html"), ("font/woff2", ".woff2")):
        mimetypes.add_type(kind, ending)
    board = program.TensorBoard(plugins=default.get_plugins(), server_class=Server)
    board.configure(argv=["", *arguments["flags"]])
    board.launch()
    say({"ready": True})
    parent.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
