"""Checks what documents say of the code: where a function is, what a limit is, which commands and tests there are.

facts.py [CHECKOUT]: TREE names all folders; in MAPS, a function or constant that is named after a file is in that file;
in LIMITS, with that value; in COMMANDS, each command of the program has a row; in PROMISES, each test case that is named
exists.
"""

import re
import sys

from checkout import Checkout

# Names every folder of depth 2: `gpu_daemon/event`.
TREE = "docs/architecture.md"
# `path/to/file.cc` `Function()`, `kConstant`
MAPS = ["docs/architecture.md", "docs/limits.md"]
# | what | number | `path/to/file.h` `kConstant` |
LIMITS = "docs/limits.md"
# A row here for each {"name", kHeading, ...} there; what has no heading is hidden.
COMMANDS = ("docs/cli.md", "tools/cli/commands.cc")
# | promise | ACaseThatHoldsIt |
PROMISES = "docs/guarantees.md"

_BLOCK = re.compile(r"^```.*?^```$", re.M | re.S)
_SPAN = re.compile(r"`([^`]+)`")
_NAME = re.compile(r"\w+\(\)|k[A-Z]\w+")
_LIMIT = re.compile(r"^\|[^|]*\| ([\d,]+)(?: ([KMGT])i\w*)? \| `([^`]+)` `(k\w+)` \|$", re.M)
_CASE = re.compile(r"\b[A-Z][a-z0-9]*(?:[A-Z][a-z0-9]*){2,}\b")
_COMMAND = re.compile(r'^ *\{"([a-z -]+)", k\w+,', re.M)


def missing_folders(path, checkout):
    """Folders that the map of the tree leaves out."""
    text = checkout.text(path)
    folders = {"/".join(file.split("/")[:2]) for file in checkout.files if file.count("/") > 1}
    for folder in sorted(folders):
        if not re.search(r"^docs/|_corpus$|/testdata$", folder) and "`%s`" % folder not in text:
            yield "%s: no row for %s" % (path, folder)


def misplaced_names(path, checkout):
    """Functions and constants that a document names after a file which does not have them."""
    file, code = None, ""
    for span in _SPAN.findall(_BLOCK.sub("", checkout.text(path))):
        if span in checkout.file_set:
            file, code = span, checkout.text(span)
        elif file and _NAME.fullmatch(span) and not re.search(r"\b%s\b" % span.rstrip("()"), code):
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


def wrong_limits(path, checkout):
    """Numbers in the table of limits that are not the code's."""
    for number, unit, file, name in _LIMIT.findall(checkout.text(path)):
        said = int(number.replace(",", "")) << " KMGT".index(unit or " ") * 10
        value = _value(name, checkout.text(file)) if file in checkout.file_set else None
        if value != said:
            yield "%s: %s of %s is %s, not %d" % (path, name, file, value, said)


def missing_commands(document, table, checkout):
    """Commands that have no row in the document of the command line."""
    text = checkout.text(document)
    for command in _COMMAND.findall(checkout.text(table)):
        if "\n| `%s` |" % command not in text:
            yield "%s: no row for the command %s" % (document, command)


def missing_cases(path, checkout):
    """Test cases that hold a promise and are not there any more."""
    tests = "".join(checkout.text(test) for test in checkout.files if test.endswith(("_test.cc", ".mjs")))
    for row in re.findall(r"^\|.*\| ([^|]*) \|$", checkout.text(path), re.M):
        for case in _CASE.findall(row):
            if not re.search(r"\b%s\b" % case, tests):
                yield "%s: no test case %s" % (path, case)


def findings(checkout):
    if TREE in checkout.file_set:
        yield from missing_folders(TREE, checkout)
    for path in MAPS:
        if path in checkout.file_set:
            yield from misplaced_names(path, checkout)
    if LIMITS in checkout.file_set:
        yield from wrong_limits(LIMITS, checkout)
    if PROMISES in checkout.file_set:
        yield from missing_cases(PROMISES, checkout)
    if checkout.file_set.issuperset(COMMANDS):
        yield from missing_commands(*COMMANDS, checkout)


def main():
    found = sorted(set(findings(Checkout(sys.argv[1] if len(sys.argv) > 1 else "."))))
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
