"""Checks what people read: the width of markdown, and that every path, label and function in it is there.

prose.py [CHECKOUT]: lines of at most WIDTH columns (tables and what has no blank are exempt), table cells of at most
CELL characters, links, paths and Bazel labels of this checkout that exist, also in comments of the code. In _MAPS,
a function or constant that is named after a file must be in that file; in _LIMITS, with that value.
"""

import os
import re
import sys

from checkout import Checkout

WIDTH = 100
CELL = 200
# Maps of the code: `path/to/file.cc` `Function()`, `kConstant`.
_MAPS = ("docs/architecture.md", "docs/limits.md")
# | what | number | `path/to/file.h` `kConstant` |
_LIMITS = "docs/limits.md"
_LIMIT = re.compile(r"^\|[^|]*\| ([\d,]+)(?: ([KMGT])i\w*)? \| `([^`]+)` `(k\w+)` \|$", re.M)
# The table of commands: a row here, and {"name", kHeading, ...} there; those without a heading are hidden.
_COMMANDS = ("docs/cli.md", "tools/cli/commands.cc")
_COMMAND = re.compile(r'^ *\{"([a-z -]+)", k\w+,', re.M)
# Written once, about what was then, with the raw output of tools: paths may be gone, and lines wide.
_PAST = re.compile(r"^docs/results/20")
_LABEL = re.compile(r"(?<![\w:/])//([\w./-]+)(?::([\w./-]+))?")
_PATH = re.compile(r"(?<![\w/.:~$}-])([a-z_]+(?:/[A-Za-z0-9_.-]+)+)")
_FILE = re.compile(r"`((?!NAME)[\w-]+\.(?:h|cc|cuh|cu|pml|proto|py|sh))`")
_TEST = re.compile(r"(?<![\w/:])([a-z][a-z0-9_]*_test)\b")
_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
_BLOCK = re.compile(r"^```.*?^```$", re.M | re.S)
_SPAN = re.compile(r"`([^`]+)`")


