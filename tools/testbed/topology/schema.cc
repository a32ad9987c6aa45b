#include "tools/testbed/topology/schema.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "base/json.h"
#include "base/option_table.h"
#include "shm/recorder/flight_recorder.h"
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

Json Range(const char* type, const Option& key) {
  Json range = {{"type", type}, {"minimum", key.min}, {"maximum", key.max}};
  if (!key.or_zero) return range;
  return {{"anyOf", Json::array({std::move(range), {{"const", 0}}})}};
}

Json KeySchema(const Option& key) {
  Json schema;
  switch (key.type) {
    case OptionType::kBoolean:
      schema = {{"type", "boolean"}};
      break;
    case OptionType::kInteger:
      schema = Range("integer", key);
      if (key.power_of_two) {
        Json powers = Json::array();
        for (uint64_t i = 1; i <= key.max; i *= 2) {
          if (i >= key.min) powers.push_back(i);
        }
        schema = {{"enum", powers}};
      }
      break;
    case OptionType::kDecimal:
      schema = Range("number", key);
      break;
    case OptionType::kSize:
      schema = {
          {"anyOf",
           {Range("integer", key),
            {{"type", "string"}, {"pattern", "^[0-9]+ *(B|[KMGT](iB)?)?$"}}}}};
      break;
    case OptionType::kText:
    case OptionType::kPath:
      schema = {
          {"type", "string"}, {"minLength", key.min}, {"maxLength", key.max}};
      break;
    case OptionType::kChoice:
      schema = {{"enum", key.choices}};
      break;
    case OptionType::kDimensions:
      schema = {{"type", "string"}, {"pattern", "^[0-9]+x[0-9]+$"}};
      break;
  }
  schema["description"] = fmt::format("{}. Allowed: {}. Default: {}", key.help,
                                      AllowedValues(key), DefaultOf(key));
  return schema;
}

Json MapSchema(std::span<const Option> keys) {
  Json properties = Json::object();
  for (const Option& key : keys) properties[key.key] = KeySchema(key);
  return {{"type", "object"},
          {"additionalProperties", false},
          {"properties", std::move(properties)}};
}

Json LowerMaxSchema(const DeviceKind& kind, const Option& key,
                    const LowerMax& limit) {
  // The limit applies without the other key, too.
  Json other = {{"properties", {{limit.key, {{"const", limit.value}}}}}};
  if (DefaultOf(*FindKey(kind.keys, limit.key)) != limit.value) {
    other["required"] = {limit.key};
  }
  return {{"if", std::move(other)},
          {"then", {{"properties", {{key.key, {{"maximum", limit.max}}}}}}}};
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
        {RestartKey().key, KeySchema(RestartKey())},
        {UserKey().key, KeySchema(UserKey())},
        {HostKey().key, KeySchema(HostKey())},
        {WeightKey().key, KeySchema(WeightKey())},
        {MaxPriorityKey().key, KeySchema(MaxPriorityKey())}}}};
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
  for (const Option& key : kind.keys) {
    schema["properties"][key.key] = KeySchema(key);
    for (const LowerMax& limit : key.lower_max) {
      schema["allOf"].push_back(LowerMaxSchema(kind, key, limit));
    }
  }
  return schema;
}

std::string MarkdownTable(std::span<const Option> keys) {
  std::string table =
      "| key | allowed | default | what it is |\n|---|---|---|---|\n";
  for (const Option& key : keys) {
    table += fmt::format("| `{}` | {} | {} | {} |\n", key.key,
                         AllowedValues(key), DefaultOf(key), key.help);
  }
  return table;
}

std::vector<Option> MeshKeysAndEtcd() {
  const auto keys = MeshKeys();
  std::vector<Option> all(keys.begin(), keys.end());
  all.push_back(EtcdKey());
  return all;
}

}  // namespace

