"""Checks that each C++ target names exactly its direct dependencies.

deps.py [--fix] [CHECKOUT]: prints one line for each dependency that a target's files include and its `deps` lack (+), or
the other way round (-). --fix writes the lists anew, sorted.
"""

import argparse
import ast
import collections
import os
import re
import sys

from checkout import Checkout, absolute, short

# The system's libraries by how their headers begin.
SYSTEM = {
    "CLI/": "@system//:cli11",
    "absl/": "@system//:absl",
    "benchmark/": "@system//:benchmark",
    "boost/": "@system//:boost",
    "cuda": "@cuda//:headers",
    "fmt/": "@system//:fmt",
    "gmock/": "@system//:gmock",
    "grpc": "@system//:grpc",
    "gtest/": "@system//:gtest",
    "ncurses": "@system//:ncurses",
    "nlohmann": "@system//:json",
    "openssl/": "@system//:openssl",
    "pybind11/": "@system//:pybind11",
    "pcap/": "@system//:pcap",
    "ucp/": "@system//:ucx",
    "prometheus/": "@system//:prometheus",
    "xdp/": "@system//:xdp",
    "bpf/": "@system//:xdp",
    "rapidcheck": "@system//:rapidcheck",
    "spdlog/": "@system//:spdlog",
    "yaml-cpp": "@system//:yaml_cpp",
    "zlib": "@system//:zlib",
    "zmq": "@system//:zmq",
}
# Needed at link time by those that name them, whoever includes what.
LINKED = {
    "@cuda//:cudart",
    "@system//:gmock",
    "@system//:grpc_reflection",
    "@system//:gtest_main",
    "@system//:openssl",
    "@system//:protobuf",
    "@system//:versions",
}
# Rules whose `deps` are C++ libraries.
RULES = ("cc_binary", "cc_library", "cc_test", "cuda_fatbin", "cuda_library", "fuzz_test")
FUZZ_INPUT = "//base/testing:fuzz_input"  # that fuzz_test adds itself


class Deps:
    def __init__(self, checkout):
        self.checkout = checkout
        self.targets = checkout.targets()
        self.providers = collections.defaultdict(list)
        for label, target in sorted(self.targets.items()):
            for header in target.headers():
                self.providers[header].append(label)
        self.unknown = []  # "TARGET: FILE includes HEADER, which no target has"

    def wanted(self, target):
        """The labels that its deps should hold."""
        had = set(target.labels("deps"))
        wanted = set(self._included(target, had))
        for label in had - wanted:
            if self._is_kept(target, label):
                wanted.add(label)
        return wanted

    def _included(self, target, had):
        own = set(target.files())
        for path in sorted(own & self.checkout.file_set):
            for header, quoted in self.checkout.includes(path):
                if header in own:
                    continue
                providers = self.providers.get(header)
                if providers:
                    if target.label not in providers:
                        named = [label for label in providers if label in had]
                        yield from named or providers[:1]
                elif header in self.checkout.file_set:
                    if re.search(r"\.(h|cuh)$", header):
                        self.unknown.append("%s: %s includes %s, which no target gives" % (target.label, path, header))
                else:
                    yield from self._system(target, header, had)

    def _system(self, target, header, had):
        label = next((label for start, label in SYSTEM.items() if header.startswith(start)), None)
        if label == "@system//:gtest" and had & {"@system//:gtest_main", "@system//:gmock"}:
            return
        if label == "@cuda//:headers" and (target.rule.startswith("cuda") or "@cuda//:cudart" in had):
            return
        if label:
            yield label

    def _is_kept(self, target, label):
        if label in LINKED or not target.files():
            return True
        other = self.targets.get(label)
        if other is None:  # a file: a linker script
            return label.startswith("//") and label[2:].replace(":", "/") in self.checkout.file_set
        if other.attributes.get("alwayslink") or not other.headers():
            return True
        return target.generates_sources() and other.rule != "cc_library"

    def findings(self):
        """(target, missing, unneeded) of each target that is wrong."""
        wanted = {
            label: self.wanted(target) for label, target in sorted(self.targets.items()) if target.rule in RULES
        }
        # Tests that one call makes share one list.
        shared = collections.defaultdict(set)
        for label, labels in wanted.items():
            target = self.targets[label]
            shared[(target.package, target.line)] |= labels
        for label, labels in wanted.items():
            target = self.targets[label]
            had = set(target.labels("deps"))
            missing = labels - had - ({FUZZ_INPUT} if target.rule == "fuzz_test" else set())
            unneeded = had - shared[(target.package, target.line)]
            if missing or unneeded:
                yield target, missing, unneeded


def fix(checkout, package, changes):
    """`changes`: line of a call -> (rule, labels to add, labels to drop)."""
    path = os.path.join(checkout.root, package, "BUILD")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    lines = text.split("\n")
    for call in sorted(_calls(text), key=lambda call: -call.lineno):
        change = changes.pop((call.lineno, getattr(call.func, "id", "")), None)
        if change is None:
            continue
        keywords = {keyword.arg: keyword for keyword in call.keywords}
        add, drop = change
        if "deps" not in keywords:
            last = call.keywords[-1].value
            indent = " " * call.keywords[0].col_offset
            line = lines[last.end_lineno - 1]
            new = ",\n%s%s" % (indent, _list(add, package, indent))
            lines[last.end_lineno - 1] = line[: last.end_col_offset] + new + line[last.end_col_offset :]
            continue
        value = keywords["deps"].value
        # ["a"] + (["b"] if CUDA_PRESENT else []): the first list.
        while isinstance(value, ast.BinOp):
            value = value.left
        if not isinstance(value, ast.List):
            print("%s:%d: write these deps by hand: + %s - %s" % (path, call.lineno, sorted(add), sorted(drop)))
            continue
        had = {absolute(element.value, package) for element in value.elts}
        indent = " " * keywords["deps"].col_offset
        new = _list((had | add) - drop, package, indent)[len("deps = ") :]
        start, end = value.lineno - 1, value.end_lineno - 1
        new = lines[start][: value.col_offset] + new + lines[end][value.end_col_offset :]
        lines[start : end + 1] = new.split("\n")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


def _calls(text):
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and node.keywords]


def _list(labels, package, indent):
    order = {":": 0, "/": 1, "@": 2}
    names = sorted((short(label, package) for label in labels), key=lambda name: (order[name[0]], name))
    if len(names) == 1:
        return 'deps = ["%s"]' % names[0]
    return "deps = [\n%s%s]" % ("".join('%s    "%s",\n' % (indent, name) for name in names), indent)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fix", action="store_true", help="write the lists anew")
    parser.add_argument("checkout", nargs="?", default=".")
    arguments = parser.parse_args()
    checkout = Checkout(arguments.checkout)
    deps = Deps(checkout)
    findings = list(deps.findings())
    for line in sorted(set(deps.unknown)):
        print(line)
    changes = collections.defaultdict(dict)
    for target, missing, unneeded in findings:
        for mark, labels in (("+", missing), ("-", unneeded)):
            for label in sorted(labels):
                print("%s %s %s" % (target.label, mark, label))
        add, drop = changes[target.package].get((target.line, target.rule), (set(), set()))
        changes[target.package][(target.line, target.rule)] = (add | missing, drop | unneeded)
    if arguments.fix:
        for package, calls in changes.items():
            fix(checkout, package, calls)
        return 0
    return 1 if findings or deps.unknown else 0


if __name__ == "__main__":
    sys.exit(main())
