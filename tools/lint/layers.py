"""Checks that folders include each other one way only, and that none is a heap.

layers.py [CHECKOUT]: reads every #include. Three rules:
  - a folder includes only what its line in ARROWS allows;
  - no folders of depth 1 or 2 include each other in a circle;
  - no folder holds more than MOST_FILES files, tests not counted.
"""

import collections
import os
import re
import sys

from checkout import Checkout

# Folder, or file -> what it may include beside itself. The longest prefix of a path counts.
ARROWS = {
    "base": [],
    "shm": ["base"],
    "shm/faults": ["base", "proto", "shm"],
    "kernels/simt": ["shm"],
    "kernels": ["base", "kernels"],
    "sim": ["base", "kernels", "sim"],
    "gpu_daemon": ["base", "shm", "proto", "kernels", "sim"],
    # The names of a link's engines are values of an option.
    "gpu_daemon/options": ["base", "shm", "proto", "kernels", "sim", "gpu_daemon", "mesh/link_engine.h"],
    # In simulated time it is all of gpud on a host without the GPU.
    "gpu_daemon/relay": ["base", "shm", "proto", "kernels/catalogue.h", "gpu_daemon", "mesh"],
    "gpu_daemon/backends/remote": [
        "base", "shm", "proto", "kernels/simt", "kernels/catalogue.h", "gpu_daemon", "mesh"],
    "devices/sdk": ["base", "shm", "proto"],
    "devices": ["base", "shm", "proto", "devices/sdk", "kernels/memcached/wire.h", "kernels/memcached/gnom_wire.h"],
    # A router makes the tables that its kernels look routes up in.
    "devices/router": ["base", "shm", "proto", "devices/sdk", "devices/packet_io", "kernels/forwarding",
        "kernels/ipsec"],
    "devices/link": ["base", "shm", "proto", "devices/sdk", "mesh"],
    # A workload knows its kernel's arguments, and checks its results; so it does with an FPGA's frames.
    "devices/cpu_host": [
        "base", "shm", "proto", "devices/sdk", "devices/fpga", "kernels/background/references.h",
        "kernels/background/edge_references.h", "kernels/background/types.h"],
    "mesh": ["base", "shm", "proto"],
    "tools/testbed": ["base", "shm", "proto", "devices/sdk"],
    "tools/testbed/hosts": ["base", "mesh/etcd", "tools/testbed"],
    # The programs' tables of options.
    "tools/testbed/topology": [
        "base", "shm/recorder", "devices/sdk/device_options.h", "devices/cpu_host/cpu_host_options.h",
        "devices/fpga/fpga_options.h", "devices/link/linkd_options.h", "devices/nic/nic_options.h", "devices/router/router_options.h",
        "gpu_daemon/options"],
    "tools/plots": ["base"],
    # Devices in Python.
    "tools/python": ["base", "shm", "devices/sdk"],
    # Its test compares it with the kernels of memcached.
    "tools/cfg_sim": ["base", "kernels", "sim"],
    "tools/hash_sim": ["base", "kernels/memcached"],
    "tools/cli": ["base", "shm", "proto", "mesh/etcd", "mesh/tls_stream.h", "sim", "devices/sdk", "tools/testbed", "tools/plots", "tools/cfg_sim", "tools/hash_sim"],
    # With logs and JSON as the command line has them.
    "tools/dashboard": [
        "base", "shm", "proto", "tools/testbed", "tools/cli/ui", "tools/cli/commands/testbed/log_files.h"],
    "tools/dashboard/browser": ["devices/sdk"],
    "tools/bench": ["base", "shm", "proto", "devices/sdk", "mesh", "tools/testbed", "tools/plots", "tools/cli/ui", "kernels/memcached"],
    # Kernels as tasks of Pagoda's MasterKernel, on a simulated GPU; and as a CUDA program
    # launches them.
    "tools/bench/narrow": [
        "base", "devices/sdk", "kernels", "sim", "gpu_daemon/backends/cuda/pagoda",
        "gpu_daemon/backends/cuda/driver", "gpu_daemon/backends/cuda/edge", "gpu_daemon/event", "shm",
        "tools/bench", "tools/cli/ui"],
    "tools/gpu_check": [
        "base", "shm", "kernels", "sim/exec", "gpu_daemon", "devices/sdk", "tools/bench",
        "tools/plots"],
    "integration_tests": [
        "base", "shm", "proto", "devices/sdk", "devices/packet_io", "tools/testbed", "tools/bench",
        "tools/dashboard/test_http_client.h"],
    # What gpud sends, and what a client makes of it.
    # It is a hostile near end.
    "integration_tests/another_kernel.cc": ["kernels/simt"],
    "integration_tests/linked_sessions_test.cc": [
        "base", "shm", "proto", "devices/sdk", "mesh", "kernels/catalogue.h", "integration_tests/testbed_process.h"],
    "integration_tests/remote_test.cc": [
        "base", "shm", "proto", "devices/sdk", "mesh", "tools/testbed", "integration_tests/linked_hosts.h",
        "integration_tests/testbed_process.h"],
    "integration_tests/snapshot_picture_test.cc": [
        "gpu_daemon/control/rpc/snapshot_changes.h", "tools/testbed/client"],
    # The control plane and the doorbell poller in one thread.
    "integration_tests/simulation": ["base", "shm", "proto", "gpu_daemon", "tools/testbed/ledger", "integration_tests"],
    "bazel": [],
}
MOST_FILES = 40

