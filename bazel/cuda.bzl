"""cuda_library and cuda_fatbin: .cu files compiled by nvcc.

Both make nothing when CUDA is absent. without_cuda stands for a test then.
"""

load("//bazel:embed.bzl", "embed")
load("@cuda//:defs.bzl", "CUDA_PRESENT", "CUDA_RELEASE", "NVCC")

# Machine code for A100 and H100/H200, and PTX for what comes after them.
_ARCHITECTURES = [
    "-gencode=arch=compute_80,code=sm_80",
    "-gencode=arch=compute_90,code=sm_90",
    "-gencode=arch=compute_90,code=compute_90",
]

# Machine code in a fatbin shrinks to a quarter. LZ4 ("speed") unpacks fast, and the
# fake driver reads it; toolkits before 13 know no other way, nor the second option.
_COMPRESSION = ["-Xfatbin=-compress-all"] + (
    [] if CUDA_RELEASE.startswith("12.") else ["--compress-mode=speed"]
)

_ATTRS = {
    "srcs": attr.label_list(allow_files = [".cu"], mandatory = True),
    "hdrs": attr.label_list(allow_files = [".h", ".cuh", ".cu"]),
    "deps": attr.label_list(providers = [CcInfo]),
    "copts": attr.string_list(),
}

# What ptxas says of every function goes to the first argument, warnings also to
# stderr.
_REPORTED = """\
report="$1"; shift
"$@" 2> "$report" || { cat "$report" >&2; exit 1; }
grep -i warning "$report" >&2 || true
"""

def _compile(ctx, src, output, mode, report = None):
    """Compiles a .cu file with nvcc.

    Args:
      ctx: of the rule.
      src: the .cu file.
      output: the file to make.
      mode: what of it, "-c" or "-fatbin".
      report: the file to make of what ptxas says; None: no such file.
    """
    context = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context
    args = ctx.actions.args()
    args.add_all([mode, "-std=c++20", "-O3", "-lineinfo", "-Xcompiler=-fPIC,-Wall,-g1"])

    # nvcc names temporary files after its process id, which repeats in sandboxes.
    args.add("--objdir-as-tempdir")
    args.add_all(_ARCHITECTURES)
    args.add_all(_COMPRESSION)
    args.add_all(["-I.", "-I" + ctx.bin_dir.path])
    args.add_all(context.quote_includes, before_each = "-I", uniquify = True)
    args.add_all(context.includes, before_each = "-I")
    args.add_all(context.system_includes, before_each = "-isystem")
    args.add_all(context.defines, before_each = "-D")
    args.add_all(ctx.attr.copts)
    args.add("-o", output)
    args.add(src)
    if report:
        args.add("-Xptxas=-v")
    command = ctx.actions.args()
    command.add_all([report] if report else [])
    command.add(NVCC)
    ctx.actions.run_shell(
        command = _REPORTED if report else '"$@"',
        arguments = [command, args],
        inputs = depset(ctx.files.srcs + ctx.files.hdrs, transitive = [context.headers]),
        outputs = [output] + ([report] if report else []),
        # Another toolkit at the same path must not find this result in the cache.
        env = {"CARILLON_CUDA_RELEASE": CUDA_RELEASE, "PATH": "/usr/bin:/bin"},
        mnemonic = "Nvcc",
        progress_message = "Compiling %s with nvcc" % src.short_path,
    )

def _nvcc_impl(ctx):
    objects = []
    for src in ctx.files.srcs:
        obj = ctx.actions.declare_file("%s/%s.o" % (ctx.label.name, src.basename))
        _compile(ctx, src, obj, "-c")
        objects.append(obj)
    return [DefaultInfo(files = depset(objects))]

_nvcc = rule(implementation = _nvcc_impl, attrs = _ATTRS)

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

def _fatbin_impl(ctx):
    if len(ctx.files.srcs) != 1:
        fail("cuda_fatbin takes one .cu file")
    name = ctx.attr.library
    src = ctx.files.srcs[0]
    fatbin = ctx.actions.declare_file(name + ".fatbin")
    report = ctx.actions.declare_file(name + "_ptxas.txt")
    _compile(ctx, src, fatbin, "-fatbin", report)

    header, obj = embed(ctx, fatbin, name, ctx.attr.namespace, ctx.attr.accessor, "%s, as a fatbin" % src.short_path)
    return [
        DefaultInfo(files = depset([fatbin])),
        OutputGroupInfo(
            header = depset([header]),
            object = depset([obj]),
            report = depset([report]),
        ),
    ]

_fatbin = rule(
    implementation = _fatbin_impl,
    attrs = dict(
        _ATTRS,
        library = attr.string(mandatory = True),
        namespace = attr.string(mandatory = True),
        accessor = attr.string(mandatory = True),
    ),
)

def _shared_impl(ctx):
    files = getattr(ctx.attr.fatbin[OutputGroupInfo], ctx.attr.output)
    return [DefaultInfo(files = files, runfiles = ctx.runfiles(transitive_files = files))]

# What nvcc made as every build configuration gets it: it runs once, not once more
# for each sanitizer.
_shared = rule(
    implementation = _shared_impl,
    attrs = {
        "fatbin": attr.label(cfg = "host", mandatory = True),
        "output": attr.string(mandatory = True),
    },
)

def cuda_fatbin(
        name,
        src,
        namespace,
        accessor,
        hdrs = [],
        deps = [],
        copts = [],
        **kwargs):
    """A cc_library that carries a .cu file's fatbin as bytes, for cuModuleLoadData.

    Its header <name>.h has `std::span<const std::byte> accessor()`, the target
    <name>_fatbin is the file itself, and <name>_ptxas.txt what ptxas -v says of
    its kernels, for each GPU. Needs neither the CUDA runtime nor a
    driver to link. Without a toolkit this makes nothing, as cuda_library.

    Args:
      name: of the cc_library and of its header.
      src: the .cu file.
      namespace: of the accessor.
      accessor: name of the function.
      hdrs: what src includes beside deps.
      deps: cc_library targets whose headers src includes.
      copts: further arguments of nvcc.
      **kwargs: passed on (visibility, testonly, tags).
    """
    if not CUDA_PRESENT:
        return
    generated = name + "_fatbin"
    _fatbin(
        name = generated,
        # Not for "//...": see _shared.
        tags = kwargs.pop("tags", []) + ["manual"],
        library = name,
        srcs = [src],
        namespace = namespace,
        accessor = accessor,
        hdrs = hdrs,
        deps = deps,
        copts = copts,
        **kwargs
    )
    native.filegroup(
        name = generated + "_header",
        srcs = [generated],
        output_group = "header",
        **kwargs
    )
    for output in ["object", "report"]:
        _shared(
            name = generated + "_" + output,
            fatbin = generated,
            output = output,
            **kwargs
        )
    native.cc_library(
        name = name,
        srcs = [generated + "_object"],
        hdrs = [generated + "_header"],
        **kwargs
    )

def without_cuda(name):
    """A test that says that it was skipped, in place of one that needs the toolkit.

    So `carillon test` tells what did not run: cc_test(...) if CUDA_PRESENT else
    without_cuda(NAME).

    Args:
      name: of the test.
    """
    native.sh_test(
        name = name,
        size = "small",
        srcs = ["//bazel:skip.sh"],
        args = ["'built without the CUDA toolkit'"],
        tags = ["no-sanitizer"],
    )
