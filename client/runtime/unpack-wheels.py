"""Unpacks wheels. Usage: unpack-wheels.py REQUEST, where REQUEST is JSON with the fields of WheelPlaces and a `wheels`
field that lists the files.

The wheel format is described at https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

import configparser
import json
import os
import re
import shutil
import sys
import zipfile

SCRIPT = """#!/usr/bin/env python3
import sys
from {module} import {first}
if __name__ == "__main__":
    sys.exit({call}())
"""


def place_of(name, folder, root):
    """Returns the path to which a file in a wheel is unpacked, or None if the file is not needed. The path is in one of
    the two folders."""
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in name:
        raise ValueError("the wheel contains the path " + name)
    if not (len(parts) > 2 and re.search(r"^[^/]+\.data$", parts[0])):
        return os.path.join(folder, *parts)
    kind, rest = parts[1], parts[2:]
    if kind in ("purelib", "platlib"):
        return os.path.join(folder, *rest)
    if root is None or kind not in ("scripts", "data"):
        return None
    return os.path.join(root, *(["bin"] if kind == "scripts" else []), *rest)


def copy(archive, entry, target, is_script):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with archive.open(entry) as source:
        first = source.readline(256) if is_script else b""
        with open(target, "wb") as output:
            # Scripts that run with any Python interpreter begin with `#!python` or `#!pythonw`.
            output.write(b"#!/usr/bin/env python3\n" if re.match(rb"#!pythonw?\b[^/]*$", first.strip()) else first)
            shutil.copyfileobj(source, output, 1 << 20)
    if is_script or (entry.external_attr >> 16) & 0o111:
        os.chmod(target, 0o755)


def add_commands(archive, root):
    """Writes a script for each command that the wheel's entry points define."""
    names = [name for name in archive.namelist() if re.search(r"^[^/]+\.dist-info/entry_points\.txt$", name)]
    for name in names:
        points = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
        points.optionxform = str
        points.read_string(archive.read(name).decode("utf-8"))
        for section in ("console_scripts", "gui_scripts"):
            for command, point in points.items(section) if points.has_section(section) else ():
                match = re.match(r"([\w.]+)\s*:\s*([\w.]+)", point)
                if match is None or not re.match(r"[\w][\w.+-]*$", command):
                    continue
                module, call = match.groups()
                target = os.path.join(root, "bin", command)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "w", encoding="utf-8") as output:
                    output.write(SCRIPT.format(module=module, first=call.split(".")[0], call=call))
                os.chmod(target, 0o755)


def unpack(wheel, folder, root, wanted):
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            if entry.is_dir() or not re.search(wanted, entry.filename):
                continue
            target = place_of(entry.filename, folder, root)
            if target is not None:
                copy(archive, entry, target, "/scripts/" in entry.filename and root is not None and target.startswith(os.path.join(root, "bin")))
        if root is not None:
            add_commands(archive, root)


request = json.loads(sys.argv[1])
for file in request["wheels"]:
    try:
        unpack(file, request["folder"], request["root"], request["wanted"])
    except Exception as error:
        sys.exit(f"{os.path.basename(file)}: {type(error).__name__}: {error}")
