"""Runs `pip download` for the nodes. Usage: download-packages.py REQUEST, where REQUEST is JSON (see download-packages.ts).

1. Makes environment markers (`; python_version < "3.10"`) apply to the nodes. pip's options --python-version and
   --platform only select wheels; pip evaluates the markers for the interpreter that runs it. PEP 508 defines each marker
   as a value of the standard library, so this program replaces these values in its own process.
2. Passes the dependencies of a pyproject.toml to pip as the metadata of a wheel.
3. Runs pip's command line with the user's own settings for registries, proxies and certificates.

The requirements may come from somebody else, so pip must not run any code of the packages. With --only-binary, pip takes
only wheels from an index, but it still builds packages at URLs and in folders, which the metadata of a wheel may require.
pip builds packages and copies repositories only in other processes, so this program prevents pip from starting any.
"""

import importlib
import json
import logging
import os
import platform
import re
import runpy
import sys
import types
import zipfile

# A name, and what may follow it: extras, versions, a URL or a marker. pip checks the rest.
REQUIREMENT = r"[A-Za-z0-9][\w.-]*\s*([\[(<>=!~;@].*)?\Z"


def main(request):
    arguments = [*request["arguments"], "--python-version", imitate_nodes(request["version"], request["machine"])]
    if request["project"] is not None:
        arguments.append(project_wheel(request["project"]))
    sys.addaudithook(refuse_programs)
    show_unreadable_pages()
    sys.argv = ["pip", "download", *arguments]
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


def imitate_nodes(version, machine):
    """Sets the values that define markers, and returns the full Python version. Keeps the values of this machine if its
    Python version and processor are those of the nodes."""
    if (version, machine) == ("%d.%d" % sys.version_info[:2], platform.machine()):
        return "%d.%d.%d" % sys.version_info[:3]
    major, minor = version.split(".")
    platform.machine = lambda: machine
    platform.python_version = lambda: version + ".0"
    platform.python_version_tuple = lambda: (major, minor, "0")
    platform.release = platform.version = lambda: ""
    sys.implementation.version = types.SimpleNamespace(major=int(major), minor=int(minor), micro=0, releaselevel="final", serial=0)
    return version + ".0"


def project_wheel(file):
    """Writes a wheel that requires what the project requires, and returns its path. tony-ts deletes the wheel's copy in the
    folder of the packages."""
    name = os.path.basename(file)
    project = read_toml(file).get("project", {})
    if "dependencies" not in project:
        refuse("%s has no list project.dependencies" % name)
    for each in project["dependencies"]:
        if not isinstance(each, str) or not re.match(REQUIREMENT, each) or len(each.splitlines()) != 1:
            refuse("%s is not a requirement" % json.dumps(each))
    fields = [("Requires-Dist", each) for each in project["dependencies"]]
    fields += [("Requires-Python", one_line) for one_line in project.get("requires-python", "").splitlines()]
    fields = [("Metadata-Version", "2.1"), ("Name", "tony-ts-job"), ("Version", "0"), *fields]
    wheel = os.path.abspath("tony_ts_job-0-py3-none-any.whl")
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tony_ts_job-0.dist-info/METADATA", "".join("%s: %s\n" % field for field in fields))
        archive.writestr("tony_ts_job-0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    return wheel


def read_toml(file):
    name = os.path.basename(file)
    parser = toml_parser()
    if parser is None:
        problem = "Python %d.%d of this machine cannot read %s without the package tomli" % (*sys.version_info[:2], name)
        refuse(problem + ": run `python3 -m pip install tomli`, or list the requirements in a requirements.txt")
    with open(file, "rb") as stream:
        try:
            return parser.load(stream)
        except parser.TOMLDecodeError as error:
            refuse("%s is not valid TOML: %s" % (name, error))


def toml_parser():
    """Returns the parser of the standard library (Python 3.11). An older Python may have tomli, of its own or as a part of pip."""
    for module in ("tomllib", "tomli", "pip._vendor.tomli"):
        try:
            return importlib.import_module(module)
        except ImportError:
            pass
    return None


def refuse_programs(event, arguments):
    """Audit hook. Allows only the program from which pip may get passwords."""
    if event not in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn"):
        return
    program = os.path.basename(os.fsdecode(arguments[0] or (arguments[1][0] if len(arguments) > 1 else "")))
    if program != "keyring":
        if program in ("git", "hg", "svn", "bzr") or program.startswith("python"):
            print("tony-ts: A package must be built from its source, but the nodes can use only wheels", file=sys.stderr, flush=True)
        raise PermissionError("tony-ts does not let pip run %s" % program)


def show_unreadable_pages():
    """Logs the index pages that pip cannot read. By default, pip reports these pages only with --verbose."""
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: record.getMessage().startswith("Could not fetch URL"))
    logger = logging.getLogger("pip")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)


def refuse(message):
    sys.exit("tony-ts: " + message)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
