"""`files-by-fsspec.py FOLDER`: uses files below FOLDER, a URI, through fsspec and tony.open. Writes the results to
FOLDER/seen.json.
"""

import json
import os
import sys
import tempfile

import fsspec
import tony

root = sys.argv[1]
files = fsspec.filesystem("tony")
content = bytes(range(256)) * 40_000  # longer than a read of the executor


def below(uris):
    return sorted(os.path.relpath(each, root) for each in uris)


def code_of(action):
    try:
        action()
    except (FileNotFoundError, FileExistsError) as error:
        return ["found" if isinstance(error, FileExistsError) else "missing", getattr(error, "code", None)]


with fsspec.open(f"tony://{root}/a/one.txt", "w") as file:
    file.write("one\nzwölf\n")
files.pipe(f"{root}/a/b/two words %20.bin", content)
seen = {"found": below(files.find(root)), "globbed": below(files.glob(f"{root}/*/*.txt"))}
seen["walked"] = [[below([folder]), folders, names] for folder, folders, names in files.walk(root)]
with files.open(f"{root}/a/b/two words %20.bin", "rb") as file:
    file.seek(-300, os.SEEK_END)
    assert file.read() == content[-300:]
    file.seek(5)
    assert file.read() == content[5:]
with tony.open(f"{root}/a/one.txt") as file:
    seen["lines"] = list(file)

files.cp(f"{root}/a", f"{root}/copy", recursive=True)
files.mv(f"{root}/copy/one.txt", f"{root}/copy/moved.txt")
with tempfile.TemporaryDirectory() as local:
    files.get(f"{root}/copy", os.path.join(local, "got"), recursive=True)
    with open(os.path.join(local, "got", "b", "two words %20.bin"), "rb") as file:
        assert file.read() == content
    files.put(os.path.join(local, "got"), f"{root}/put", recursive=True)
files.rm(f"{root}/copy", recursive=True)
files.touch(f"{root}/empty")
seen["left"] = below(files.find(root))
seen["sizes"] = [files.size(f"{root}/{name}") for name in ("a/one.txt", "empty")]
seen["folders"] = [files.isdir(f"{root}/a"), files.isdir(f"{root}/copy"), files.isfile(f"{root}/a/one.txt"), files.exists(f"{root}/none")]
seen["errors"] = [
    code_of(lambda: tony.open(f"{root}/none")),
    code_of(lambda: tony.open(f"{root}/a/one.txt", "x").close()),
    code_of(lambda: files.mv(f"{root}/a/one.txt", f"{root}/empty")),
    code_of(lambda: files.rm(f"{root}/none")),
]
with tony.open(f"{root}/seen.json", "x") as file:
    json.dump(seen, file)
