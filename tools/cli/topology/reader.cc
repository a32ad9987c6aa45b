#include "tools/cli/topology/reader.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "tools/cli/topology/value.h"
#include "tools/cli/ui/text.h"

namespace carillon::cli {
namespace {

// Looks at a file's shape before anything is built from it: a few bytes of
// nesting or of aliases must not cost much.
class ShapeCheck : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw YAML::ParserException(mark, "aliases are not allowed");
  }
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark& mark, const std::string&,
                       YAML::anchor_t, YAML::EmitterStyle::value) override {
    Descend(mark);
  }
  void OnSequenceEnd() override { --depth_; }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    Descend(mark);
  }
  void OnMapEnd() override { --depth_; }

 private:
  void Descend(const YAML::Mark& mark) {
    if (++depth_ > kMaxTopologyDepth) {
      throw YAML::ParserException(
          mark, fmt::format("nested deeper than {} levels", kMaxTopologyDepth));
    }
  }

  int depth_ = 0;
};

const char* TypeWord(const YAML::Node& node) {
  if (node.IsMap()) return "a map";
  if (node.IsSequence()) return "a list";
  if (node.IsScalar()) return "a value";
  return "nothing";
}

// The file's nodes against the tables of keys.h.
class Reader {
 public:
  Reader(std::string_view default_name, TopologyReading* reading)
      : default_name_(default_name), reading_(*reading) {}

  void ReadFile(const YAML::Node& root) {
    reading_.topology.name = default_name_;
    if (!root.IsMap()) {
      Complain(root, fmt::format("the file holds {}; a topology is a map, like "
                                 "`name: demo`",
                                 TypeWord(root)));
      return;
    }
    for (const auto& [key, value] : Entries(root, "the topology")) {
      if (key == "name") {
        ReadName(value, "name", &reading_.topology.name);
      } else if (key == "gpu") {
        ReadGpu(value);
      } else if (key == "record") {
        ReadInto(
            value, key,
            [](const std::string& text) {
              return ReadInteger(text, kLeastRecords, kMostRecords);
            },
            &reading_.topology.record);
      } else if (key == "devices") {
        ReadDevices(value);
      } else {
        ComplainUnknown(value.mark, key, "of a topology",
                        {"name", "gpu", "record", "devices"});
      }
    }
  }

 private:
  struct Entry {
    YAML::Mark mark;  // of the key
    YAML::Node node;
  };
  using EntryList = std::vector<std::pair<std::string, Entry>>;

  void Complain(const YAML::Mark& mark, std::string text) {
    reading_.problems.push_back(
        {mark.line + 1, mark.column + 1, std::move(text)});
  }
  void Complain(const YAML::Node& node, std::string text) {
    Complain(node.Mark(), std::move(text));
  }

  void ComplainUnknown(const YAML::Mark& mark, const std::string& key,
                       std::string_view where,
                       std::vector<std::string_view> known) {
    Complain(mark,
             fmt::format("unknown key {} {}{}", Quote(key), where,
                         DidYouMean(key, known,
                                    fmt::format("; known keys: {}",
                                                fmt::join(known, ", ")))));
  }

  // The entries of a map in the file's order, without keys that are no text or
  // came before.
  EntryList Entries(const YAML::Node& map, std::string_view where) {
    EntryList entries;
    std::map<std::string, int> lines;
    for (const auto& entry : map) {
      if (!entry.first.IsScalar()) {
        Complain(entry.first, fmt::format("a key of {} is {}", where,
                                          TypeWord(entry.first)));
        continue;
      }
      const std::string key = entry.first.Scalar();
      const auto [first, is_new] =
          lines.emplace(key, entry.first.Mark().line + 1);
      if (!is_new) {
        Complain(entry.first, fmt::format("key {} is there twice (first in "
                                          "line {})",
                                          Quote(key), first->second));
        continue;
      }
      entries.push_back({key, {entry.first.Mark(), entry.second}});
    }
    return entries;
  }

  // The text of a scalar; complains otherwise.
  bool ReadScalar(const Entry& entry, std::string_view key, std::string* text) {
    if (entry.node.IsScalar()) {
      *text = entry.node.Scalar();
      return true;
    }
    if (entry.node.IsNull()) {
      Complain(entry.mark, fmt::format("{} has no value", key));
    } else {
      Complain(entry.mark,
               fmt::format("{} is {}, not a value", key, TypeWord(entry.node)));
    }
    return false;
  }

