#include "tools/testbed/fault_plans/schema.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "shm/faults/board.h"
#include "shm/faults/fault.h"
#include "tools/testbed/fault_plans/fields.h"
#include "tools/testbed/fault_plans/plan.h"
#include "tools/testbed/ledger/checker.h"
#include "tools/testbed/topology/schema.h"

namespace carillon::fault {
namespace {

using faults::Action;

Json Object(Json properties) {
  return {{"type", "object"},
          {"additionalProperties", false},
          {"properties", std::move(properties)}};
}

Json Pattern(std::string pattern) {
  return {{"type", "string"}, {"pattern", std::move(pattern)}};
}

Json AnyOf(Json first, Json second) {
  return {{"anyOf", Json::array({std::move(first), std::move(second)})}};
}

Json Described(Json schema, std::string_view description) {
  schema["description"] = description;
  return schema;
}

Json Whole(uint64_t min) { return {{"type", "integer"}, {"minimum", min}}; }

// As ParseDuration().
Json DurationSchema() {
  return AnyOf(Pattern("^[0-9]+(\\.[0-9]+)? *(ns|us|ms|s|min|h)$"),
               {{"enum", {0, "0"}}});
}

// As Comparison::Parse().
Json ComparisonSchema() {
  return AnyOf(Whole(0), Pattern("^(any|(=|!=|<|<=|>|>=)? *[0-9]+)$"));
}

Json ByNameSchema() {
  return {{"type", "object"}, {"additionalProperties", ComparisonSchema()}};
}

Json NamesSchema() {
  return {{"type", "array"}, {"items", {{"type", "string"}}}};
}

Json PointSchema() {
  Json names = Json::array();
  for (const faults::PointInfo& info : faults::Points()) {
    if (info.point != faults::Point::kNone) names.push_back(info.name);
  }
  return {{"enum", std::move(names)}};
}

std::string StatePattern() {
  std::string states;
  for (size_t i = 1; i < faults::kStates; ++i) {
    states += fmt::format("{}{}", i > 1 ? "|" : "",
                          faults::StateName(faults::State(i)));
  }
  return fmt::format("^[^ ]+ +({})( +[0-9]+)?$", states);
}

// By what the table says of the field's text.
Json ValueSchema(const Field& field) {
  const std::string_view value = field.value;
  if (value == "POINT") return PointSchema();
  if (value == "PROCESS STATE [N]") return Pattern(StatePattern());
  if (value == "GLOB") {
    return {{"type", "string"},
            {"minLength", 1},
            {"maxLength", faults::Fault::kMaxGlob}};
  }
  if (value == "NAME") return Pattern("^[a-z0-9_-]{1,32}$");
  if (value == "DURATION") return DurationSchema();
  if (value == "N|DURATION") return AnyOf(Whole(1), DurationSchema());
  if (value == "P") {
    return {{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", 1}};
  }
  if (value == "SIZE") {
    return AnyOf(Whole(0), Pattern("^[0-9]+ *(B|[KMGT](iB)?)?$"));
  }
  if (value == "CODE") return AnyOf(Whole(0), {{"enum", CodeNames()}});
  // A number in YAML, if it has no letters.
  if (value == "HEX") {
    return AnyOf(Pattern("^([0-9a-fA-F]{2}){1,16}$"), Whole(0));
  }
  return Whole(0);
}

Json FieldsOf(FieldSection section) {
  Json properties = Json::object();
  for (const Field& field : Fields()) {
    if (field.part != section) continue;
    properties[field.name] = Described(ValueSchema(field), field.help);
  }
  return properties;
}

Json DoSchema() {
  Json bare = Json::array();
  Json properties = Json::object();
  for (size_t i = 0; i < faults::kActions; ++i) {
    const std::string_view name = faults::ActionName(Action(i));
    bare.push_back(name);
    Json fields = Json::object();
    for (const Field& field : Fields()) {
      if (field.part != FieldSection::kDo) continue;
      if (!TakesField(Action(i), field.name)) continue;
      fields[field.name] = Described(ValueSchema(field), field.help);
    }
    Json how = Object(std::move(fields));
    how["type"] = {"object", "null"};
    properties[name] =
        Described(std::move(how), faults::ActionSummary(Action(i)));
  }
  Json map = Object(std::move(properties));
  map["minProperties"] = 1;
  map["maxProperties"] = 1;
  return AnyOf({{"enum", std::move(bare)}}, std::move(map));
}

Json FaultSchema() {
  Json properties = FieldsOf(FieldSection::kFault);
  properties["name"] = Pattern("^[a-z0-9_-]{1,32}$");
  properties["target"] = Object(FieldsOf(FieldSection::kTarget));
  properties["when"] = Object(FieldsOf(FieldSection::kWhen));
  properties["do"] = DoSchema();
  properties["expect"] = Object({{"struck", ComparisonSchema()}});
  Json fault = Object(std::move(properties));
  fault["required"] = {"name", "do"};
  return fault;
}

Json ExpectSchema() {
  Json properties = Json::object();
  for (size_t i = 0; i < kCounts; ++i) {
    const CountInfo& info = InfoOf(Count(i));
    properties[info.name] = Described(
        ComparisonSchema(),
        fmt::format("{}. Default: {}", info.summary, info.expected.ToString()));
  }
  Json reasons = Json::object();
  for (size_t i = 0; i < ledger::kUnknowns; ++i) {
    reasons[ledger::UnknownName(ledger::Unknown(i))] = ComparisonSchema();
  }
  properties["indeterminate"]["anyOf"].push_back(Object(std::move(reasons)));
  properties["progress"] = AnyOf(NamesSchema(), ByNameSchema());
  properties["running"] = NamesSchema();
  properties["restarts"] = ByNameSchema();
  return Object(std::move(properties));
}

}  // namespace

Json PlanSchema() {
  Json clients = Whole(0);
  clients["maximum"] = kMaxClients;
  Json plan =
      Object({{"plan", testbed::TopologySchema()["properties"]["name"]},
              {"about", {{"type", "string"}, {"maxLength", kMaxAbout}}},
              {"topology", AnyOf({{"$ref", "topology.schema.json"}},
                                 Described({{"type", "string"}},
                                           "a file, from the plan's folder"))},
              {"seed", Whole(0)},
              {"faults",
               {{"type", "array"},
                {"minItems", 1},
                {"maxItems", faults::kMaxFaults},
                {"items", FaultSchema()}}},
              {"run", Object({{"within", DurationSchema()},
                              {"for", DurationSchema()},
                              {"settle", DurationSchema()},
                              {"clients", std::move(clients)}})},
              {"expect", ExpectSchema()}});
  plan["properties"]["plan"]["description"] = "the plan's name";
  plan["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  plan["title"] = "Carillon fault plan";
  plan["description"] = "What `carillon fault run` runs; see docs/faults.md";
  plan["required"] = {"plan", "faults"};
  return plan;
}

}  // namespace carillon::fault
