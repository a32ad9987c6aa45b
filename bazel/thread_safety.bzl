"""thread_safety_test: clang's thread-safety analysis of everything that locks by base/mutex.h.

The analysis only parses, so it takes a second or two a file, once: its results are
cached as objects are.
"""

_Analysis = provider(
    "Results of the analysis.",
    fields = {"results": "depset of files, one for each source that has passed"},
)

# A source without a lock, whose header has none either, has nothing to analyse.
_COMMAND = """
result=$1
shift
source=${@: -1}
header=${source%.cc}.h
if [ ! -e "$header" ] || grep -qE 'Mutex|ABSL_' "$source" "$header"; then
  clang++-14 "$@" || exit
fi
echo "$source" >"$result"
"""

def _analyse(ctx, context, source, defines):
    result = ctx.actions.declare_file(ctx.label.name + "/" + source.basename + ".thread-safety")
    args = ctx.actions.args()
    args.add(result)
    args.add_all(["-std=c++20", "-fsyntax-only", "-DNDEBUG"])
    args.add_all(["-Wno-everything", "-Wthread-safety", "-Werror=thread-safety"])
    args.add_all(depset(transitive = [context.defines, context.local_defines]), before_each = "-D")
    args.add_all(defines, before_each = "-D")
    args.add_all(context.quote_includes, before_each = "-iquote")
    args.add_all(context.includes, before_each = "-I")
    args.add_all(context.system_includes, before_each = "-isystem")
    args.add(source)
    ctx.actions.run_shell(
        outputs = [result],
        inputs = depset([source] + getattr(ctx.rule.files, "srcs", []), transitive = [context.headers]),
        command = _COMMAND,
        arguments = [args],
        mnemonic = "ThreadSafety",
        progress_message = "Analysing the locks of " + source.short_path,
        use_default_shell_env = True,
    )
    return result

def _aspect_impl(target, ctx):
    deps = getattr(ctx.rule.attr, "deps", [])
    results = []
    if CcInfo in target and [dep for dep in deps if dep.label == ctx.attr._mutex.label]:
        for source in ctx.rule.files.srcs:
            if source.extension == "cc":
                results.append(_analyse(
                    ctx,
                    target[CcInfo].compilation_context,
                    source,
                    ctx.rule.attr.local_defines,
                ))
    return [_Analysis(results = depset(
        results,
        transitive = [dep[_Analysis].results for dep in deps if _Analysis in dep],
    ))]

_thread_safety = aspect(
    implementation = _aspect_impl,
    attr_aspects = ["deps"],
    attrs = {"_mutex": attr.label(default = "//base:mutex")},
)

def _test_impl(ctx):
    results = depset(transitive = [dep[_Analysis].results for dep in ctx.attr.deps])
    if not results.to_list():
        fail("nothing here depends on //base:mutex")
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    ctx.actions.write(script, "#!/bin/sh\n", is_executable = True)
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles(transitive_files = results))]

thread_safety_test = rule(
    doc = "Fails to build if a source of `deps`, or of anything they depend on, that " +
          "uses //base:mutex breaks its annotations.",
    implementation = _test_impl,
    attrs = {"deps": attr.label_list(aspects = [_thread_safety], mandatory = True)},
    test = True,
)
