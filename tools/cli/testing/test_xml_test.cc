#include "tools/cli/testing/test_xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace carillon::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;
using Outcome = TestCase::Outcome;

std::vector<TestCase> Read(const std::string& text) {
  std::istringstream xml(text);
  const auto cases = ReadTestXml(xml);
  EXPECT_TRUE(cases.ok()) << cases.status();
  return cases.value_or(std::vector<TestCase>{});
}

// As GoogleTest 1.12 writes it, shortened; the byte that is no UTF-8 as well.
constexpr char kGoogleTest[] = R"(<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="5" failures="1" disabled="1" name="AllTests">
  <testsuite name="A" tests="4" failures="1" skipped="1">
    <testcase name="Good" status="run" result="completed" classname="A" />
    <testcase name="Skips" status="run" result="skipped" classname="A">
      <skipped message="a/g_test.cc:5&#x0A;no &lt;thing&gt;&#x0A;here"><![CDATA[a/g_test.cc:5
no <thing>
here]]></skipped>
    </testcase>
    <testcase name="DISABLED_Off" status="notrun" result="suppressed" classname="A" />
    <testcase name="Bad" status="run" result="completed" classname="A">
      <failure message="a/g_test.cc:19&#x0A;Failed&#x0A;]]&gt; )"
                               "\xff"
                               R"(" type=""><![CDATA[a/g_test.cc:19
Failed]]></failure>
      <failure message="a/g_test.cc:20&#x0A;Also" type=""></failure>
    </testcase>
  </testsuite>
  <testsuite name="All/P" tests="1" failures="0">
    <testcase name="Runs/1" value_param="&quot;b&quot;" status="run" classname="All/P" />
  </testsuite>
</testsuites>
)";

TEST(TestXml, OfGoogleTestHasEveryCaseAndWhyItWasSkipped) {
  EXPECT_THAT(
      Read(kGoogleTest),
      ElementsAre(FieldsAre("A.Good", Outcome::kPassed, ""),
                  FieldsAre("A.Skips", Outcome::kSkipped, "no <thing> here"),
                  FieldsAre("A.DISABLED_Off", Outcome::kSkipped, "disabled"),
                  FieldsAre("A.Bad", Outcome::kFailed, "Failed ]]> \xff"),
                  FieldsAre("All/P.Runs/1", Outcome::kPassed, "")));
}

// As Bazel writes it for a script, and for whatever crashed.
TEST(TestXml, OfAnythingElseIsOneCase) {
  const std::string text = R"(<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="a/f_test" tests="1" failures="0" errors="1">
    <testcase name="a/f_test" status="run" duration="0" time="0">ERROR</testcase>
      <system-out>
<![CDATA[no <testcase>]]>
      </system-out>
    </testsuite>
</testsuites>
)";
  const auto with = [&](const std::string& what) {
    std::string copy = text;
    return copy.replace(copy.find("ERROR"), 5, what);
  };
  EXPECT_THAT(Read(with("")), ElementsAre(FieldsAre("", Outcome::kPassed, "")));
  EXPECT_THAT(
      Read(with(R"(<error message="exited with error code 3"></error>)")),
      ElementsAre(FieldsAre("", Outcome::kFailed, "exited with error code 3")));
}

TEST(TestXml, ThatIsCutOffIsAnError) {
  std::istringstream xml("<testsuites><testsuite><testcase name=");
  EXPECT_FALSE(ReadTestXml(xml).ok());
}

TEST(TestXml, AReasonMayBeVeryLong) {
  const std::string reason(200'000, 'x');
  const auto cases = Read(
      "<testsuites><testsuite name=\"A\"><testcase name=\"B\" "
      "classname=\"A\"><skipped message=\"" +
      reason + "&#x0A;" + std::string(200'000, ' ') +
      "end\"/></testcase></testsuite></testsuites>");
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].reason, reason + " end");
}

}  // namespace
}  // namespace carillon::cli