  template <class T, class Read>
  bool ReadInto(const Entry& entry, std::string_view key, Read read, T* value) {
    std::string text;
    if (!ReadScalar(entry, key, &text)) return false;
    absl::StatusOr<T> result = read(text);
    if (!result.ok()) {
      Complain(entry.node, fmt::format("{}: {}", key,
                                       std::string(result.status().message())));
      return false;
    }
    *value = *std::move(result);
    return true;
  }

  bool ReadName(const Entry& entry, std::string_view key, std::string* name) {
    std::string text;
    if (!ReadScalar(entry, key, &text)) return false;
    if (const std::string wrong = CheckName(text); !wrong.empty()) {
      Complain(entry.node, fmt::format("{}: {}", key, wrong));
      return false;
    }
    *name = text;
    return true;
  }

  void ReadSettingInto(const Entry& entry, const Key& key,
                       std::vector<Setting>* settings) {
    Setting setting;
    if (ReadInto(
            entry, key.name,
            [&](const std::string& text) { return ReadSetting(key, text); },
            &setting)) {
      settings->push_back(std::move(setting));
    }
  }

  void ReadGpu(const Entry& entry) {
    std::vector<Setting>* const settings = &reading_.topology.gpu;
    if (!IsMap(entry, "gpu")) return;
    for (const auto& [key, value] : Entries(entry.node, "gpu")) {
      if (key == "model") {
        if (!IsMap(value, "model")) continue;
        for (const auto& [name, part] : Entries(value.node, "gpu: model")) {
          ReadKnown(name, part, GpuModelKeys(), {}, "of gpu: model", settings);
        }
      } else if (key == RestartKey().name) {
        ReadRestart(value, &reading_.topology.gpu_restart);
      } else {
        ReadKnown(key, value, GpuKeys(), {"model", RestartKey().name}, "of gpu",
                  settings);
      }
    }
  }

  void ReadRestart(const Entry& entry, RestartPolicy* policy) {
    std::vector<Setting> settings;
    ReadSettingInto(entry, RestartKey(), &settings);
    if (settings.empty()) return;
    for (const auto each : {RestartPolicy::kNever, RestartPolicy::kOnFailure}) {
      if (settings[0].text == ToText(each)) *policy = each;
    }
  }

  bool IsMap(const Entry& entry, std::string_view what) {
    if (entry.node.IsMap()) return true;
    Complain(entry.mark,
             fmt::format("{} is {}, not a map", what, TypeWord(entry.node)));
    return false;
  }

  // `also`: keys beside the table's, for the suggestion.
  void ReadKnown(const std::string& name, const Entry& entry,
                 std::span<const Key> keys, std::vector<std::string_view> also,
                 std::string_view where, std::vector<Setting>* settings) {
    if (const Key* key = FindKey(keys, name); key != nullptr) {
      ReadSettingInto(entry, *key, settings);
      return;
    }
    for (const Key& key : keys) also.push_back(key.name);
    ComplainUnknown(entry.mark, name, where, std::move(also));
  }

  void ReadDevices(const Entry& entry) {
    if (entry.node.IsNull()) return;
    if (!entry.node.IsSequence()) {
      Complain(entry.mark,
               fmt::format("devices is {}, not a list", TypeWord(entry.node)));
      return;
    }
    for (const YAML::Node& device : entry.node) {
      if (!device.IsMap()) {
        Complain(device, fmt::format("a device is a map with at least name and "
                                     "kind; this is {}",
                                     TypeWord(device)));
        continue;
      }
      ReadDevice(device);
    }
    if (reading_.topology.devices.size() > kMaxDevices) {
      Complain(entry.mark,
               fmt::format("{} devices; allowed: {}",
                           reading_.topology.devices.size(), kMaxDevices));
    }
  }

