#include "tools/testbed/fault_plans/junit.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/strings/str_replace.h"

namespace carillon::fault {
namespace {

// XML cannot express most control characters, and needs UTF-8; all others
// become '?'.
std::string Escaped(const std::string& text) {
  std::string escaped = absl::StrReplaceAll(text, {{"&", "&amp;"},
                                                   {"<", "&lt;"},
                                                   {">", "&gt;"},
                                                   {"\"", "&quot;"},
                                                   {"\n", "&#10;"}});
  std::ranges::replace_if(
      escaped, [](char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return escaped;
}

double Seconds(Nanoseconds ns) { return static_cast<double>(ns) / 1e9; }

size_t Failures(const JunitSuite& suite) {
  return std::ranges::count(suite.findings, false, &ExpectationResult::ok);
}

std::string CaseXml(const JunitSuite& suite, const ExpectationResult& finding) {
  std::string xml =
      fmt::format("    <testcase classname=\"{}\" name=\"{}\"",
                  Escaped(suite.name), Escaped(finding.expectation));
  if (finding.ok) return xml + "/>\n";
  return xml + fmt::format(
                   ">\n      <failure message=\"expected {}, found {}\">{}"
                   "</failure>\n    </testcase>\n",
                   Escaped(finding.expected), Escaped(finding.found),
                   Escaped(suite.details));
}

std::string SuiteXml(const JunitSuite& suite) {
  const bool error = !suite.error.empty();
  std::string xml = fmt::format(
      "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" "
      "time=\"{:.3f}\">\n",
      Escaped(suite.name), suite.findings.size() + (error ? 1 : 0),
      Failures(suite), error ? 1 : 0, Seconds(suite.took_ns));
  if (error) {
    xml += fmt::format(
        "    <testcase classname=\"{}\" name=\"runs\">\n      <error "
        "message=\"{}\"/>\n    </testcase>\n",
        Escaped(suite.name), Escaped(suite.error));
  }
  for (const ExpectationResult& finding : suite.findings)
    xml += CaseXml(suite, finding);
  return xml + "  </testsuite>\n";
}

}  // namespace

std::string ToJunit(const std::vector<JunitSuite>& suites) {
  std::string xml =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  for (const JunitSuite& suite : suites) xml += SuiteXml(suite);
  return xml + "</testsuites>\n";
}

}  // namespace carillon::fault
