"""Downloads the wheels that the nodes need. Usage: download-packages.py REQUEST, where REQUEST is JSON (see
download-packages.ts).

1. Makes pip evaluate environment markers (`; python_version < "3.10"`) for the nodes. pip's options --python-version
   and --platform only select wheels. By default, pip evaluates the markers for the interpreter that runs it.
2. Converts a pyproject.toml or uv.lock to requirements.
3. Runs `pip download` with the user's own settings for registries, proxies and certificates.
"""

import json
import logging
import os
import platform
import sys


def main(request):
    kind, file, folder = request["kind"], request["file"], request["folder"]
    environment = environment_of_nodes(request["version"], request["machine"])
    use_environment(environment)
    if kind == "pyproject":
        file = write_requirements(folder, requirements_of_project(file, environment))
    elif kind == "lock":
        file = write_requirements(folder, requirements_of_lock(file))
    return download(request, file, is_complete=kind in ("lock", "pinned"))


def environment_of_nodes(version, machine):
    """Returns the nodes' environment marker values. If the nodes have the same Python version and processor as this
    machine, uses this machine's values."""
    own_version = "%d.%d" % sys.version_info[:2]
    is_same = (version, machine, "linux", "cpython") == (own_version, platform.machine(), sys.platform, sys.implementation.name)
    full_version = platform.python_version() if is_same else version + ".0"
    return {
        "implementation_name": "cpython",
        "implementation_version": full_version,
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": platform.release() if is_same else "",
        "platform_system": "Linux",
        "platform_version": platform.version() if is_same else "",
        "python_full_version": full_version,
        "python_version": version,
        "sys_platform": "linux",
    }


def use_environment(environment):
    from pip._vendor.packaging import markers

    markers.default_environment = lambda: environment
    if not markers.Marker("python_full_version == '%s'" % environment["python_full_version"]).evaluate():
        refuse("this version of pip cannot resolve packages for another Python than its own")


def requirements_of_project(file, environment):
    from pip._vendor.packaging.specifiers import SpecifierSet

    name = os.path.basename(file)
    project = read_toml(file).get("project", {})
    wanted = project.get("requires-python", "")
    if not SpecifierSet(wanted).contains(environment["python_full_version"], prereleases=True):
        refuse("%s requires Python %s, but the nodes' version is %s" % (name, wanted, environment["python_version"]))
    if "dependencies" not in project:
        refuse("%s has no list project.dependencies" % name)
    return project["dependencies"]


def requirements_of_lock(file):
    """Returns a requirement for each package in a uv.lock that the project needs on the nodes."""
    packages = read_toml(file).get("package", [])
    projects = [package for package in packages if "." in (package["source"].get("virtual"), package["source"].get("editable"))]
    if not projects:
        refuse("uv.lock contains no project: run `uv lock` in the folder of its pyproject.toml")
    needed = {}
    visited = set()
    pending = [dependency for project in projects for dependency in project.get("dependencies", [])]
    while pending:
        dependency = pending.pop()
        if not applies(dependency):
            continue
        package = locked_package(packages, dependency)
        name = package["name"]
        needed[name] = package
        # Each extra adds dependencies. None selects the package's own dependencies.
        for extra in [None, *dependency.get("extra", [])]:
            if (name, extra) not in visited:
                visited.add((name, extra))
                optional = package.get("optional-dependencies", {})
                pending += package.get("dependencies", []) if extra is None else optional.get(extra, [])
    return [requirement_of(package) for package in needed.values()]


def applies(dependency):
    """Returns True if the nodes satisfy a dependency's marker."""
    from pip._vendor.packaging.markers import Marker

    return "marker" not in dependency or Marker(dependency["marker"]).evaluate({"extra": ""})


def locked_package(packages, dependency):
    """Returns the locked package for a dependency. If the lock contains several versions of the package, the dependency
    names one of them."""
    found = [
        package
        for package in packages
        if package["name"] == dependency["name"] and dependency.get("version", package.get("version")) == package.get("version")
    ]
    if len(found) != 1:
        refuse("uv.lock lists %d packages for the dependency %s" % (len(found), dependency["name"]))
    return found[0]


def requirement_of(package):
    if "registry" not in package["source"]:
        refuse("uv.lock takes %s from %s instead of a registry" % (package["name"], " ".join(package["source"])))
    hashes = [wheel["hash"] for wheel in package.get("wheels", []) if "hash" in wheel]
    if not hashes:
        refuse("uv.lock lists no wheel for %s" % package["name"])
    return "%s==%s %s" % (package["name"], package["version"], " ".join("--hash=" + each for each in hashes))


def write_requirements(folder, requirements):
    file = os.path.join(folder, "requirements.txt")
    with open(file, "w", encoding="utf-8") as output:
        output.writelines(line + "\n" for line in requirements)
    return file


def download(request, file, is_complete):
    """Runs pip, and returns its exit code. If the file is complete (lists every package with its checksum), pip must not
    add packages."""
    from pip._internal.cli.main import main as pip

    show_unreadable_pages()
    arguments = ["download", "--no-input", "--disable-pip-version-check", "--progress-bar=off", "--only-binary=:all:"]
    arguments += ["--python-version", request["version"], "--implementation", "cp"]
    if is_complete:
        arguments += ["--no-deps", "--require-hashes"]
    for tag in request["platforms"]:
        arguments += ["--platform", tag]
    return pip([*arguments, "--dest", request["folder"], "--requirement", file])


def show_unreadable_pages():
    """Logs the index pages that pip cannot read. By default, pip reports these pages only with --verbose."""
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: record.getMessage().startswith("Could not fetch URL"))
    logger = logging.getLogger("pip._internal.index.collector")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)


def read_toml(file):
    try:
        import tomllib
    except ImportError:
        from pip._vendor import tomli as tomllib
    with open(file, "rb") as stream:
        try:
            return tomllib.load(stream)
        except tomllib.TOMLDecodeError as error:
            refuse("%s is not valid TOML: %s" % (os.path.basename(file), error))


def refuse(message):
    sys.exit("tony-ts: " + message)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
