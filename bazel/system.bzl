"""The @system repository: libraries and tools that Debian installs.

Labels are in system.BUILD. A missing package is named here, once, before a
compiler complains about a missing header.
"""

# A file that shows that the package is there.
_PACKAGES = {
    "/usr/bin/grpc_cpp_plugin": "protobuf-compiler-grpc",
    "/usr/bin/protoc": "protobuf-compiler",
    "/usr/include/CLI/CLI.hpp": "libcli11-dev",
    "/usr/include/boost/interprocess/mapped_region.hpp": "libboost-dev",
    "/usr/include/fmt/format.h": "libfmt-dev",
    "/usr/include/google/protobuf/message.h": "libprotobuf-dev",
    "/usr/include/grpcpp/grpcpp.h": "libgrpc++-dev",
    "/usr/include/nlohmann/json.hpp": "nlohmann-json3-dev",
    "/usr/include/spdlog/spdlog.h": "libspdlog-dev",
    "/usr/include/yaml-cpp/yaml.h": "libyaml-cpp-dev",
    "/usr/include/zmq.h": "libzmq3-dev",
    "/usr/include/zmq.hpp": "cppzmq-dev",
}

# Tests and benchmarks need these; a testbed is built without them.
_TEST_PACKAGES = ["libbenchmark-dev", "libgmock-dev", "libgtest-dev", "librapidcheck-dev"]

# Comes with the packages above, and is used by a few files of ours, too.
_OPENSSL = {"/usr/include/openssl/ssl.h": "libssl-dev"}

# Used by one device, or by the dashboard.
_PCAP = {"/usr/include/pcap/pcap.h": "libpcap-dev"}
_PROMETHEUS = {"/usr/include/prometheus/text_serializer.h": "prometheus-cpp-dev"}
_XDP = {
    "/usr/include/bpf/bpf.h": "libbpf-dev",
    "/usr/include/xdp/xsk.h": "libxdp-dev",
}

# Used by a link with the engine ucx; the library is loaded when it is asked for.
_UCX = {"/usr/include/ucp/api/ucp.h": "libucx-dev"}

# Used by `carillon top`.
_NCURSES = {"/usr/include/ncurses.h": "libncurses-dev"}

# The module of devices in Python; without these all but that is built.
_PYTHON = ["libpython3.11-dev", "pybind11-dev"]

# What the packages above include, and the compiler.
_TOOLCHAIN = ["g++", "g++-12", "libabsl-dev", "libc6-dev", "libgrpc-dev", "libstdc++-12-dev"]

def _versions(ctx, packages):
    """A line for each package: its name and its version.

    One that is not installed counts with the version that apt would install: then
    its installation makes nothing be built again.
    """
    installed = ctx.execute(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\\n"] + packages)
    lines = [line[len("installed "):] for line in installed.stdout.splitlines() if line.startswith("installed ")]
    names = [line.split(" ")[0] for line in lines]
    for package in packages:
        if package not in names:
            candidate = ctx.execute(["apt-cache", "show", "--no-all-versions", package])
            lines += [
                package + line[len("Version:"):]
                for line in candidate.stdout.splitlines()
                if line.startswith("Version:")
            ]
    return "".join([line + "\n" for line in sorted(lines)])

def _python(ctx):
    """Makes Python's headers known; returns whether they and pybind11's are there."""
    asked = ctx.execute(["/usr/bin/python3", "-c", "import sysconfig; print(sysconfig.get_path('platinclude'))"])
    headers = ctx.path(asked.stdout.strip() if asked.return_code == 0 else "/nonexistent")
    if not headers.get_child("Python.h").exists or not ctx.path("/usr/include/pybind11/pybind11.h").exists:
        return False
    ctx.symlink(headers, "python")
    return True

def _system_impl(ctx):
    missing = [
        package
        for path, package in _PACKAGES.items() + _OPENSSL.items() + _PCAP.items() + _PROMETHEUS.items() + _XDP.items() + _UCX.items() + _NCURSES.items()
        if not ctx.path(path).exists
    ]
    if missing:
        fail("Debian packages are missing; run ./carillon, or: apt-get install " + " ".join(missing))
    # Bazel does not look into /usr/include, so its caches would keep objects made with
    # the headers of an older release; a define on every compilation tells them apart.
    versions = _versions(ctx, sorted(_PACKAGES.values()) + _TEST_PACKAGES + _TOOLCHAIN)
    openssl = ctx.execute(["dpkg-query", "-W", "-f", "${Version}"] + _OPENSSL.values())
    pcap = ctx.execute(["dpkg-query", "-W", "-f", "${Version}"] + _PCAP.values())
    prometheus = ctx.execute(["dpkg-query", "-W", "-f", "${Version}"] + _PROMETHEUS.values())
    xdp = ctx.execute(["dpkg-query", "-W", "-f", "${Version}"] + _XDP.values())
    ucx = ctx.execute(["dpkg-query", "-W", "-f", "${Version}"] + _UCX.values())
    ncurses = ctx.execute(["dpkg-query", "-W", "-f", "${Version}"] + _NCURSES.values())
    python = ctx.execute(["dpkg-query", "-W", "-f", "${Version} "] + _PYTHON)
    ctx.file("defs.bzl", "PYBIND11_PRESENT = %s\n" % _python(ctx), executable = False)
    ctx.symlink("/usr/bin/protoc", "protoc")
    ctx.symlink("/usr/bin/grpc_cpp_plugin", "grpc_cpp_plugin")
    ctx.template("BUILD", ctx.attr.build_file, executable = False, substitutions = {
        "%{openssl_version}": str(hash(openssl.stdout)),
        "%{pcap_version}": str(hash(pcap.stdout)),
        "%{prometheus_version}": str(hash(prometheus.stdout)),
        "%{xdp_version}": str(hash(xdp.stdout)),
        "%{ucx_version}": str(hash(ucx.stdout)),
        "%{ncurses_version}": str(hash(ncurses.stdout)),
        "%{python_version}": str(hash(python.stdout)),
        "%{versions}": str(hash(versions)),
    })

system_libraries = repository_rule(
    implementation = _system_impl,
    attrs = {
        "build_file": attr.label(default = "//bazel:system.BUILD", allow_single_file = True),
    },
    local = True,
)
