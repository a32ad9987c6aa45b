"""cuda_library: .cu files compiled by nvcc. Makes nothing when CUDA is absent."""

load("@cuda//:defs.bzl", "CUDA_PRESENT", "CUDA_RELEASE", "NVCC")

# Machine code for A100 and H100/H200, and PTX for what comes after them.
_ARCHITECTURES = [
    "-gencode=arch=compute_80,code=sm_80",
    "-gencode=arch=compute_90,code=sm_90",
    "-gencode=arch=compute_90,code=compute_90",
]

def _nvcc_impl(ctx):
    context = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context
    objects = []
    for src in ctx.files.srcs:
        obj = ctx.actions.declare_file("%s/%s.o" % (ctx.label.name, src.basename))
        args = ctx.actions.args()
        args.add_all(["-c", "-std=c++20", "-O3", "-lineinfo", "-Xcompiler=-fPIC,-Wall,-g1"])
        # nvcc names temporary files after its process id, which repeats in sandboxes.
        args.add("--objdir-as-tempdir")
        args.add_all(_ARCHITECTURES)
        args.add_all(["-I.", "-I" + ctx.bin_dir.path])
        args.add_all(context.quote_includes, before_each = "-I", uniquify = True)
        args.add_all(context.includes, before_each = "-I")
        args.add_all(context.system_includes, before_each = "-isystem")
        args.add_all(context.defines, before_each = "-D")
        args.add_all(ctx.attr.copts)
        args.add("-o", obj)
        args.add(src)
        ctx.actions.run(
            executable = NVCC,
            arguments = [args],
            inputs = depset(ctx.files.srcs + ctx.files.hdrs, transitive = [context.headers]),
            outputs = [obj],
            # Another toolkit at the same path must not find this result in the cache.
            env = {"CARILLON_CUDA_RELEASE": CUDA_RELEASE, "PATH": "/usr/bin:/bin"},
            mnemonic = "Nvcc",
            progress_message = "Compiling %s with nvcc" % src.short_path,
        )
        objects.append(obj)
    return [DefaultInfo(files = depset(objects))]

_nvcc = rule(
    implementation = _nvcc_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"], mandatory = True),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh", ".cu"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "copts": attr.string_list(),
    },
)

def cuda_library(
        name,
        srcs,
        hdrs = [],
        deps = [],
        copts = [],
        linkopts = [],
        alwayslink = False,
        **kwargs):
    """A cc_library whose sources nvcc compiles. Links the static CUDA runtime.

    Without a toolkit this makes nothing: name it in deps only under
    `if CUDA_PRESENT` (load that from @cuda//:defs.bzl).

    Args:
      name: of the cc_library.
      srcs: .cu files.
      hdrs: .h and .cuh files, and .cu files that others include.
      deps: cc_library and cuda_library targets.
      copts: further arguments of nvcc.
      linkopts: as in cc_library.
      alwayslink: as in cc_library; for sources that register themselves.
      **kwargs: passed on (visibility, testonly, tags).
    """
    if not CUDA_PRESENT:
        return
    _nvcc(
        name = name + "_nvcc",
        srcs = srcs,
        hdrs = hdrs,
        deps = deps,
        copts = copts,
        **kwargs
    )
    native.cc_library(
        name = name,
        srcs = [name + "_nvcc"],
        hdrs = hdrs,
        linkopts = linkopts,
        alwayslink = alwayslink,
        deps = deps + ["@cuda//:cudart"],
        **kwargs
    )
