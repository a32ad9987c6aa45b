"""Checks what people read: the width of markdown, and that every path, label and link in it leads somewhere.

prose.py [CHECKOUT]: lines of at most WIDTH columns (tables and what has no blank are exempt), table cells of at most
CELL characters, links, paths and Bazel labels of this checkout that exist, also in comments of the code.
"""

import os
import re
import sys

from checkout import Checkout

WIDTH = 100
CELL = 200
# Written once, about what was then, with the raw output of tools: paths may be gone, and lines wide.
_PAST = re.compile(r"^docs/results/20")
_LABEL = re.compile(r"(?<![\w:/])//([\w./-]+)(?::([\w./-]+))?")
_PATH = re.compile(r"(?<![\w/.:~$}-])([a-z_]+(?:/[A-Za-z0-9_.-]+)+)")
_FILE = re.compile(r"`((?!NAME)[\w-]+\.(?:h|cc|cuh|cu|pml|proto|py|sh))`")
_TEST = re.compile(r"(?<![\w/:])([a-z][a-z0-9_]*_test)\b")
_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
_BLOCK = re.compile(r"^```.*?^```$", re.M | re.S)


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
