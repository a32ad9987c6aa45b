#include "tools/testbed/topology/schema.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "tools/testbed/topology/keys.h"

namespace carillon::testbed {
namespace {

constexpr char kNamePattern[] = "^[a-z0-9_-]{1,32}$";

// Says the same as CheckName().
Json NameSchema() {
  return {{"type", "string"},
          {"pattern", kNamePattern},
          {"not", {{"enum", kReservedNames}}}};
}

Json KeySchema(const Key& key) {
  Json schema;
  switch (key.type) {
    case KeyType::kBoolean:
      schema = {{"type", "boolean"}};
      break;
    case KeyType::kInteger:
      schema = {
          {"type", "integer"}, {"minimum", key.min}, {"maximum", key.max}};
      if (key.power_of_two) {
        Json powers = Json::array();
        for (uint64_t i = 1; i <= key.max; i *= 2) {
          if (i >= key.min) powers.push_back(i);
        }
        schema = {{"enum", powers}};
      }
      break;
    case KeyType::kSize:
      schema = {
          {"anyOf",
           {{{"type", "integer"}, {"minimum", key.min}, {"maximum", key.max}},
            {{"type", "string"},
             {"pattern", "^[0-9]+ *(B|KiB|MiB|GiB|TiB)?$"}}}}};
      break;
    case KeyType::kText:
    case KeyType::kPath:
      schema = {
          {"type", "string"}, {"minLength", key.min}, {"maxLength", key.max}};
      break;
    case KeyType::kChoice:
      schema = {{"enum", key.choices}};
      break;
    case KeyType::kDimensions:
      schema = {{"type", "string"}, {"pattern", "^[0-9]+x[0-9]+$"}};
      break;
  }
  schema["description"] = fmt::format("{}. Allowed: {}. Default: {}", key.help,
                                      AllowedValues(key), key.fallback);
  return schema;
}

Json MapSchema(std::span<const Key> keys) {
  Json properties = Json::object();
  for (const Key& key : keys) properties[key.name] = KeySchema(key);
  return {{"type", "object"},
          {"additionalProperties", false},
          {"properties", std::move(properties)}};
}

Json LowerMaxSchema(const DeviceKind& kind, const Key& key,
                    const LowerMax& limit) {
  // The limit applies without the other key, too.
  Json other = {{"properties", {{limit.key, {{"const", limit.value}}}}}};
  if (FindKey(kind.keys, limit.key)->fallback != limit.value) {
    other["required"] = {limit.key};
  }
  return {{"if", std::move(other)},
          {"then", {{"properties", {{key.name, {{"maximum", limit.max}}}}}}}};
}

Json DeviceSchema(const DeviceKind& kind) {
  Json schema = {
      {"type", "object"},
      {"description", kind.summary},
      {"additionalProperties", false},
      {"required", {"name", "kind"}},
      {"properties",
       {{"name", NameSchema()},
        {"kind", {{"const", kind.name}}},
        {"count",
         {{"type", "integer"},
          {"minimum", 1},
          {"maximum", kMaxDevices},
          {"description",
           "as many devices, called name0, name1, ...; without it one, called "
           "name"}}},
        {"wait_ready",
         {{"type", "boolean"},
          {"description",
           "whether `carillon up` waits until the device says that it is "
           "ready. "
           "Default: true"}}},
        {RestartKey().name, KeySchema(RestartKey())}}}};
  if (kind.name == kExecKind) {
    schema["required"].push_back("command");
    schema["properties"]["command"] = {
        {"type", "array"},
        {"minItems", 1},
        {"items", {{"type", {"string", "number", "boolean"}}}},
        {"description",
         "program and arguments; a program with a slash in it is relative to "
         "this file's folder"}};
  }
  for (const Key& key : kind.keys) {
    schema["properties"][key.name] = KeySchema(key);
    for (const LowerMax& limit : key.lower_max) {
      schema["allOf"].push_back(LowerMaxSchema(kind, key, limit));
    }
  }
  return schema;
}

std::string MarkdownTable(std::span<const Key> keys) {
  std::string table =
      "| key | allowed | default | what it is |\n|---|---|---|---|\n";
  for (const Key& key : keys) {
    table += fmt::format("| `{}` | {} | {} | {} |\n", key.name,
                         AllowedValues(key), key.fallback, key.help);
  }
  return table;
}

}  // namespace

Json TopologySchema() {
  Json gpu = MapSchema(GpuKeys());
  gpu["description"] = "gpud, the GPU";
  gpu["properties"][RestartKey().name] = KeySchema(RestartKey());
  gpu["properties"]["model"] = MapSchema(GpuModelKeys());
  gpu["properties"]["model"]["description"] =
      "the emulated GPU; EDGE Table II by default";
  Json& tls = gpu["properties"]["tls"] = MapSchema(GpuTlsKeys());
  tls["description"] = "with `listen`: certificates, and whom to believe";
  for (const Key& key : GpuTlsKeys()) tls["required"].push_back(key.name);
  gpu["dependentRequired"] = {{kListenKey, {"tls"}}, {"tls", {kListenKey}}};
  Json kinds = Json::array();
  for (const DeviceKind& kind : DeviceKinds()) {
    kinds.push_back(DeviceSchema(kind));
  }
  Json name = NameSchema();
  name["description"] = "of the testbed; `carillon up --name` wins";
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "Carillon topology"},
          {"description", "What `carillon up` brings up; see docs/cli.md"},
          {"type", "object"},
          {"additionalProperties", false},
          {"properties",
           {{"name", std::move(name)},
            {"gpu", std::move(gpu)},
            {"record",
             {{"type", "integer"},
              {"minimum", kMinRecords},
              {"maximum", kMaxRecords},
              {"description", kRecordHelp}}},
            {"faults", {{"type", "boolean"}, {"description", kFaultsHelp}}},
            {"devices",
             {{"type", "array"},
              {"maxItems", kMaxDevices},
              {"items", {{"oneOf", std::move(kinds)}}}}}}}};
}

std::string TopologyKeysAsMarkdown() {
  std::string text = "#### `gpu`\n\n" + MarkdownTable(GpuKeys()) +
                     "\n#### `gpu: model`\n\n" + MarkdownTable(GpuModelKeys()) +
                     "\n#### `gpu: tls`\n\nWhere there is `listen`, and all "
                     "of them.\n\n" +
                     MarkdownTable(GpuTlsKeys());
  for (const DeviceKind& kind : DeviceKinds()) {
    if (kind.keys.empty()) continue;
    text += fmt::format("\n#### `kind: {}`\n\nThe device {}.\n\n{}", kind.name,
                        kind.summary, MarkdownTable(kind.keys));
  }
  return text;
}

}  // namespace carillon::testbed
