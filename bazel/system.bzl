"""The @system repository: libraries and tools that Debian installs.

Labels are in system.BUILD. A missing package is named here, once, before a
compiler complains about a missing header.
"""

# A file that shows that the package is there.
_PACKAGES = {
    "/usr/bin/grpc_cpp_plugin": "protobuf-compiler-grpc",
    "/usr/bin/protoc": "protobuf-compiler",
    "/usr/include/CLI/CLI.hpp": "libcli11-dev",
    "/usr/include/benchmark/benchmark.h": "libbenchmark-dev",
    "/usr/include/boost/interprocess/mapped_region.hpp": "libboost-dev",
    "/usr/include/fmt/format.h": "libfmt-dev",
    "/usr/include/gmock/gmock.h": "libgmock-dev",
    "/usr/include/google/protobuf/message.h": "libprotobuf-dev",
    "/usr/include/grpcpp/grpcpp.h": "libgrpc++-dev",
    "/usr/include/gtest/gtest.h": "libgtest-dev",
    "/usr/include/nlohmann/json.hpp": "nlohmann-json3-dev",
    "/usr/include/rapidcheck.h": "librapidcheck-dev",
    "/usr/include/spdlog/spdlog.h": "libspdlog-dev",
    "/usr/include/yaml-cpp/yaml.h": "libyaml-cpp-dev",
    "/usr/include/zmq.h": "libzmq3-dev",
    "/usr/include/zmq.hpp": "cppzmq-dev",
}

# Comes with the packages above, and is used by a few files of ours, too.
_OPENSSL = {"/usr/include/openssl/ssl.h": "libssl-dev"}

# What the packages above include, and the compiler.
_TOOLCHAIN = ["g++", "g++-12", "libabsl-dev", "libc6-dev", "libgrpc-dev", "libstdc++-12-dev"]

def _system_impl(ctx):
    missing = [
        package
        for path, package in _PACKAGES.items() + _OPENSSL.items()
        if not ctx.path(path).exists
    ]
    if missing:
        fail("Debian packages are missing; run ./carillon, or: apt-get install " + " ".join(missing))
    # Bazel does not look into /usr/include, so its caches would keep objects made with
    # the headers of an older release; a define on every compilation tells them apart.
    versions = ctx.execute(
        ["dpkg-query", "-W", "-f", "${Package} ${Version}\\n"] + sorted(_PACKAGES.values()) + _TOOLCHAIN,
    )
    openssl = ctx.execute(["dpkg-query", "-W", "-f", "${Version}"] + _OPENSSL.values())
    ctx.symlink("/usr/bin/protoc", "protoc")
    ctx.symlink("/usr/bin/grpc_cpp_plugin", "grpc_cpp_plugin")
    ctx.template("BUILD", ctx.attr.build_file, executable = False, substitutions = {
        "%{openssl_version}": str(hash(openssl.stdout)),
        "%{versions}": str(hash(versions.stdout)),
    })

system_libraries = repository_rule(
    implementation = _system_impl,
    attrs = {
        "build_file": attr.label(default = "//bazel:system.BUILD", allow_single_file = True),
    },
    local = True,
)
