"""fuzz_test: a libFuzzer target that is a bounded test under every other compiler."""

load("//bazel:pch.bzl", "cc_test")

def fuzz_test(name, srcs, corpus, deps = [], dictionary = None, max_len = 4096, runs = 2000, fuzzer_args = [], size = "small", **kwargs):
    """A test that feeds LLVMFuzzerTestOneInput() with its seed corpus.

    By default a plain cc_test: it runs every file of the corpus and `runs`
    mutations of them, the same ones each time. Under --config=fuzz it is the
    fuzzer itself (docs/fuzzing.md).

    Args:
      name: ends with "_fuzz".
      srcs: define LLVMFuzzerTestOneInput().
      corpus: the seed files, small, each named for what it shows.
      deps: as in cc_test.
      dictionary: words that the mutations put in, in libFuzzer's format.
      max_len: longest input, bytes.
      runs: mutations; ten times as many for the fuzzer, if nobody says more.
      fuzzer_args: libFuzzer's options that the target needs.
      size: as in cc_test.
      **kwargs: passed on.
    """
    dictionaries = [dictionary] if dictionary else []
    words = ["-dict=$(rootpath %s)" % dictionary] if dictionary else []
    cc_test(
        name = name,
        srcs = srcs,
        args = words + ["-max_len=%d" % max_len] + select({
            # Of several the last one counts: what a user gives comes behind.
            "//bazel:fuzzing": ["-runs=%d" % (10 * runs)] + fuzzer_args,
            "//conditions:default": ["-runs=%d" % runs] + ["$(rootpaths %s)" % file for file in corpus],
        }),
        data = corpus + dictionaries,
        linkopts = select({
            "//bazel:fuzzing": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        size = size,
        deps = deps + ["//base/testing:fuzz_input"] + select({
            "//bazel:fuzzing": [],
            "//conditions:default": ["//base/testing:fuzz_main"],
        }),
        **kwargs
    )
