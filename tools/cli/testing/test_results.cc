#include "tools/cli/testing/test_results.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace carillon::cli {
namespace {

using Json = nlohmann::json;

constexpr char kNotRun[] = "NOT RUN";
// Bazel's code for "tests were asked for, but there are none".
constexpr int kNoTests = 4;

// The object at a path of keys, or null.
const Json* Find(const Json& json, std::initializer_list<const char*> path) {
  const Json* at = &json;
  for (const char* key : path) {
    if (!at->is_object()) return nullptr;
    const auto found = at->find(key);
    if (found == at->end()) return nullptr;
    at = &*found;
  }
  return at;
}

std::string Text(const Json* json) {
  return json != nullptr && json->is_string() ? json->get<std::string>() : "";
}

}  // namespace

std::map<std::string, std::string> ReadBuildEvents(std::istream& events) {
  std::map<std::string, std::string> targets;
  for (std::string line; std::getline(events, line);) {
    const Json event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (const std::string label =
            Text(Find(event, {"id", "targetConfigured", "label"}));
        !label.empty() && Find(event, {"configured", "testSize"}) != nullptr) {
      targets.emplace(label, kNotRun);
    }
    if (const std::string label =
            Text(Find(event, {"id", "testSummary", "label"}));
        !label.empty()) {
      const std::string status =
          Text(Find(event, {"testSummary", "overallStatus"}));
      targets[label] = status.empty() ? kNotRun : status;
    }
  }
  return targets;
}

Tally CountTargets(const std::vector<TestRun>& runs) {
  Tally tally;
  for (const TestRun& run : runs) {
    const std::string suffix = run.configuration.empty()
                                   ? ""
                                   : fmt::format(" ({})", run.configuration);
    const int failed_before = tally.failed;
    for (const auto& [label, status] : run.targets) {
      // A FLAKY test passed, but not at the first of --flaky_test_attempts.
      const bool passed = status == "PASSED" || status == "FLAKY";
      ++(passed ? tally.passed : tally.failed);
      if (status != "PASSED") {
        tally.remarks.push_back(fmt::format("{}{}: {}", label, suffix, status));
      }
    }
    const bool none = run.exit_code == kNoTests && run.targets.empty();
    if (run.exit_code != 0 && !none && tally.failed == failed_before) {
      ++tally.failed;
      tally.remarks.push_back(
          fmt::format("bazel{}: exit code {}", suffix, run.exit_code));
    }
  }
  return tally;
}

}  // namespace carillon::cli