  void ReadDevice(const YAML::Node& node) {
    const auto entries = Entries(node, "a device");
    DeviceEntry device;
    uint64_t count = 1;
    bool counted = false;
    bool complete = true;
    const Entry* const name = FindEntry(entries, "name");
    const Entry* const kind = FindEntry(entries, "kind");
    if (name == nullptr) Complain(node, "the device has no name");
    complete &= name != nullptr && ReadName(*name, "name", &device.name);
    if (kind == nullptr) Complain(node, "the device has no kind");
    complete &= kind != nullptr && ReadKind(*kind, &device.kind);

    for (const auto& [key, entry] : entries) {
      if (key == "name" || key == "kind") continue;
      if (key == "count") {
        counted = ReadInto(
            entry, key,
            [](const std::string& text) {
              return ReadInteger(text, 1, kMaxDevices);
            },
            &count);
        complete &= counted;
      } else if (key == "wait_ready") {
        ReadInto(entry, key, ReadBoolean, &device.wait_ready);
      } else if (key == RestartKey().name) {
        ReadRestart(entry, &device.restart);
      } else if (device.kind == nullptr) {
        continue;  // who knows which keys it has
      } else if (key == "command" && device.kind->name == kExecKind) {
        ReadCommand(entry, &device.command);
      } else {
        std::vector<std::string_view> also = {"name", "kind", "count",
                                              "wait_ready", RestartKey().name};
        if (device.kind->name == kExecKind) also.push_back("command");
        ReadKnown(key, entry, device.kind->keys, std::move(also),
                  fmt::format("of a device of kind {}", device.kind->name),
                  &device.settings);
      }
    }
    if (device.kind != nullptr) CheckLowerMaxima(entries, device);
    if (device.kind != nullptr && device.kind->name == kExecKind &&
        FindEntry(entries, "command") == nullptr) {
      Complain(node, "the exec device has no command");
    }
    if (complete) AddDevices(device, counted, count, name->node);
  }

  // What a key allows may depend on another one.
  void CheckLowerMaxima(const EntryList& entries, const DeviceEntry& device) {
    for (const Setting& setting : device.settings) {
      for (const LowerMax& limit : setting.key->lower_max) {
        if (setting.number <= limit.max ||
            ValueOf(entries, device, limit.key) != limit.value) {
          continue;
        }
        Complain(FindEntry(entries, setting.key->name)->node,
                 fmt::format("{}: '{}' is out of range with {} {}; allowed: {} "
                             "to {}",
                             setting.key->name, setting.number, limit.key,
                             limit.value, setting.key->min, limit.max));
      }
    }
  }

  // What a key says, or its default; nothing when it says what it must not.
  static std::string_view ValueOf(const EntryList& entries,
                                  const DeviceEntry& device,
                                  std::string_view name) {
    const Key* const key = FindKey(device.kind->keys, name);
    for (const Setting& setting : device.settings) {
      if (setting.key == key) return setting.text;
    }
    return FindEntry(entries, name) == nullptr ? key->fallback : "";
  }

  static const Entry* FindEntry(const EntryList& entries,
                                std::string_view name) {
    for (const auto& [key, entry] : entries) {
      if (key == name) return &entry;
    }
    return nullptr;
  }

  bool ReadKind(const Entry& entry, const DeviceKind** kind) {
    std::string text;
    if (!ReadScalar(entry, "kind", &text)) return false;
    *kind = FindDeviceKind(text);
    if (*kind != nullptr) return true;
    std::vector<std::string_view> names;
    for (const DeviceKind& known : DeviceKinds()) names.push_back(known.name);
    Complain(entry.node,
             fmt::format("kind: {} is not known{} (allowed: {})", Quote(text),
                         DidYouMean(text, names), fmt::join(names, ", ")));
    return false;
  }

  void ReadCommand(const Entry& entry, std::vector<std::string>* command) {
    if (!entry.node.IsSequence() || entry.node.size() == 0) {
      Complain(entry.mark,
               "command must be a list, like [./my_device, --fast]");
      return;
    }
    for (const YAML::Node& word : entry.node) {
      if (!word.IsScalar()) {
        Complain(word, fmt::format("a word of command is {}", TypeWord(word)));
      } else if (word.Scalar().find('\0') != std::string::npos) {
        Complain(word, "a word of command holds a zero byte");
      } else {
        command->push_back(word.Scalar());
      }
    }
  }

  void AddDevices(const DeviceEntry& device, bool counted, uint64_t count,
                  const YAML::Node& name) {
    if (count > 1 && HasFixedPort(device)) {
      Complain(name, fmt::format("{} devices cannot share a port; leave count "
                                 "out, or set udp_port and tcp_port to 0",
                                 count));
    }
    for (uint64_t i = 0; i < count; ++i) {
      DeviceEntry copy = device;
      if (counted) copy.name += fmt::format("{}", i);
      if (const std::string wrong = CheckName(copy.name); !wrong.empty()) {
        Complain(name, fmt::format("name: {}", wrong));
        return;
      }
      const auto [first, is_new] =
          device_lines_.emplace(copy.name, name.Mark().line + 1);
      if (!is_new) {
        Complain(name, fmt::format("name: two devices are called {} (the first "
                                   "in line {})",
                                   Quote(copy.name), first->second));
        return;
      }
      reading_.topology.devices.push_back(std::move(copy));
    }
  }

