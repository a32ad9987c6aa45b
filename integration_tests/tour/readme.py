"""Reads markdown: its console blocks and its copies of source files."""

import re


def console_steps(text):
    """[(command, expected output lines)] of all ```console blocks, in order."""
    steps = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.M | re.S):
        for line in block.replace("\\\n", "").splitlines():
            if line.startswith("$ "):
                steps.append((line[2:], []))
            else:
                steps[-1][1].append(line)
    return steps


def built_programs(text):
    """The Bazel labels of the programs that the console blocks run out of bazel-bin."""
    commands = "\n".join(command for command, _ in console_steps(text))
    return {f"//{folder}:{name}" for folder, name in re.findall(r"bazel-bin/(\S+)/(\w+)", commands)}


_COPY = re.compile(r"(<!-- file: (\S+) -->\n```\w+\n)(.*?)(^```)", re.M | re.S)


def copies(text):
    """[(path, the document's copy of that file)]."""
    return [(match[2], match[3]) for match in _COPY.finditer(text)]


def with_copies(text, read):
    """The document with every copy replaced by read(path)."""
    return _COPY.sub(lambda m: m[1] + read(m[2]) + m[4], text)


def output_matches(expected, actual):
    """Whether the lines of `actual` are `expected`, in which '...' stands for any lines."""
    if not expected:
        return not actual
    if expected[0] == "...":
        return any(output_matches(expected[1:], actual[i:]) for i in range(len(actual) + 1))
    return bool(actual) and expected[0] == actual[0] and output_matches(expected[1:], actual[1:])
