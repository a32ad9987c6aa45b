"""model_test: a spin model, its properties and its known mistakes."""

def model_test(name, model, checks):
    """Has spin check a model: NAME, and NAME with "_full_test", which is manual and has the larger configurations too.

    Args:
      name: ends with "_test".
      model: the .pml.
      checks: what holds and what breaks: see model_test.sh.
    """

    # Runs none of our code.
    tags = ["no-sanitizer"]
    variants = [
        (name, [], tags),
        (name[:-len("_test")] + "_full_test", ["full"], tags + ["manual"]),
    ]
    for test, args, test_tags in variants:
        native.sh_test(
            name = test,
            srcs = ["//bazel:model_test.sh"],
            args = ["$(rootpath %s)" % file for file in (model, checks)] + args,
            data = [model, checks],
            tags = test_tags,
        )