  // Ports have a default, so not setting one means a fixed one, too.
  static bool HasFixedPort(const DeviceEntry& device) {
    for (const std::string_view name : {"udp_port", "tcp_port"}) {
      const Key* const key = FindKey(device.kind->keys, name);
      if (key == nullptr) continue;
      const auto set =
          std::find_if(device.settings.begin(), device.settings.end(),
                       [&](const Setting& s) { return s.key == key; });
      if (set == device.settings.end() || set->number != 0) {
        return true;
      }
    }
    return false;
  }

  const std::string default_name_;
  TopologyReading& reading_;
  std::map<std::string, int> device_lines_;
};

// Makes relative paths in the file relative to its folder.
void AnchorPaths(const std::filesystem::path& folder, Topology& topology) {
  const auto anchor = [&](std::string& path) {
    path = (folder / path).lexically_normal().string();
  };
  for (DeviceEntry& device : topology.devices) {
    // A program without a slash is found in PATH.
    if (!device.command.empty() &&
        device.command[0].find('/') != std::string::npos) {
      anchor(device.command[0]);
    }
    for (Setting& setting : device.settings) {
      const auto& words = setting.key->choices;
      if (setting.key->type == KeyType::kPath &&
          std::find(words.begin(), words.end(), setting.text) == words.end()) {
        anchor(setting.text);
      }
    }
  }
}

}  // namespace

std::string Problem::ToString(std::string_view file) const {
  if (line == 0) return fmt::format("{}: {}", file, text);
  return fmt::format("{}:{}:{}: {}", file, line, column, text);
}

TopologyReading ReadTopology(std::string_view text,
                             std::string_view default_name) {
  TopologyReading reading;
  if (text.size() > kMaxTopologyBytes) {
    reading.problems.push_back(
        {0, 0,
         fmt::format("the file has {} bytes; allowed: {}", text.size(),
                     FormatExactSize(kMaxTopologyBytes))});
    return reading;
  }
  // yaml-cpp throws; nothing of it leaves this function.
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    ShapeCheck shape;
    int documents = 0;
    // No further: what is no document's beginning, like a comma, yaml-cpp takes
    // for one empty document after another.
    while (documents < 2 && parser.HandleNextDocument(shape)) ++documents;
    if (documents > 1) {
      reading.problems.push_back(
          {0, 0,
           "the file has more than one document, or text behind the first that "
           "belongs to nothing"});
      return reading;
    }
    const YAML::Node root = YAML::Load(std::string(text));
    if (!root.IsDefined() || root.IsNull()) {
      reading.problems.push_back(
          {0, 0, "the file is empty; the smallest topology is `name: demo`"});
      return reading;
    }
    Reader(default_name, &reading).ReadFile(root);
  } catch (const YAML::Exception& error) {
    reading.problems.push_back(
        {error.mark.line + 1, error.mark.column + 1, error.msg});
  }
  std::stable_sort(reading.problems.begin(), reading.problems.end(),
                   [](const Problem& a, const Problem& b) {
                     return std::pair(a.line, a.column) <
                            std::pair(b.line, b.column);
                   });
  return reading;
}

absl::StatusOr<TopologyReading> ReadTopologyFile(
    const std::string& path, std::string_view default_name) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(
        fmt::format("{} is a folder, not a topology file", path));
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const std::string message =
        fmt::format("cannot read {}: {}", path, std::strerror(errno));
    return errno == EACCES || errno == EPERM
               ? absl::PermissionDeniedError(message)
               : absl::NotFoundError(message);
  }
  std::string text(kMaxTopologyBytes + 1, '\0');
  file.read(text.data(), text.size());
  text.resize(file.gcount());
  TopologyReading reading = ReadTopology(text, default_name);
  AnchorPaths(std::filesystem::absolute(path, error).parent_path(),
              reading.topology);
  return reading;
}

absl::StatusOr<Topology> LoadTopology(const std::string& path,
                                      std::string_view default_name) {
  absl::StatusOr<TopologyReading> reading =
      ReadTopologyFile(path, default_name);
  if (!reading.ok()) return reading.status();
  if (reading->problems.empty()) return std::move(reading->topology);
  std::string lines;
  for (const Problem& problem : reading->problems) {
    if (!lines.empty()) lines += "\n";
    lines += problem.ToString(path);
  }
  return absl::InvalidArgumentError(lines);
}

}  // namespace carillon::cli
