"""embedded_file: a file's bytes in a binary."""

_ASSEMBLER = """\
.section .rodata
.balign 64
.global {symbol}_begin
.hidden {symbol}_begin
{symbol}_begin:
.incbin "{path}"
.global {symbol}_end
.hidden {symbol}_end
{symbol}_end:
.section .note.GNU-stack, "", %progbits
"""

_HEADER = """\
#ifndef {guard}
#define {guard}

#include <cstddef>
#include <span>

extern "C" {{
__attribute__((visibility("hidden"))) extern const std::byte {symbol}_begin[];
__attribute__((visibility("hidden"))) extern const std::byte {symbol}_end[];
}}

namespace {namespace} {{

// {sources}, in this binary.
inline std::span<const std::byte> {accessor}() {{
  return {{{symbol}_begin, {symbol}_end}};
}}

}}  // namespace {namespace}

#endif  // {guard}
"""

def embed(ctx, file, name, namespace, accessor, what):
    """Makes <name>.h, with an accessor of the file's bytes, and an object with them.

    Args:
      ctx: of the rule.
      file: whose bytes.
      name: of the header.
      namespace: of the accessor.
      accessor: name of the function.
      what: the bytes are, for the header's reader.

    Returns:
      The header and the object.
    """

    # One symbol a target, whatever the output tree is called.
    path = "%s/%s" % (ctx.label.package, name)
    symbol = "carillon_" + path.replace("/", "_").replace("-", "_").replace(".", "_")
    assembler = ctx.actions.declare_file(name + ".s")
    ctx.actions.write(assembler, _ASSEMBLER.format(symbol = symbol, path = file.path))
    obj = ctx.actions.declare_file(name + "_bytes.o")

    # By hand and not as a source of cc_library: that one would not notice that
    # the bytes changed.
    ctx.actions.run(
        executable = "/usr/bin/as",
        arguments = ["-o", obj.path, assembler.path],
        inputs = [assembler, file],
        outputs = [obj],
        mnemonic = "Embed",
        progress_message = "Embedding %s" % file.short_path,
    )
    header = ctx.actions.declare_file(name + ".h")
    ctx.actions.write(header, _HEADER.format(
        guard = symbol.upper() + "_H_",
        symbol = symbol,
        namespace = namespace,
        accessor = accessor,
        sources = what,
    ))
    return header, obj

def _embedded_impl(ctx):
    header, obj = embed(ctx, ctx.file.src, ctx.attr.library, ctx.attr.namespace, ctx.attr.accessor, ctx.file.src.short_path)
    return [
        DefaultInfo(files = depset([header, obj])),
        OutputGroupInfo(header = depset([header]), object = depset([obj])),
    ]

_embedded = rule(
    implementation = _embedded_impl,
    attrs = {
        "src": attr.label(allow_single_file = True, mandatory = True),
        "library": attr.string(mandatory = True),
        "namespace": attr.string(mandatory = True),
        "accessor": attr.string(mandatory = True),
    },
)

def embedded_file(name, src, namespace, accessor, **kwargs):
    """A cc_library that carries a file as bytes.

    Its header <name>.h has `std::span<const std::byte> accessor()`.

    Args:
      name: of the cc_library and of its header.
      src: the file.
      namespace: of the accessor.
      accessor: name of the function.
      **kwargs: passed on (visibility, testonly, tags).
    """
    generated = name + "_embedded"
    _embedded(
        name = generated,
        src = src,
        library = name,
        namespace = namespace,
        accessor = accessor,
        **kwargs
    )
    for part in ["header", "object"]:
        native.filegroup(
            name = "%s_%s" % (generated, part),
            srcs = [generated],
            output_group = part,
            **kwargs
        )
    native.cc_library(
        name = name,
        srcs = [generated + "_object"],
        hdrs = [generated + "_header"],
        **kwargs
    )
