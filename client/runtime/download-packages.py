"""Downloads the wheels for a requirements file, pyproject.toml or uv.lock: `download-packages.py REQUEST`, where REQUEST is JSON
(see download-packages.ts). It runs the pip of this interpreter, with the user's own settings for registries, proxies and certificates.

pip's options --python-version and --platform select wheels, but pip evaluates environment markers (`; python_version < "3.10"`) for the
interpreter that runs it. Therefore, this script first replaces the environment of the markers with that of the nodes.
"""

import json
import os
import platform
import sys


def refuse(message):
    sys.exit("tony-ts: " + message)


def marker_environment(version, machine):
    """Returns the environment of the nodes, or this machine's own environment if it is the same."""
    own = "%d.%d" % sys.version_info[:2]
    is_same = (version, machine, "linux", "cpython") == (own, platform.machine(), sys.platform, sys.implementation.name)
    full = platform.python_version() if is_same else version + ".0"
    return {
        "implementation_name": "cpython",
        "implementation_version": full,
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": platform.release() if is_same else "",
        "platform_system": "Linux",
        "platform_version": platform.version() if is_same else "",
        "python_full_version": full,
        "python_version": version,
        "sys_platform": "linux",
    }


def use_environment(environment):
    from pip._vendor.packaging import markers

    markers.default_environment = lambda: environment
    if not markers.Marker("python_full_version == '%s'" % environment["python_full_version"]).evaluate():
        refuse("this version of pip cannot resolve packages for another Python than its own")


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


def requirements_of_project(file, environment):
    from pip._vendor.packaging.specifiers import SpecifierSet

    project = read_toml(file).get("project", {})
    wanted = project.get("requires-python", "")
    if not SpecifierSet(wanted).contains(environment["python_full_version"], prereleases=True):
        refuse("%s requires Python %s, but the nodes' version is %s" % (os.path.basename(file), wanted, environment["python_version"]))
    if "dependencies" not in project:
        refuse("%s has no list project.dependencies" % os.path.basename(file))
    return project["dependencies"]


class Lock:
    """The packages of a uv.lock that the project in the lock's own folder needs on the nodes."""

    def __init__(self, file):
        self.packages = read_toml(file).get("package", [])
        self.found = {}

    def of(self, dependency):
        named = [
            package
            for package in self.packages
            if package["name"] == dependency["name"] and dependency.get("version", package.get("version")) == package.get("version")
        ]
        if len(named) != 1:
            refuse("uv.lock lists %d packages for the dependency %s" % (len(named), dependency["name"]))
        return named[0]

    def add(self, dependencies):
        from pip._vendor.packaging.markers import Marker

        for dependency in dependencies:
            if "marker" in dependency and not Marker(dependency["marker"]).evaluate({"extra": ""}):
                continue
            package = self.of(dependency)
            extras = self.found.get(package["name"], (package, None))[1]
            wanted = (extras or set()) | set(dependency.get("extra", []))
            if extras == wanted:
                continue
            self.found[package["name"]] = (package, wanted)
            self.add(package.get("dependencies", []))
            for extra in wanted:
                self.add(package.get("optional-dependencies", {}).get(extra, []))

    def requirements(self):
        roots = [package for package in self.packages if "." in (package["source"].get("virtual"), package["source"].get("editable"))]
        if not roots:
            refuse("uv.lock contains no project: run `uv lock` in the folder of its pyproject.toml")
        for root in roots:
            self.add(root.get("dependencies", []))
        return [self.line(package) for package, _ in self.found.values()]

    @staticmethod
    def line(package):
        if "registry" not in package["source"]:
            refuse("uv.lock takes %s from %s instead of a registry" % (package["name"], " ".join(package["source"])))
        hashes = [wheel["hash"] for wheel in package.get("wheels", []) if "hash" in wheel]
        if not hashes:
            refuse("uv.lock lists no wheel of %s" % package["name"])
        return "%s==%s %s" % (package["name"], package["version"], " ".join("--hash=" + each for each in hashes))


def main(request):
    file, folder = request["file"], request["folder"]
    environment = marker_environment(request["version"], request["machine"])
    use_environment(environment)
    kind = request["kind"]
    options = ["--no-deps", "--require-hashes"] if kind in ("lock", "pinned") else []
    if kind in ("lock", "pyproject"):
        lines = requirements_of_project(file, environment) if kind == "pyproject" else Lock(file).requirements()
        file = os.path.join(folder, "requirements.txt")
        with open(file, "w", encoding="utf-8") as output:
            output.writelines(line + "\n" for line in lines)
    for tag in request["platforms"]:
        options += ["--platform", tag]
    from pip._internal.cli.main import main as pip

    arguments = ["download", "--no-input", "--disable-pip-version-check", "--progress-bar=off", "--only-binary=:all:"]
    return pip(
        arguments
        + ["--python-version", request["version"], "--implementation", "cp", *options, "--dest", folder, "--requirement", file]
    )


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