_TEST = re.compile(r"(_test|_test_util|_fuzz|_benchmark)\.|(^|/)(test|fake)_|_fixture\.|(^|/)testing/")


def is_test(path):
    return bool(_TEST.search(path)) or path.startswith("integration_tests/")


def _longest_prefix(path, prefixes):
    found = [prefix for prefix in prefixes if path == prefix or path.startswith(prefix + "/")]
    return max(found, key=len, default=None)


def included(checkout):
    """(file, included file) of all pairs in the checkout; generated headers, too."""
    tops = {path.split("/", 1)[0] for path in checkout.files if "/" in path}
    for path in checkout.sources():
        for header, quoted in checkout.includes(path):
            if quoted and header.split("/", 1)[0] in tops and "/" in header:
                yield path, header


def forbidden(pairs):
    for path, header in pairs:
        home = _longest_prefix(path, ARROWS)
        if home is None:
            yield "%s: no line of ARROWS says what this folder may include" % path
        elif not _longest_prefix(header, [home] + ARROWS[home]):
            yield "%s includes %s: %s may include %s" % (path, header, home, ", ".join(ARROWS[home]) or "nothing else")


def circles(pairs, depth):
    """Sets of folders that include each other, tests not counted."""

    def folder(path):
        return "/".join(os.path.dirname(path).split("/")[:depth])

    edges = collections.defaultdict(set)
    for path, header in pairs:
        if not is_test(path) and folder(path) != folder(header):
            edges[folder(path)].add(folder(header))
    reach = {start: _reachable(start, edges) for start in edges}
    found = set()
    for start, ends in reach.items():
        if start in ends:
            found.add(tuple(sorted(end for end in ends if start in reach.get(end, ()))))
    return sorted(found)


def _reachable(start, edges):
    seen, open_ends = set(), [start]
    while open_ends:
        for end in edges.get(open_ends.pop(), ()):
            if end not in seen:
                seen.add(end)
                open_ends.append(end)
    return seen


def heaps(checkout):
    count = collections.Counter(
        os.path.dirname(path) for path in checkout.files if not _TEST.search(path) and "_corpus/" not in path
    )
    for folder, files in sorted(count.items()):
        if files > MOST_FILES and not folder.startswith(("docs/results", "integration_tests/mutations")):
            yield "%s holds %d files; at most %d, then it needs rooms" % (folder, files, MOST_FILES)


def main():
    checkout = Checkout(sys.argv[1] if len(sys.argv) > 1 else ".")
    pairs = list(included(checkout))
    findings = list(forbidden(pairs)) + list(heaps(checkout))
    for depth in (1, 2):
        findings += ["these folders include each other: %s" % ", ".join(circle) for circle in circles(pairs, depth)]
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