Json TopologySchema() {
  Json gpu = MapSchema(GpuKeys());
  gpu["description"] = "gpud, the GPU";
  gpu["properties"][RestartKey().key] = KeySchema(RestartKey());
  gpu["properties"]["model"] = MapSchema(GpuKeys(kModelSection));
  gpu["properties"]["model"]["description"] =
      "the emulated GPU; EDGE Table II by default";
  Json& tls = gpu["properties"]["tls"] = MapSchema(GpuKeys(kTlsSection));
  tls["description"] = "with `listen`: certificates, and whom to believe";
  for (const Option& key : GpuKeys(kTlsSection))
    tls["required"].push_back(key.key);
  gpu["dependentRequired"] = {{kListenKey, {"tls"}}, {"tls", {kListenKey}}};
  gpu["properties"][HostKey().key] = KeySchema(HostKey());
  Json mesh = MapSchema(MeshKeys());
  mesh["description"] = "with `hosts`: the links between them";
  Json& link_tls = mesh["properties"]["tls"] =
      MapSchema(MeshKeys(kMeshTlsSection));
  link_tls["description"] = "this host's certificate, and whom to believe";
  for (const Option& key : MeshKeys(kMeshTlsSection)) {
    link_tls["required"].push_back(key.key);
  }
  Json member = KeySchema(EtcdKey());
  const Json what = std::move(member["description"]);
  member.erase("description");
  mesh["properties"][EtcdKey().key] = {
      {"anyOf",
       {{{"type", "array"}, {"minItems", 1}, {"items", std::move(member)}},
        {{"const", kOwnEtcd}}}},
      {"description", what}};
  Json host = MapSchema({&AddressKey(), 1});
  host["properties"][NodeKey().key] = KeySchema(NodeKey());
  host["type"] = {"object", "null"};
  Json link = MapSchema(LinkKeys());
  for (const Option& key : LinkKeys()) link["required"].push_back(key.key);
  Json kinds = Json::array();
  for (const DeviceKind& kind : DeviceKinds()) {
    kinds.push_back(DeviceSchema(kind));
  }
  Json name = NameSchema();
  name["description"] = "of the testbed; `carillon up --name` wins";
  return {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"title", "Carillon topology"},
      {"description", "What `carillon up` brings up; see docs/cli.md"},
      {"type", "object"},
      {"additionalProperties", false},
      {"properties",
       {{"name", std::move(name)},
        {"gpu", std::move(gpu)},
        {"record",
         {{"type", "integer"},
          {"minimum", shm::FlightRecorder::kMinRecords},
          {"maximum", shm::FlightRecorder::kMaxRecords},
          {"description", kRecordHelp}}},
        {"faults", {{"type", "boolean"}, {"description", kFaultsHelp}}},
        {"dashboard",
         {{"description", kDashboardHelp},
          {"oneOf",
           {{{"type", "boolean"}},
            {{"type", "object"},
             {"additionalProperties", false},
             {"properties",
              {{"port",
                {{"type", "integer"},
                 {"minimum", 0},
                 {"maximum", 65535},
                 {"description", kDashboardPortHelp}}}}}}}}}},
        {"hosts",
         {{"type", "object"},
          {"description", "the hosts by name, for `carillon up --host NAME`"},
          {"propertyNames", NameSchema()},
          {"additionalProperties", std::move(host)}}},
        {"links",
         {{"type", "array"},
          {"description", kLinksHelp},
          {"items", std::move(link)}}},
        {"mesh", std::move(mesh)},
        {"devices",
         {{"type", "array"},
          {"maxItems", kMaxDevices},
          {"items", {{"oneOf", std::move(kinds)}}}}}}}};
}

std::string TopologyKeysAsMarkdown() {
  std::string text =
      "#### `gpu`\n\n" + MarkdownTable(GpuKeys()) + "\n#### `gpu: model`\n\n" +
      MarkdownTable(GpuKeys(kModelSection)) +
      "\n#### `gpu: tls`\n\nWhere there is `listen`, and all "
      "of them.\n\n" +
      MarkdownTable(GpuKeys(kTlsSection)) + "\n#### `hosts: NAME`\n\n" +
      MarkdownTable(std::vector<Option>{AddressKey(), NodeKey()}) +
      "\n#### `links`\n\nA list, " + std::string(kLinksHelp) + ".\n\n" +
      MarkdownTable(LinkKeys()) + "\n#### `mesh`\n\n" +
      MarkdownTable(MeshKeysAndEtcd()) +
      "\n#### `mesh: tls`\n\nWhere devices and the GPU are on "
      "different hosts, and all of them.\n\n" +
      MarkdownTable(MeshKeys(kMeshTlsSection));
  for (const DeviceKind& kind : DeviceKinds()) {
    if (kind.keys.empty()) continue;
    text += fmt::format("\n#### `kind: {}`\n\nThe device {}.\n\n{}", kind.name,
                        kind.summary, MarkdownTable(kind.keys));
  }
  return text;
}

absl::StatusOr<std::string> WithTopologyKeys(std::string_view page) {
  constexpr std::string_view kBegin =
      "<!-- Written by `bazel run "
      "//tools/testbed/topology:write_docs`. "
      "-->\n";
  constexpr std::string_view kEnd = "<!-- End of what is written. -->\n";
  const size_t begin = page.find(kBegin);
  const size_t end = page.find(kEnd);
  if (begin == page.npos || end == page.npos || end < begin) {
    return absl::FailedPreconditionError(fmt::format(
        "no place for the tables of keys: neither {} nor {}", kBegin, kEnd));
  }
  return fmt::format("{}\n{}\n{}", page.substr(0, begin + kBegin.size()),
                     TopologyKeysAsMarkdown(), page.substr(end));
}

}  // namespace carillon::testbed
