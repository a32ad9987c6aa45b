"""Each rule of the checks finds what it is there for, in a checkout that this makes."""

import os
import subprocess
import tempfile
import unittest

import deps
import facts
import layers
import prose
from checkout import Checkout


class PlantedCheckout(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        subprocess.run(["git", "init", "-q", self.folder.name], check=True)

    def write(self, path, text):
        path = os.path.join(self.folder.name, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def checkout(self):
        return Checkout(self.folder.name)


LIBRARY = 'cc_library(name = "%s", srcs = ["%s.cc"], hdrs = ["%s.h"], deps = [%s])\n'


class Deps(PlantedCheckout):
    def library(self, folder, dependencies, includes):
        name = folder.rsplit("/", 1)[-1]
        self.write(folder + "/BUILD", LIBRARY % (name, name, name, dependencies))
        self.write("%s/%s.h" % (folder, name), "")
        self.write("%s/%s.cc" % (folder, name), "".join('#include "%s"\n' % header for header in includes))

    def findings(self):
        return [(target.label, missing, unneeded) for target, missing, unneeded in deps.Deps(self.checkout()).findings()]

    def test_exact_lists_pass(self):
        self.library("base", "", ["base/base.h"])
        self.library("shm", '"//base", "@system//:fmt"', ["base/base.h", "fmt/format.h"])
        self.assertEqual(self.findings(), [])

    def test_a_missing_dependency_is_named(self):
        self.library("base", "", [])
        self.library("shm", "", ["base/base.h", "fmt/format.h"])
        self.assertEqual(self.findings(), [("//shm:shm", {"//base:base", "@system//:fmt"}, set())])

    def test_an_unneeded_dependency_is_named(self):
        self.library("base", "", [])
        self.library("shm", '"//base", "@system//:absl"', [])
        self.assertEqual(self.findings(), [("//shm:shm", set(), {"//base:base", "@system//:absl"})])

    def test_a_header_that_no_target_gives_is_named(self):
        self.library("base", "", ["base/lonely.h"])
        self.write("base/lonely.h", "")
        found = deps.Deps(self.checkout())
        self.assertEqual(list(found.findings()), [])
        self.assertEqual(found.unknown, ["//base:base: base/base.cc includes base/lonely.h, which no target gives"])

    def test_tests_of_one_call_share_their_list(self):
        self.library("base", "", [])
        self.write("base/a_test.cc", '#include "base/base.h"\n')
        self.write("base/b_test.cc", "")
        self.write(
            "base/BUILD",
            LIBRARY % ("base", "base", "base", "")
            + '[cc_test(name = n, srcs = [n + ".cc"], deps = [":base"]) for n in ["a_test", "b_test"]]\n',
        )
        self.assertEqual(self.findings(), [])

    def test_fix_writes_what_the_check_wants(self):
        self.library("base", '"@system//:absl"', [])
        self.library("shm", "", ["base/base.h", "fmt/format.h"])
        checkout = self.checkout()
        for target, missing, unneeded in list(deps.Deps(checkout).findings()):
            deps.fix(checkout, target.package, {(target.line, target.rule): (missing, unneeded)})
        self.assertEqual(self.findings(), [])


class Layers(PlantedCheckout):
    def findings(self):
        return list(layers.forbidden(layers.included(self.checkout())))

    def test_an_arrow_against_the_grain_is_named(self):
        self.write("shm/ring.h", '#include "base/clock.h"\n')
        self.write("base/clock.h", '#include "shm/ring.h"\n')
        self.assertEqual(self.findings(), ["base/clock.h includes shm/ring.h: base may include nothing else"])

    def test_devices_and_gpud_do_not_know_each_other(self):
        self.write("devices/nic/nic.cc", '#include "gpu_daemon/event/backend.h"\n')
        self.write("gpu_daemon/event/backend.h", '#include "devices/sdk/edge.h"\n')
        self.write("devices/sdk/edge.h", "")
        self.assertEqual(len(self.findings()), 2)

    def test_a_new_folder_needs_its_line(self):
        self.write("attic/a.h", '#include "attic/b.h"\n')
        self.write("attic/b.h", "")
        self.assertEqual(self.findings(), ["attic/a.h: no line of ARROWS says what this folder may include"])

    def test_a_circle_of_folders_is_named(self):
        self.write("sim/a/a.h", '#include "sim/b/b.h"\n')
        self.write("sim/b/b.h", '#include "sim/c/c.h"\n')
        self.write("sim/c/c.h", '#include "sim/a/a.h"\n')
        self.write("sim/c/c_test.cc", '#include "sim/d/d.h"\n')
        self.write("sim/d/d.h", '#include "sim/c/c.h"\n')
        pairs = list(layers.included(self.checkout()))
        self.assertEqual(layers.circles(pairs, 2), [("sim/a", "sim/b", "sim/c")])
        self.assertEqual(layers.circles(pairs, 1), [])

    def test_a_heap_is_named_and_its_tests_do_not_count(self):
        for i in range(layers.MOST_FILES):
            self.write("sim/a%d.h" % i, "")
            self.write("sim/a%d_test.cc" % i, "")
        self.assertEqual(list(layers.heaps(self.checkout())), [])
        self.write("sim/one_more.h", "")
        self.assertEqual(len(list(layers.heaps(self.checkout()))), 1)


class Prose(PlantedCheckout):
    def findings(self):
        return list(prose.findings(self.checkout()))

    def test_a_wide_line_is_named(self):
        self.write("docs/a.md", "short\n" + "word " * 21 + "\n")
        self.assertEqual(len(self.findings()), 1)

    def test_links_and_tables_may_be_wide(self):
        self.write("docs/a.md", "%s\n| %s | a |\n" % ("x" * 120, "word " * 25))
        self.assertEqual(self.findings(), [])

    def test_a_fat_cell_is_named(self):
        self.write("docs/a.md", "| a | %s |\n" % ("x" * (prose.CELL + 1)))
        self.assertEqual(len(self.findings()), 1)

    def test_what_is_not_there_is_named(self):
        self.write("shm/ring.h", "// See shm/gone.h.\n")
        self.write("docs/a.md", "`shm/ring.h`, `shm/lost.cc`, [a](c.md), `bazel test //shm:gone_test`\n")
        self.write("docs/b.md", "`ring.h`, `lost.cc` (`lost_test`)\n")
        self.assertEqual(
            sorted(self.findings()),
            [
                "docs/a.md: a link to c.md, which is not there",
                "docs/a.md: no file shm/lost.cc",
                "docs/a.md: no target //shm:gone_test",
                "docs/b.md: no file is called lost.cc",
                "docs/b.md: no target is called lost_test",
                "shm/ring.h: no file shm/gone.h",
            ],
        )

    def test_a_heading_that_is_not_there_is_named(self):
        self.write("docs/a.md", "# One `word`, more\n[a](#one-word-more) [b](b.md#two)\n")
        self.write("docs/b.md", "```\n# two\n```\n")
        self.assertEqual(self.findings(), ["docs/a.md: a link to b.md#two, a heading that is not there"])


class Facts(PlantedCheckout):
    def findings(self):
        return list(facts.findings(self.checkout()))

    def test_a_folder_that_the_map_leaves_out_is_named(self):
        self.write("sim/exec/warp.cc", "")
        self.write("sim/ptx/parser.cc", "")
        self.write("docs/architecture.md", "| `sim/exec` | a |\n")
        self.assertEqual(self.findings(), ["docs/architecture.md: no row for sim/ptx"])

    def test_a_function_that_is_not_in_its_file_is_named(self):
        self.write("shm/ring.h", "void Ring();\n")
        self.write("docs/architecture.md", "`shm/ring.h` `Ring()`, `Poll()`, `kSlots`\n")
        self.assertEqual(
            self.findings(),
            ["docs/architecture.md: Poll() is not in shm/ring.h", "docs/architecture.md: kSlots is not in shm/ring.h"],
        )

    def test_a_command_without_a_row_is_named(self):
        self.write("tools/cli/commands.cc", '    {"up", kRun, ""},\n    {"sim run", kSim, ""},\n    {"hidden", "", ""},\n')
        self.write("docs/cli.md", "|---|---|\n| `up` | a |\n")
        self.assertEqual(self.findings(), ["docs/cli.md: no row for the command sim run"])

    def test_a_promise_without_its_test_is_named(self):
        self.write("shm/ring_test.cc", "TEST(RingTest, NothingIsLost) {}\n")
        self.write("docs/guarantees.md", "| Nothing is lost | `ring_test` NothingIsLost, NothingIsTorn |\n")
        self.assertEqual(self.findings(), ["docs/guarantees.md: no test case NothingIsTorn"])

    def test_a_limit_that_is_not_the_codes_is_named(self):
        self.write("shm/ring.h", "constexpr size_t kMost = 1u << 10;\nconstexpr size_t kHalf = kMost / 2;  // few\n")
        row = "| a | %s | `shm/ring.h` `%s` |\n"
        self.write("docs/limits.md", row % ("1 KiB", "kMost") + row % ("512", "kHalf"))
        self.assertEqual(self.findings(), [])
        self.write("docs/limits.md", row % ("1,000", "kMost"))
        self.assertEqual(self.findings(), ["docs/limits.md: kMost of shm/ring.h is 1024, not 1000"])


if __name__ == "__main__":
    unittest.main()
