"""checked_in_ptx: PTX for the simulated GPU, in the repository so that machines without CUDA have it, and kept up to date by a test."""

load("//bazel:cuda.bzl", "without_cuda")
load("@cuda//:defs.bzl", "CUDA_PRESENT", "CUDA_RELEASE", "NVCC")

def checked_in_ptx(name, src, hdrs, architecture = "75"):
    """Exports NAME.ptx and adds NAME_ptx_test, which compares it with what nvcc makes of src.

    The kernels in it have their plain form only: carillon_<kernel>(Args,
    uint32_t* fail_status). Without a toolkit the test skips.

    Args:
      name: of the .ptx, without its ending.
      src: the .cu file.
      hdrs: what src includes.
      architecture: of the virtual GPU, compute_<architecture>.
    """
    native.exports_files([name + ".ptx"])
    if not CUDA_PRESENT:
        without_cuda(name + "_ptx_test")
        return
    generated = name + ".generated.ptx"

    # The first lines name the build of the compiler.
    native.genrule(
        name = name + "_ptx",
        srcs = [src] + hdrs,
        outs = [generated],
        cmd = NVCC + " -std=c++20 -O3 -arch=compute_%s" % architecture +
              " -ptx -DCARILLON_PLAIN_FORMS -I. " +
              "-o $@.tmp $(location %s) && sed '/^\\/\\//d' $@.tmp > $@" % src,
    )
    native.sh_test(
        name = name + "_ptx_test",
        size = "small",
        srcs = ["//bazel:ptx_is_current.sh"],
        args = [
            "$(rootpath %s.ptx)" % name,
            "$(rootpath %s)" % generated,
            CUDA_RELEASE,
            "//%s:%s_ptx" % (native.package_name(), name),
        ],
        data = [
            name + ".ptx",
            generated,
        ],
        # Runs none of our code.
        tags = ["no-sanitizer"],
    )
