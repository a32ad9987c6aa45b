#include "tools/cli/testing/build_events.h"

#include <nlohmann/json.hpp>
#include <string_view>

namespace carillon::cli {
namespace {

using Json = nlohmann::json;

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

std::string XmlOf(const Json& event) {
  constexpr std::string_view kFile = "file://";
  const Json* files = Find(event, {"testResult", "testActionOutput"});
  if (files == nullptr || !files->is_array()) return "";
  for (const Json& file : *files) {
    const std::string uri = Text(Find(file, {"uri"}));
    if (Text(Find(file, {"name"})) == "test.xml" && uri.starts_with(kFile)) {
      return uri.substr(kFile.size());
    }
  }
  return "";
}

}  // namespace

std::map<std::string, TestTarget> ReadBuildEvents(std::istream& events) {
  std::map<std::string, TestTarget> targets;
  for (std::string line; std::getline(events, line);) {
    const Json event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (const std::string label =
            Text(Find(event, {"id", "targetConfigured", "label"}));
        !label.empty() && Find(event, {"configured", "testSize"}) != nullptr) {
      targets.try_emplace(label, TestTarget{.status = kNotRun});
    }
    if (const std::string label =
            Text(Find(event, {"id", "testResult", "label"}));
        !label.empty() && Find(event, {"testResult"}) != nullptr) {
      targets[label].attempts.push_back(XmlOf(event));
    }
    if (const std::string label =
            Text(Find(event, {"id", "testSummary", "label"}));
        !label.empty()) {
      const std::string status =
          Text(Find(event, {"testSummary", "overallStatus"}));
      if (!status.empty()) targets[label].status = status;
    }
  }
  return targets;
}

}  // namespace carillon::cli
