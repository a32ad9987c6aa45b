#include "tools/testbed/fault_plans/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "shm/faults/fault.h"
#include "tools/testbed/fault_plans/fields.h"
#include "tools/testbed/fault_plans/plan.h"
#include "tools/testbed/topology/schema.h"

namespace carillon::fault {
namespace {

std::string FileText(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// As a YAML parser that knows JSON's types gives it.
Json ToJson(const YAML::Node& node) {
  if (node.IsMap()) {
    Json map = Json::object();
    for (const auto& entry : node) {
      map[entry.first.Scalar()] = ToJson(entry.second);
    }
    return map;
  }
  if (node.IsSequence()) {
    Json list = Json::array();
    for (const YAML::Node& one : node) list.push_back(ToJson(one));
    return list;
  }
  if (node.IsNull()) return nullptr;
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;  // in quotes
  const Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_number() || value.is_boolean() ? value : Json(text);
}

// The keywords that the schema uses; any other fails the test.
bool Accepts(const Json& schema, const Json& value);

bool IsOf(const std::string& type, const Json& value) {
  if (type == "null") return value.is_null();
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  return value.is_number();
}

bool AcceptsMembers(const Json& schema, const Json& value) {
  for (const Json& name : schema.value("required", Json::array())) {
    if (!value.contains(name.get<std::string>())) return false;
  }
  const Json properties = schema.value("properties", Json::object());
  for (const auto& [key, member] : value.items()) {
    if (properties.contains(key)) {
      if (!Accepts(properties[key], member)) return false;
    } else if (schema.contains("additionalProperties")) {
      const Json& others = schema["additionalProperties"];
      if (others == Json(false)) return false;
      if (!Accepts(others, member)) return false;
    }
  }
  return true;
}

bool Accepts(const Json& schema, const Json& value) {
  const auto any = [&](const char* keyword) {
    return std::count_if(schema[keyword].begin(), schema[keyword].end(),
                         [&](const Json& one) { return Accepts(one, value); });
  };
  for (const auto& [keyword, of] : schema.items()) {
    bool right = true;
    if (keyword == "type") {
      const Json types = of.is_array() ? of : Json::array({of});
      right = std::any_of(types.begin(), types.end(),
                          [&](const Json& type) { return IsOf(type, value); });
    } else if (keyword == "enum") {
      right = std::find(of.begin(), of.end(), value) != of.end();
    } else if (keyword == "const") {
      right = of == value;
    } else if (keyword == "anyOf") {
      right = any("anyOf") > 0;
    } else if (keyword == "oneOf") {
      right = any("oneOf") == 1;
    } else if (keyword == "allOf") {
      right = any("allOf") == static_cast<ptrdiff_t>(of.size());
    } else if (keyword == "not") {
      right = !Accepts(of, value);
    } else if (keyword == "$ref") {
      EXPECT_EQ(of, "topology.schema.json");
      right = Accepts(testbed::TopologySchema(), value);
    } else if (keyword == "if") {
      right = !Accepts(of, value) || Accepts(schema["then"], value);
    } else if (keyword == "pattern") {
      right = !value.is_string() ||
              std::regex_search(value.get<std::string>(),
                                std::regex(of.get<std::string>()));
    } else if (keyword == "minimum") {
      right = !value.is_number() || value >= of;
    } else if (keyword == "maximum") {
      right = !value.is_number() || value <= of;
    } else if (keyword == "exclusiveMinimum") {
      right = !value.is_number() || value > of;
    } else if (keyword == "minLength" || keyword == "maxLength") {
      right = !value.is_string() ||
              (keyword == "minLength"
                   ? value.get<std::string>().size() >= of.get<size_t>()
                   : value.get<std::string>().size() <= of.get<size_t>());
    } else if (keyword == "minItems" || keyword == "minProperties") {
      right = !value.is_structured() || value.size() >= of.get<size_t>();
    } else if (keyword == "maxItems" || keyword == "maxProperties") {
      right = !value.is_structured() || value.size() <= of.get<size_t>();
    } else if (keyword == "items") {
      right = !value.is_array() ||
              std::all_of(value.begin(), value.end(),
                          [&](const Json& one) { return Accepts(of, one); });
    } else if (keyword == "properties") {
      right = !value.is_object() || AcceptsMembers(schema, value);
    } else if (keyword == "required" || keyword == "additionalProperties") {
      right = !value.is_object() || AcceptsMembers(schema, value);
    } else if (keyword == "dependentRequired") {
      for (const auto& [key, needed] : of.items()) {
        for (const Json& other : needed) {
          right &=
              !value.contains(key) || value.contains(other.get<std::string>());
        }
      }
    } else if (keyword != "then" && keyword != "description" &&
               keyword != "title" && keyword != "$schema") {
      ADD_FAILURE() << "what is " << keyword << "?";
    }
    if (!right) return false;
  }
  return true;
}

bool AcceptsText(const std::string& yaml) {
  return Accepts(PlanSchema(), ToJson(YAML::Load(yaml)));
}

TEST(PlanSchema, IsWhatIsPublished) {
  EXPECT_EQ(FileText("tools/cli/plan.schema.json"), PlanSchema().dump(2) + "\n")
      << "write it anew: carillon validate --plan-schema > "
         "tools/cli/plan.schema.json";
}

TEST(PlanSchema, AcceptsAllExamples) {
  int examples = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("docs/examples")) {
    const std::string text = FileText(entry.path());
    EXPECT_TRUE(AcceptsText(text)) << entry.path();
    ++examples;
  }
  EXPECT_GT(examples, 15);
}

// What ToYaml() writes has every field that a plan may have.
TEST(PlanSchema, AcceptsWhatAPlanIsWrittenAs) {
  const PlanReading reading = ReadPlan(
      "plan: p\nabout: a\nseed: 3\nfaults:\n"
      "  - {name: a, target: {process: gpud, device: d, event: 1}, when: "
      "{point: gpud.complete, nth: 3, every: 2, probability: 0.5, after: 1s, "
      "window: 2s, after_state: d ready 2}, do: {delay: {for: 1ms, jitter: "
      "1us}}, times: 0, expect: {struck: \"<= 3\"}}\n"
      "  - {name: b, when: {every: 10ms, after_fault: a}, do: kill, times: 2}\n"
      "  - {name: c, when: {point: gpud.rpc}, do: {abort: {code: 14}}}\n"
      "  - {name: e, when: {point: nic.receive}, do: {limit: {count: 1KiB}}}\n"
      "  - {name: f, when: {point: gpud.output}, do: {corrupt: {offset: 1, "
      "bytes: \"00ff\"}}}\n"
      "run: {within: 1s, for: 0, settle: 0.5h, clients: 3}\n"
      "expect: {lost: 1, indeterminate: {torn: any}, progress: [d], running: "
      "[gpud], restarts: {d: \"> 1\"}}\n",
      "p.yaml");
  ASSERT_TRUE(reading.problems.empty()) << ToString(reading.problems, "p");
  EXPECT_TRUE(AcceptsText(ToYaml(reading.plan))) << ToYaml(reading.plan);
}

TEST(PlanSchema, RefusesWhatTheReaderRefuses) {
  const std::string good =
      "plan: p\nfaults: [{name: a, when: {point: device.ring}, do: kill}]\n";
  EXPECT_TRUE(AcceptsText(good));
  for (const std::string bad : {
           "faults: [{name: a, do: kill}]",
           "plan: p",
           "plan: p\nfaults: []",
           "plan: p\nfaults: [{name: a, do: kil}]",
           "plan: p\nfaults: [{name: A, do: kill}]",
           "plan: p\nfaults: [{name: a}]",
           "plan: p\nfaults: [{name: a, do: {kill: {}, stop: {}}}]",
           "plan: p\nfaults: [{name: a, do: {kill: {for: 1s}}}]",
           "plan: p\nfaults: [{name: a, do: {stop: {for: soon}}}]",
           "plan: p\nfaults: [{name: a, when: {point: moon}, do: kill}]",
           "plan: p\nfaults: [{name: a, when: {after_state: x}, do: kill}]",
           "plan: p\nfaults: [{name: a, when: {probability: 2}, do: kill}]",
           "plan: p\nfaults: [{name: a, do: {abort: {code: MAYBE}}}]",
           "plan: p\nfaults: [{name: a, do: {corrupt: {bytes: fff}}}]",
       }) {
    EXPECT_FALSE(ReadPlan(bad, "p.yaml").problems.empty()) << bad;
    EXPECT_FALSE(AcceptsText(bad)) << bad;
  }
  for (const std::string bad :
       {"run: {clients: 5000}", "run: {forever: 1s}", "expect: {lost: few}",
        "expect: {indeterminate: {bored: 1}}", "expect: {progress: gpud}",
        "topology: {gpu: {memory: much}}", "surprise: 1"}) {
    EXPECT_FALSE(ReadPlan(good + bad, "p.yaml").problems.empty()) << bad;
    EXPECT_FALSE(AcceptsText(good + bad)) << bad;
  }
}

TEST(PlanSchema, KnowsEveryPointActionAndField) {
  const std::string schema = PlanSchema().dump();
  for (const faults::PointInfo& info : faults::Points()) {
    if (info.point == faults::Point::kNone) continue;
    EXPECT_NE(schema.find("\"" + std::string(info.name) + "\""), schema.npos)
        << info.name;
  }
  for (const Field& field : Fields()) {
    EXPECT_NE(schema.find("\"" + std::string(field.name) + "\":"), schema.npos)
        << field.name;
  }
}

}  // namespace
}  // namespace carillon::fault
