"""Runs JupyterLab as a task's program. Usage: python3 -m tony._notebook IDLE_SECONDS

Only two files in FOLDER contain the token, and other users cannot read them. One is the Jupyter configuration. The
other is a file in which Jupyter describes the running server. `tony-ts notebook` reads the latter through a session.
"""

import importlib.util
import json
import os
import secrets
import sys
from typing import Any, Dict, List

FOLDER = ".tony-notebook"
#: Interval in seconds at which Jupyter looks for idle kernels: a tenth of the limit, within these bounds.
SHORTEST_CHECK, LONGEST_CHECK = 1, 300
NOT_INSTALLED = 78


def main(idle_seconds: int) -> None:
    if importlib.util.find_spec("jupyterlab") is None:
        print(
            f"JupyterLab is not installed for {sys.executable} on this node. "
            "Add the package jupyterlab to the job's Python environment.",
            file=sys.stderr,
        )
        sys.exit(NOT_INSTALLED)
    folder = os.path.abspath(FOLDER)
    os.makedirs(folder, mode=0o700)
    configuration = os.path.join(folder, "jupyter_server_config.json")
    descriptor = os.open(configuration, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(settings(idle_seconds, secrets.token_hex(32)), file)
    environment = {
        **os.environ,
        "JUPYTER_CONFIG_DIR": folder,
        "JUPYTER_RUNTIME_DIR": os.path.join(folder, "runtime"),
        "JUPYTER_DATA_DIR": os.path.join(folder, "data"),
    }
    # These variables would replace the token.
    environment.pop("JUPYTER_TOKEN", None)
    environment.pop("JUPYTER_TOKEN_FILE", None)
    os.execve(sys.executable, [sys.executable, "-m", "jupyterlab", "--no-browser"], environment)


def settings(idle_seconds: int, token: str) -> Dict[str, Dict[str, object]]:
    check = max(SHORTEST_CHECK, min(LONGEST_CHECK, idle_seconds // 10))
    server: Dict[str, object] = {
        "ip": "127.0.0.1",
        "port": 8888,
        "port_retries": 200,
        "allow_remote_access": False,
        "allow_root": True,
        "root_dir": os.getcwd(),
    }
    kernels: Dict[str, object] = {}
    if idle_seconds > 0:
        server["shutdown_no_activity_timeout"] = idle_seconds
        server["jpserver_extensions"] = {"tony._notebook": True}
        kernels = {"cull_idle_timeout": idle_seconds, "cull_interval": check, "cull_connected": True, "cull_busy": False}
    return {
        "ServerApp": server,
        "IdentityProvider": {"token": token},
        "MappingKernelManager": kernels,
        # An open terminal would keep an idle server running.
        "TerminalManager": {"cull_inactive_timeout": idle_seconds, "cull_interval": check},
    }


def _jupyter_server_extension_points() -> List[Dict[str, str]]:
    """Tells Jupyter that this module is an extension of its server."""
    return [{"module": "tony._notebook"}]


def _load_jupyter_server_extension(app: Any) -> None:
    """Lets only requests that change something count as activity, because an open page keeps polling the server.

    Jupyter calls this function when it starts. Kernels and terminals record their own activity.
    """
    settings = app.web_app.settings
    log_request = settings["log_function"]
    key = "api_last_activity"
    last = settings.get(key)

    def log_and_correct(handler: Any) -> None:
        nonlocal last
        log_request(handler)
        if handler.request.method in ("GET", "HEAD", "OPTIONS"):
            if last is None:
                settings.pop(key, None)
            else:
                settings[key] = last
        else:
            last = settings.get(key)

    settings["log_function"] = log_and_correct


if __name__ == "__main__":
    main(int(sys.argv[1]))
