"""precompiled_header, and cc_library, cc_binary and cc_test that use it.

tools/build_rules/prelude_bazel puts them in the place of Bazel's own
(docs/decisions/012-precompiled-header.md).
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    context = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context

    # GCC reads the header itself where a file's flags do not suit the compiled form.
    header = ctx.actions.declare_file(ctx.attr.name)
    ctx.actions.symlink(output = header, target_file = ctx.file.header)
    compiled = ctx.actions.declare_file(ctx.attr.name + ".gch")
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = ctx.file.header.path,
        output_file = compiled.path,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ["-xc++-header"],
        quote_include_directories = context.quote_includes,
        system_include_directories = context.system_includes,
        include_directories = context.includes,
        preprocessor_defines = context.defines,
        use_pic = True,
    )
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
        ),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        inputs = depset([ctx.file.header], transitive = [toolchain.all_files, context.headers]),
        outputs = [compiled],
        mnemonic = "PrecompiledHeader",
        progress_message = "Precompiling " + ctx.file.header.short_path,
    )
    return [DefaultInfo(files = depset([header, compiled]))]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "header": attr.label(allow_single_file = [".h"], mandatory = True),
        "deps": attr.label_list(providers = [CcInfo]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

# GCC 12 takes the text of a precompiled header for ours, not the system's, and warns
# wrongly of std::string.
_COPTS = ["-include", "bazel/pch/pch.h", "-Wno-array-bounds", "-Wno-restrict", "-Wno-stringop-overflow", "-Wno-stringop-overread"]

def _with_pch(attributes):
    deps = attributes.pop("deps", None) or []
    copts = attributes.pop("copts", None) or []
    return dict(
        attributes,
        deps = deps + ["//bazel/pch"],
        copts = select({
            "//bazel:fuzzing": [],
            "//conditions:default": _COPTS,
        }) + copts,
    )

def cc_library(**attributes):
    native.cc_library(**(_with_pch(attributes) if "srcs" in attributes else attributes))

def cc_binary(**attributes):
    native.cc_binary(**_with_pch(attributes))

def cc_test(**attributes):
    native.cc_test(**_with_pch(attributes))
