"""cc_grpc_library and python_messages: code from .proto files."""

_ProtoSources = provider(
    doc = "The .proto files of a target and of all that it imports.",
    fields = {"transitive": "depset of files"},
)

def _protoc_impl(ctx):
    sources = depset(
        ctx.files.srcs,
        transitive = [dep[_ProtoSources].transitive for dep in ctx.attr.deps],
    )
    headers = []
    code = []
    for src in ctx.files.srcs:
        stem = src.basename[:-len(".proto")]
        headers += [ctx.actions.declare_file(stem + ext) for ext in [".pb.h", ".grpc.pb.h"]]
        code += [ctx.actions.declare_file(stem + ext) for ext in [".pb.cc", ".grpc.pb.cc"]]
    args = ctx.actions.args()
    args.add("-I.")
    args.add("-I/usr/include")
    args.add(ctx.executable._grpc_plugin, format = "--plugin=protoc-gen-grpc=%s")
    args.add("--cpp_out=" + ctx.bin_dir.path)
    args.add("--grpc_out=" + ctx.bin_dir.path)
    args.add_all(ctx.files.srcs)
    ctx.actions.run(
        executable = ctx.executable._protoc,
        arguments = [args],
        inputs = sources,
        tools = [ctx.executable._grpc_plugin],
        outputs = headers + code,
        mnemonic = "Protoc",
        progress_message = "Generating C++ from %s" % ctx.label,
    )
    return [
        DefaultInfo(files = depset(headers + code)),
        OutputGroupInfo(headers = depset(headers), code = depset(code)),
        _ProtoSources(transitive = sources),
    ]

_protoc = rule(
    implementation = _protoc_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".proto"], mandatory = True),
        "deps": attr.label_list(providers = [_ProtoSources]),
        "_protoc": attr.label(
            default = "@system//:protoc",
            allow_single_file = True,
            executable = True,
            cfg = "exec",
        ),
        "_grpc_plugin": attr.label(
            default = "@system//:grpc_cpp_plugin",
            allow_single_file = True,
            executable = True,
            cfg = "exec",
        ),
    },
)

def _python_messages_impl(ctx):
    sources = depset(transitive = [ctx.attr.protos[_ProtoSources].transitive])
    modules = [
        ctx.actions.declare_file(src.basename[:-len(".proto")] + "_pb2.py")
        for src in sources.to_list()
    ]
    args = ctx.actions.args()
    args.add("-I.")
    args.add("-I/usr/include")
    args.add("--python_out=" + ctx.bin_dir.path)
    args.add_all(sources)
    ctx.actions.run(
        executable = ctx.executable._protoc,
        arguments = [args],
        inputs = sources,
        outputs = modules,
        mnemonic = "ProtocPython",
        progress_message = "Generating Python from %s" % ctx.label,
    )
    return [DefaultInfo(
        files = depset(modules),
        runfiles = ctx.runfiles(files = modules),
    )]

_python_messages = rule(
    implementation = _python_messages_impl,
    attrs = {
        "protos": attr.label(providers = [_ProtoSources], mandatory = True),
        "_protoc": attr.label(
            default = "@system//:protoc",
            allow_single_file = True,
            executable = True,
            cfg = "exec",
        ),
    },
)

def python_messages(name, protos, **kwargs):
    """The messages of a cc_grpc_library of this package, without imports from others, as Python modules.

    Python imports follow: from proto import events_pb2.
    """
    _python_messages(name = name, protos = _generated_by(protos), **kwargs)

def _generated_by(label):
    if ":" not in label:
        label = "%s:%s" % (label, label.split("/")[-1])
    return label + "_protoc"

def cc_grpc_library(name, srcs, deps = [], **kwargs):
    """A cc_library of the messages and services in .proto files.

    Imports are relative to the workspace root: import "proto/events.proto".
    C++ includes follow: "proto/events.pb.h" and "proto/events.grpc.pb.h".

    Args:
      name: of the cc_library.
      srcs: .proto files of this package; they may import each other.
      deps: other cc_grpc_library targets whose files these import.
      **kwargs: passed on (visibility, testonly, tags).
    """
    generated = name + "_protoc"
    _protoc(
        name = generated,
        srcs = srcs,
        deps = [_generated_by(dep) for dep in deps],
        **kwargs
    )
    for group in ["headers", "code"]:
        native.filegroup(
            name = "%s_%s" % (generated, group),
            srcs = [generated],
            output_group = group,
            **kwargs
        )
    native.cc_library(
        name = name,
        srcs = [generated + "_code"],
        hdrs = [generated + "_headers"],
        copts = ["-w"],
        deps = deps + ["@system//:grpc"],
        **kwargs
    )
