"""The @cuda repository: finds NVIDIA's toolkit, or says why there is none.

CUDA is optional. @cuda//:defs.bzl always exists; its values are empty when
CUDA_PRESENT is False.
"""

# The first release that has all that the back-end uses (green contexts came
# last); its nvcc takes -std=c++20.
_OLDEST = [12, 5]

def _nvcc_candidates(ctx):
    if ctx.os.environ.get("CARILLON_NO_CUDA", "0") != "0":
        return []
    candidates = []
    home = ctx.os.environ.get("CUDA_HOME")
    if home:
        candidates.append(ctx.path(home + "/bin/nvcc"))
    candidates.append(ctx.path("/usr/local/cuda/bin/nvcc"))
    on_path = ctx.which("nvcc")
    if on_path:
        candidates.append(on_path)
    return [nvcc for nvcc in candidates if nvcc.exists]

def _find(ctx):
    """Returns (nvcc, release, root, libs, error); error is None when all is there."""
    candidates = _nvcc_candidates(ctx)
    if not candidates:
        return None, "", None, None, "no nvcc in $CUDA_HOME/bin, /usr/local/cuda/bin or PATH"
    nvcc = candidates[0]
    asked = ctx.execute([nvcc, "--version"])
    if asked.return_code != 0 or "release " not in asked.stdout:
        return nvcc, "", None, None, "%s --version failed: %s" % (nvcc, asked.stderr)
    release = asked.stdout.split("release ")[1].split(",")[0]
    if [int(number) for number in release.split(".")[:2]] < _OLDEST:
        return nvcc, release, None, None, "%s is CUDA %s; needs %d.%d or newer" % (nvcc, release, _OLDEST[0], _OLDEST[1])
    root = nvcc.realpath.dirname.dirname
    for libs in ["lib64", "lib", "targets/x86_64-linux/lib", "lib/x86_64-linux-gnu"]:
        libs = root.get_child(*libs.split("/"))
        if libs.get_child("libcudart_static.a").exists:
            return nvcc, release, root, libs, None
    return nvcc, release, root, None, "no libcudart_static.a below %s" % root

def _cuda_toolkit_impl(ctx):
    nvcc, release, root, libs, error = _find(ctx)
    ctx.file("defs.bzl", "\n".join([
        "CUDA_PRESENT = %s" % (error == None),
        "CUDA_RELEASE = %r" % ("" if error else release),
        "NVCC = %r" % ("" if error else str(nvcc)),
    ]) + "\n", executable = False)
    if error:
        ctx.file("BUILD", "", executable = False)
        return
    ctx.symlink(root.get_child("include"), "include")
    ctx.file("BUILD", """
package(default_visibility = ["//visibility:public"])

# For C++ files that name CUDA's types, cuda.h above all; nvcc finds its headers
# by itself.
cc_library(
    name = "headers",
    hdrs = glob(["include/*.h", "include/*.hpp", "include/crt/*"]),
    includes = ["include"],
)

# For C++ files that call the CUDA runtime.
cc_library(
    name = "cudart",
    deps = [":headers"],
    linkopts = ["-L%s", "-lcudart_static", "-ldl", "-lrt", "-pthread"],
)
""" % libs, executable = False)

cuda_toolkit = repository_rule(
    implementation = _cuda_toolkit_impl,
    environ = ["CUDA_HOME", "CARILLON_NO_CUDA", "PATH"],
    configure = True,
    local = True,
)
