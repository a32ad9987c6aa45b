#include "tools/testbed/fault_plans/junit.h"

#include <gtest/gtest.h>

namespace carillon::fault {
namespace {

TEST(Junit, HasACaseForEachExpectation) {
  const JunitSuite fails{
      .name = "kill-nic",
      .took_ns = 1'500'000'000,
      .findings = {{"lost", "0", "2", false}, {"ok", "> 0", "7", true}},
      .details = "first violation\n\"a\" & b"};
  const JunitSuite error{.name = "p", .error = "no <gpud>\x01"};
  EXPECT_EQ(
      ToJunit({fails, error}),
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites>\n"
      "  <testsuite name=\"kill-nic\" tests=\"2\" failures=\"1\" errors=\"0\" "
      "time=\"1.500\">\n"
      "    <testcase classname=\"kill-nic\" name=\"lost\">\n"
      "      <failure message=\"expected 0, found 2\">first "
      "violation&#10;&quot;a&quot; &amp; b</failure>\n"
      "    </testcase>\n"
      "    <testcase classname=\"kill-nic\" name=\"ok\"/>\n"
      "  </testsuite>\n"
      "  <testsuite name=\"p\" tests=\"1\" failures=\"0\" errors=\"1\" "
      "time=\"0.000\">\n"
      "    <testcase classname=\"p\" name=\"runs\">\n"
      "      <error message=\"no &lt;gpud&gt;?\"/>\n"
      "    </testcase>\n"
      "  </testsuite>\n"
      "</testsuites>\n");
}

}  // namespace
}  // namespace carillon::fault
