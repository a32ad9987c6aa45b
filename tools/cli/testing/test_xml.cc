#include "tools/cli/testing/test_xml.h"

#include <fmt/format.h>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"

namespace carillon::cli {
namespace {

using Tree = boost::property_tree::ptree;
using Outcome = TestCase::Outcome;

std::string Attribute(const Tree& element, const std::string& name) {
  return element.get<std::string>("<xmlattr>." + name, "");
}

// GoogleTest puts the place in the source, which changes, on a line before the
// reason.
std::string OneLine(std::string message) {
  if (const size_t end = message.find('\n'); end != message.npos) {
    const size_t colon = message.rfind(':', end);
    if (colon != message.npos && colon + 1 < end &&
        message.find_first_not_of("0123456789", colon + 1) == end) {
      message.erase(0, end + 1);
    }
  }
  std::string line;
  for (const char c : message) {
    if (!absl::ascii_isspace(static_cast<unsigned char>(c))) {
      line += c;
    } else if (!line.ends_with(' ')) {
      line += ' ';
    }
  }
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

TestCase ReadCase(const Tree& element) {
  TestCase result;
  const std::string suite = Attribute(element, "classname");
  if (!suite.empty()) result.name = suite + "." + Attribute(element, "name");
  if (Attribute(element, "status") == "notrun") {
    result.outcome = Outcome::kSkipped;
    result.reason = "disabled";
  }
  for (const auto& [name, child] : element) {
    const bool failed = name == "failure" || name == "error";
    if (!failed && name != "skipped") continue;
    result.outcome = failed ? Outcome::kFailed : Outcome::kSkipped;
    result.reason = OneLine(Attribute(child, "message"));
    if (failed) break;
  }
  return result;
}

// Suites may hold suites.
void ReadSuite(const Tree& suite, std::vector<TestCase>& cases) {
  for (const auto& [name, child] : suite) {
    if (name == "testcase") cases.push_back(ReadCase(child));
    if (name == "testsuite" || name == "testsuites") ReadSuite(child, cases);
  }
}

}  // namespace

absl::StatusOr<std::vector<TestCase>> ReadTestXml(std::istream& xml) {
  std::vector<TestCase> cases;
  try {
    Tree document;
    boost::property_tree::read_xml(xml, document);
    ReadSuite(document, cases);
  } catch (const boost::property_tree::ptree_error& error) {
    return absl::InvalidArgumentError(
        fmt::format("test.xml is no XML: {}", error.what()));
  }
  return cases;
}

}  // namespace carillon::cli