def too_wide(path, text):
    """Findings about one markdown file."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("|"):
            for cell in line.strip().strip("|").split("|"):
                if len(cell.strip()) > CELL:
                    yield "%s:%d: a cell of %d characters; at most %d" % (path, number, len(cell.strip()), CELL)
        elif len(line) > WIDTH and " " in line.strip():
            yield "%s:%d: %d columns; at most %d" % (path, number, len(line), WIDTH)


class Names:
    """What paths and labels may mean in this checkout."""

    def __init__(self, checkout):
        self.files = checkout.file_set
        self.tops = {path.split("/", 1)[0] for path in checkout.files if "/" in path}
        self.folders = set()
        for path in checkout.files:
            while path := os.path.dirname(path):
                self.folders.add(path)
        targets = checkout.targets()
        self.labels = set(targets)
        self.file_names = {os.path.basename(path) for path in checkout.files}
        self.target_names = {os.path.basename(target.name) for target in targets.values()}
        self.target_names |= {target.rule for target in targets.values()}
        # Programs and headers that a build makes: paths, too.
        self.made = {"%s/%s" % (target.package, target.name) for target in targets.values()}
        self.made |= {header for target in targets.values() for header in target.headers()}
        for target in targets.values():
            self.made |= {"%s/%s" % (target.package, out) for out in target.attributes.get("outs", [])}

    def has_path(self, path):
        if path in self.files or path in self.folders or path in self.made:
            return True
        # A file's name without its ending, or with what a tool puts behind it.
        return any(path + end in self.files for end in (".h", ".cc", ".py")) or re.search(
            r"\.generated|\.csv$|_test$|NAME|\*", path
        )

    def has_label(self, folder, name):
        # `//shm` may stand for the folder.
        if folder.split("/")[0] not in self.tops or (name is None and folder in self.folders):
            return True
        label = "//%s:%s" % (folder, name or folder.rsplit("/", 1)[-1])
        known = self.labels
        return label in known or "%s/%s" % (folder, name) in self.files or label.replace("_full_test", "_test") in known


def stale(path, text, names):
    """Paths and labels in a file that lead nowhere."""
    for match in _LABEL.finditer(text):
        if not names.has_label(match[1].rstrip("./"), match[2] and match[2].rstrip(".")):
            yield "%s: no target %s" % (path, match[0])
    for match in _PATH.finditer(text):
        named = match[1].rstrip("./")
        if named.split("/")[0] in names.tops and not names.has_path(named):
            yield "%s: no file %s" % (path, named)
    if path.endswith(".md"):
        for name in set(_FILE.findall(text)) - names.file_names:
            yield "%s: no file is called %s" % (path, name)
        for name in set(_TEST.findall(text)) - names.target_names:
            yield "%s: no target is called %s" % (path, name)


def anchors(text):
    """What a link to one of this document's headings says behind the #."""
    headings = re.findall(r"^#+ (.*)$", _BLOCK.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(path, text, checkout, names):
    """Links of a markdown file that lead nowhere."""
    for link, anchor in _LINK.findall(text):
        if "://" in link:
            continue
        target = os.path.normpath(os.path.join(os.path.dirname(path), link)) if link else path
        if target not in names.files and target not in names.folders:
            yield "%s: a link to %s, which is not there" % (path, link)
        elif anchor and anchor not in anchors(checkout.text(target)):
            yield "%s: a link to %s#%s, a heading that is not there" % (path, link, anchor)


def misplaced_functions(path, text, checkout):
    """Functions and constants that a document names after a file which does not have them."""
    file, code = None, ""
    for span in _SPAN.findall(_BLOCK.sub("", text)):
        if span in checkout.file_set:
            file, code = span, checkout.text(span)
        elif file and re.fullmatch(r"\w+\(\)|k[A-Z]\w+", span) and not re.search(r"\b%s\b" % span.rstrip("()"), code):
            yield "%s: %s is not in %s" % (path, span, file)


def _value(name, code):
    """Of a constant whose definition in `code` is arithmetic, or refers to others there; else None."""
    definition = re.search(r"\b%s\b\s*[={]\s*([^;]+)" % name, code)
    if not definition:
        return None
    text = re.sub(r"\b\w+\{(\w+)\}", r"\1", definition[1].split("//")[0]).replace("'", "").rstrip("} ")
    text = re.sub(r"\bk[A-Z]\w+", lambda other: str(_value(other[0], code)), text)
    text = re.sub(r"(?<=\d)[uUlL]+\b", "", text).replace("/", "//")
    return eval(text) if re.fullmatch(r"[\d\s()*/+<-]+", text) else None


def wrong_limits(path, text, checkout):
    """Numbers in the table of limits that are not the code's."""
    for number, unit, file, name in _LIMIT.findall(text):
        said = int(number.replace(",", "")) << " KMGT".index(unit or " ") * 10
        value = _value(name, checkout.text(file)) if file in checkout.file_set else None
        if value != said:
            yield "%s: %s of %s is %s, not %d" % (path, name, file, value, said)


def missing_commands(text, code):
    """Commands that have no row in the document of the command line."""
    for command in _COMMAND.findall(code):
        if "\n| `%s` |" % command not in text:
            yield "%s: no row for the command %s" % (_COMMANDS[0], command)


def _comments(text):
    return "\n".join(re.findall(r"//(?!/)(.*)$", text, re.M))


def findings(checkout):
    names = Names(checkout)
    for path in checkout.files:
        if path.endswith(".md"):
            yield from dead_links(path, checkout.text(path), checkout, names)
        if _PAST.match(path):
            continue
        if path.endswith(".md"):
            yield from too_wide(path, checkout.text(path))
            yield from stale(path, checkout.text(path), names)
            if path in _MAPS:
                yield from misplaced_functions(path, checkout.text(path), checkout)
            if path == _COMMANDS[0] and _COMMANDS[1] in checkout.file_set:
                yield from missing_commands(checkout.text(path), checkout.text(_COMMANDS[1]))
            if path == _LIMITS:
                yield from wrong_limits(path, checkout.text(path), checkout)
        elif re.search(r"\.(h|cc|cu|cuh|proto)$", path):
            yield from stale(path, _comments(checkout.text(path)), names)
        elif path.endswith((".patch", ".bzl")):
            yield from stale(path, checkout.text(path), names)


def main():
    found = sorted(set(findings(Checkout(sys.argv[1] if len(sys.argv) > 1 else "."))))
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
