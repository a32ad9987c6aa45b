"""What the checks read: the checkout's files, and the targets of its BUILD files.

BUILD files are Python to the eye: they are run here with rules that only note how they were called.
"""

import builtins
import dataclasses
import os
import re
import subprocess

SOURCE = re.compile(r"\.(h|cc|cu|cuh)$")
_INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)


@dataclasses.dataclass
class Target:
    rule: str
    package: str
    name: str
    line: int  # of its call in the BUILD file
    attributes: dict

    @property
    def label(self):
        return "//%s:%s" % (self.package, self.name)

    def labels(self, attribute):
        return [absolute(label, self.package) for label in _flat(self.attributes.get(attribute))]

    def files(self):
        """Its own source files, as paths in the checkout."""
        names = _flat(self.attributes.get("srcs")) + _flat(self.attributes.get("hdrs"))
        names += _flat(self.attributes.get("src"))
        return [self._path(name) for name in names if not name.startswith((":", "//", "@"))]

    def headers(self):
        """The headers that it gives to those that depend on it."""
        path = "%s/%s" % (self.package, self.name)
        if self.rule in ("embedded_file", "cuda_fatbin"):
            return [path + ".h"]
        if self.rule == "cc_grpc_library":
            stems = [self._path(name)[: -len(".proto")] for name in _flat(self.attributes["srcs"])]
            return [stem + end for stem in stems for end in (".pb.h", ".grpc.pb.h")]
        if self.rule in ("cc_library", "cuda_library"):
            return [self._path(name) for name in _flat(self.attributes.get("hdrs")) if name[0] not in ":/@"]
        return []

    def generates_sources(self):
        return any(name[0] in ":/@" for name in _flat(self.attributes.get("srcs")))

    def _path(self, name):
        return "%s/%s" % (self.package, name) if self.package else name


class _Select(list):
    """select({...}): what every configuration but the fuzzer's has."""

    def __init__(self, branches):
        super().__init__(branches.get("//conditions:default", []))


def _flat(value):
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)


def absolute(label, package):
    if label.startswith("@"):
        return label
    if label.startswith("//"):
        return label if ":" in label else "%s:%s" % (label, label.rsplit("/", 1)[-1])
    return "//%s:%s" % (package, label.lstrip(":"))


def short(label, package):
    """The label as a BUILD file of the package writes it."""
    if label.startswith("@"):
        return label
    folder, name = label[2:].split(":")
    if folder == package:
        return ":" + name
    return "//" + folder if folder.rsplit("/", 1)[-1] == name else label


class Checkout:
    def __init__(self, root):
        self.root = root
        listed = subprocess.run(
            ["git", "-C", root, "ls-files", "-co", "--exclude-standard"], stdout=subprocess.PIPE, check=True, text=True
        ).stdout.splitlines()
        self.files = sorted(path for path in listed if os.path.isfile(os.path.join(root, path)))
        self.file_set = frozenset(self.files)
        self.packages = [os.path.dirname(path) for path in self.files if os.path.basename(path) == "BUILD"]

    def text(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
            return file.read()

    def sources(self):
        return [path for path in self.files if SOURCE.search(path)]

    def includes(self, path):
        """(path, quoted) of each #include."""
        return [(name, mark == '"') for mark, name in _INCLUDE.findall(self.text(path))]

    def targets(self):
        """Label -> Target, of all packages. CUDA's are there with and without a toolkit."""
        found = {}
        for package in self.packages:
            for target in self._read(package):
                # A macro may share its name with a library; includes go by the latter.
                if target.label not in found or target.rule.startswith("cc_"):
                    found[target.label] = target
        return found

    def _read(self, package):
        path = os.path.join(package, "BUILD")
        found = []

        def rule(kind):
            def call(*_, **attributes):
                if "name" in attributes:
                    line = _line_of_caller(path)
                    found.append(Target(kind, package, attributes["name"], line, attributes))

            return call

        class Names(dict):
            def __missing__(self, name):
                return getattr(builtins, name) if name in ("len", "range", "sorted") else rule(name)

        def nothing(*_, **__):
            return None

        names = Names(
            CUDA_PRESENT=True,
            CUDA_RELEASE="",
            NVCC="nvcc",
            exports_files=nothing,
            glob=lambda *a, **k: self._glob(package, *a, **k),
            load=nothing,
            package=nothing,
            select=_Select,
        )
        exec(compile(self.text(path), path, "exec"), names)  # pylint: disable=exec-used
        return found

    def _glob(self, package, patterns, exclude=()):
        def matcher(pattern):
            parts = re.split(r"(\*\*/|\*)", pattern)
            return re.compile("".join({"**/": "(.*/)?", "*": "[^/]*"}.get(part, re.escape(part)) for part in parts) + "$")

        prefix = package + "/" if package else ""
        inner = [other for other in self.packages if other.startswith(prefix) and other != package]
        names = [
            path[len(prefix) :]
            for path in self.files
            if path.startswith(prefix) and not any(path.startswith(other + "/") for other in inner)
        ]
        wanted = [matcher(pattern) for pattern in patterns]
        unwanted = [matcher(pattern) for pattern in exclude]
        return [
            name
            for name in names
            if any(pattern.match(name) for pattern in wanted) and not any(pattern.match(name) for pattern in unwanted)
        ]


def _line_of_caller(path):
    import sys

    frame = sys._getframe(2)  # pylint: disable=protected-access
    while frame and frame.f_code.co_filename != path:
        frame = frame.f_back
    return frame.f_lineno if frame else 0
