"""Lets Debian's own Bazel (bazel-bootstrap 4.2.3) build without the network.

Debian splits Bazel's rule sets into packages under /usr/share/bazel. Every
repository that this Bazel would otherwise download is defined here from those
folders. Why, and what else was tried: docs/decisions/001-bazel-on-debian.md.
"""

_RULES = "/usr/share/bazel/rules"

# Debian's rules_cc 0.0.4 asks for a function that Debian's Bazel 4.2.3 lacks.
_RULES_CC_FIXES = [
    "cc/private/rules_impl/compiler_flag.bzl",
    "cc/private/rules_impl/cc_flags_supplier.bzl",
]

def _rules_cc_impl(ctx):
    source = ctx.path(_RULES + "/cc")
    if not source.exists:
        fail("%s is missing: apt-get install bazel-rules-cc (./carillon does it)" % source)
    result = ctx.execute(["cp", "-RL", "%s/." % source, "."])
    if result.return_code != 0:
        fail("cannot copy %s: %s" % (source, result.stderr))
    for name in _RULES_CC_FIXES:
        text = ctx.read(name)
        text = text.replace(', "use_cpp_toolchain")', ")")
        text = text.replace("use_cpp_toolchain()", '["@bazel_tools//tools/cpp:toolchain_type"]')
        ctx.file(name, text, executable = False)

_rules_cc = repository_rule(implementation = _rules_cc_impl, local = True)

def _no_coverage_impl(ctx):
    ctx.file("coverage.sh", "#!/bin/sh\necho 'coverage is not set up' >&2\nexit 1\n")
    ctx.file("BUILD", "\n".join([
        'sh_binary(name = "%s", srcs = ["coverage.sh"], visibility = ["//visibility:public"])' % name
        for name in ["coverage_report_generator", "lcov_merger"]
    ]))

# Every test target asks for these tools, even when no coverage is wanted.
_no_coverage = repository_rule(implementation = _no_coverage_impl)

def debian_bazel_rules():
    """Defines the rule repositories that Debian's Bazel does not carry itself.

    Does nothing under a released Bazel, which brings its own in WORKSPACE mode.
    Debian's build is the one that has no version.
    """
    if native.bazel_version:
        return
    _rules_cc(name = "rules_cc")
    native.local_repository(name = "rules_java", path = _RULES + "/java")
    native.local_repository(name = "rules_proto", path = _RULES + "/proto")
    native.local_repository(name = "bazel_skylib", path = "/usr/share/bazel/tools/skylib")
    native.local_repository(name = "platforms", path = "/usr/share/bazel/platforms")
    _no_coverage(name = "remote_coverage_tools")
