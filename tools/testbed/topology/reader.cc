#include "tools/testbed/topology/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "base/host_port.h"
#include "base/option_table.h"
#include "base/status.h"
#include "base/text.h"
#include "shm/recorder/flight_recorder.h"
#include "tools/testbed/topology/hosts.h"

namespace carillon::testbed {
namespace {

// For ReadInto(): a whole number from `min` to `max`.
auto IntegerFrom(uint64_t min, uint64_t max) {
  return [=](const std::string& text) { return ReadInteger(text, min, max); };
}

// Reads the file's nodes by the tables of keys.h.
class Reader : StrictReader {
 public:
  Reader(std::string_view default_name, TopologyReading* reading)
      : StrictReader(&reading->problems),
        default_name_(default_name),
        reading_(*reading) {}

  void ReadFile(const YAML::Node& root) {
    reading_.topology.name = default_name_;
    if (!root.IsMap()) {
      Complain(root, fmt::format("the file holds {}; a topology is a map, like "
                                 "`name: demo`",
                                 TypeWord(root)));
      return;
    }
    const EntryList sections = Entries(root, "the topology");
    for (const auto& [key, value] : sections) {
      if (key == "name") {
        ReadName(value, "name", &reading_.topology.name);
      } else if (key == "gpu") {
        ReadGpu(value);
      } else if (key == "record") {
        ReadInto(value, key,
                 IntegerFrom(shm::FlightRecorder::kMinRecords,
                             shm::FlightRecorder::kMaxRecords),
                 &reading_.topology.record);
      } else if (key == "faults") {
        ReadInto(value, key, ReadBoolean, &reading_.topology.faults);
      } else if (key == "dashboard") {
        ReadDashboard(value);
      } else if (key == "devices") {
        ReadDevices(value);
      } else if (key == "hosts") {
        ReadHosts(value);
      } else if (key == "links") {
        ReadLinks(value);
      } else if (key == "mesh") {
        ReadMesh(value);
      } else {
        ComplainUnknown(value.mark, key, "of a topology",
                        {"name", "gpu", "record", "faults", "dashboard",
                         "devices", "hosts", "links", "mesh"});
      }
    }
    for (const auto& [mark, device] : other_users_) {
      if (const std::string wrong = CheckUser(reading_.topology, device);
          !wrong.empty()) {
        Complain(mark, fmt::format("{}: {}", UserKey().key, wrong));
      }
    }
    if (reading_.problems.empty()) {
      CheckPartners();
      CheckPriorities();
    }
    if (!reading_.problems.empty()) return;
    AddOwnEtcd(reading_.topology);
    for (HostProblem& problem : CheckHosts(reading_.topology)) {
      Complain(MarkOf(problem, sections), std::move(problem.text));
    }
  }

 private:
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

  void ReadSettingInto(const Entry& entry, const Option& key,
                       std::vector<Setting>* settings) {
    Setting setting;
    if (ReadInto(
            entry, key.key,
            [&](const std::string& text) { return ReadSetting(key, text); },
            &setting)) {
      settings->push_back(std::move(setting));
    }
  }

  void ReadDashboard(const Entry& entry) {
    Topology& topology = reading_.topology;
    if (!entry.node.IsMap()) {
      ReadInto(entry, "dashboard", ReadBoolean, &topology.dashboard);
      return;
    }
    topology.dashboard = true;
    for (const auto& [key, value] : Entries(entry.node, "dashboard")) {
      if (key == "port") {
        ReadInto(value, key, IntegerFrom(0, 65535), &topology.dashboard_port);
      } else {
        ComplainUnknown(value.mark, key, "of dashboard", {"port"});
      }
    }
  }

  void ReadGpu(const Entry& entry) {
    std::vector<Setting>* const settings = &reading_.topology.gpu;
    if (!IsMap(entry, "gpu")) return;
    const size_t before = reading_.problems.size();
    const EntryList entries = Entries(entry.node, "gpu");
    for (const auto& [key, value] : entries) {
      if (key == "model") {
        if (!IsMap(value, "model")) continue;
        for (const auto& [name, part] : Entries(value.node, "gpu: model")) {
          ReadKnown(name, part, GpuKeys(kModelSection), {}, "of gpu: model",
                    settings);
        }
      } else if (key == "tls") {
        ReadTls(value, "gpu: tls", GpuKeys(kTlsSection), settings);
      } else if (key == RestartKey().key) {
        ReadRestart(value, &reading_.topology.gpu_restart);
      } else if (key == HostKey().key) {
        ReadText(value, HostKey(), &reading_.topology.gpu_host);
      } else {
        ReadKnown(key, value, GpuKeys(),
                  {"model", "tls", RestartKey().key, HostKey().key}, "of gpu",
                  settings);
      }
    }
    CheckListen(entries);
    for (const Setting& setting : *settings) {
      if (setting.option->key == "backend" &&
          setting.text == gpud::kRemoteBackend) {
        Complain(entry.mark,
                 "backend: remote is what gpud of a host without the GPU gets "
                 "by itself: name the hosts in `hosts` (docs/mesh.md)");
      }
    }
    if (reading_.problems.size() == before) {
      ComplainTogether(entry.mark, entries, *settings, kCheckGpu);
    }
  }

  void ReadTls(const Entry& entry, std::string_view where,
               std::span<const Option> keys, std::vector<Setting>* settings) {
    if (!IsMap(entry, "tls")) return;
    const EntryList entries = Entries(entry.node, where);
    for (const auto& [name, part] : entries) {
      ReadKnown(name, part, keys, {}, fmt::format("of {}", where), settings);
    }
    for (const Option& key : keys) {
      if (FindEntry(entries, key.key) == nullptr) {
        Complain(entry.mark,
                 fmt::format("tls has no {}: {}", key.key, key.help));
      }
    }
  }

  // TLS is for TCP only, and TCP needs it.
  void CheckListen(const EntryList& entries) {
    const Entry* const listen = FindEntry(entries, kListenKey);
    const Entry* const tls = FindEntry(entries, "tls");
    if (listen != nullptr && tls == nullptr) {
      Complain(listen->mark,
               "listen needs tls: {certificate: FILE, key: FILE, client_ca: "
               "FILE}; nothing is served over TCP in plaintext");
    }
    if (listen == nullptr && tls != nullptr) {
      Complain(tls->mark, "tls goes with listen: HOST:PORT");
    }
    if (listen == nullptr || !listen->node.IsScalar()) return;
    const auto address = ReadListenAddress(listen->node.Scalar());
    if (address.ok()) return;
    Complain(listen->node,
             fmt::format("{}: {}", kListenKey, address.status().message()));
  }

  void ReadRestart(const Entry& entry, RestartPolicy* policy) {
    std::vector<Setting> settings;
    ReadSettingInto(entry, RestartKey(), &settings);
    if (settings.empty()) return;
    for (const auto each : {RestartPolicy::kNever, RestartPolicy::kOnFailure}) {
      if (settings[0].text == ToText(each)) *policy = each;
    }
  }

  void ReadUser(const Entry& entry, DeviceEntry* device) {
    std::vector<Setting> settings;
    ReadSettingInto(entry, UserKey(), &settings);
    if (settings.empty()) return;
    device->user = settings[0].text;
    other_users_.emplace_back(entry.node.Mark(), *device);
  }

  void ReadText(const Entry& entry, const Option& key, std::string* text) {
    std::vector<Setting> settings;
    ReadSettingInto(entry, key, &settings);
    if (!settings.empty()) *text = settings[0].text;
  }

  void ReadHosts(const Entry& entry) {
    if (!IsMap(entry, "hosts")) return;
    for (const auto& [name, value] : Entries(entry.node, "hosts")) {
      HostEntry host{.name = name};
      if (const std::string wrong = CheckHostName(name); !wrong.empty()) {
        Complain(value.mark, fmt::format("hosts: {}", wrong));
        continue;
      }
      if (!value.node.IsNull() && !IsMap(value, name)) continue;
      for (const auto& [key, part] : Entries(value.node, "a host")) {
        if (key == AddressKey().key) {
          ReadInto(part, key, ReadHostAddress, &host.address);
        } else if (key == NodeKey().key) {
          ReadText(part, NodeKey(), &host.node);
        } else {
          ComplainUnknown(part.mark, key, "of a host",
                          {AddressKey().key, NodeKey().key});
        }
      }
      host_marks_.push_back(value.mark);
      reading_.topology.hosts.push_back(std::move(host));
    }
  }

  void ReadLinks(const Entry& entry) {
    if (!IsList(entry, "links")) return;
    for (const YAML::Node& node : entry.node) {
      if (!node.IsMap()) {
        Complain(node, fmt::format("a link is a map like {{from: a, to: b, "
                                   "latency: 2us}}; this is {}",
                                   TypeWord(node)));
        continue;
      }
      LinkEntry link;
      const EntryList entries = Entries(node, "a link");
      for (const auto& [key, value] : entries) {
        std::vector<Setting> settings;
        ReadKnown(key, value, LinkKeys(), {}, "of a link", &settings);
        if (settings.empty()) continue;
        if (key == kLatencyKey) {
          ReadInto(value, key, ParseDuration, &link.latency);
        } else {
          (key == kFromKey ? link.from : link.to) = settings[0].text;
        }
      }
      for (const Option& key : LinkKeys()) {
        if (FindEntry(entries, key.key) == nullptr) {
          Complain(node,
                   fmt::format("a link has no {}: {}", key.key, key.help));
        }
      }
      link_marks_.push_back(node.Mark());
      reading_.topology.links.push_back(std::move(link));
    }
  }

  void ReadMesh(const Entry& entry) {
    std::vector<Setting>* const settings = &reading_.topology.mesh;
    if (!IsMap(entry, "mesh")) return;
    for (const auto& [key, value] : Entries(entry.node, "mesh")) {
      if (key == "tls") {
        ReadTls(value, "mesh: tls", MeshKeys(kMeshTlsSection), settings);
      } else if (key == EtcdKey().key) {
        ReadEtcd(value);
      } else {
        ReadKnown(key, value, MeshKeys(), {"tls", EtcdKey().key}, "of mesh",
                  settings);
      }
    }
  }

  void ReadEtcd(const Entry& entry) {
    if (entry.node.IsScalar() && entry.node.Scalar() == kOwnEtcd) {
      reading_.topology.own_etcd = true;
      return;
    }
    if (entry.node.IsScalar() || entry.node.size() == 0) {
      Complain(
          entry.mark,
          "etcd: name its members, as [https://10.0.0.1:2379], or say own");
      return;
    }
    if (!IsList(entry, EtcdKey().key)) return;
    for (const YAML::Node& each : entry.node) {
      std::string member;
      if (ReadInto({entry.mark, each}, EtcdKey().key, ReadEtcdMember,
                   &member)) {
        reading_.topology.etcd.push_back(std::move(member));
      }
    }
  }

  void ReadNumber(const Entry& entry, const Option& key, uint64_t* number) {
    std::vector<Setting> settings;
    ReadSettingInto(entry, key, &settings);
    if (!settings.empty()) *number = settings[0].number;
  }

  // `also` are keys besides the table's, for the suggestion.
  void ReadKnown(const std::string& name, const Entry& entry,
                 std::span<const Option> keys,
                 std::vector<std::string_view> also, std::string_view where,
                 std::vector<Setting>* settings) {
    if (const Option* key = FindKey(keys, name); key != nullptr) {
      ReadSettingInto(entry, *key, settings);
      return;
    }
    for (const Option& key : keys) also.push_back(key.key);
    ComplainUnknown(entry.mark, name, where, std::move(also));
  }

  void ReadDevices(const Entry& entry) {
    if (entry.node.IsNull()) return;
    if (!IsList(entry, "devices")) return;
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
    const size_t before = reading_.problems.size();
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
        counted = ReadInto(entry, key, IntegerFrom(1, kMaxDevices), &count);
        complete &= counted;
      } else if (key == "wait_ready") {
        ReadInto(entry, key, ReadBoolean, &device.wait_ready);
      } else if (key == RestartKey().key) {
        ReadRestart(entry, &device.restart);
      } else if (key == UserKey().key) {
        ReadUser(entry, &device);
      } else if (key == HostKey().key) {
        ReadText(entry, HostKey(), &device.host);
      } else if (key == WeightKey().key) {
        ReadNumber(entry, WeightKey(), &device.weight);
      } else if (key == MaxPriorityKey().key) {
        ReadNumber(entry, MaxPriorityKey(), &device.max_priority);
      } else if (device.kind == nullptr) {
        continue;  // who knows which keys it has
      } else if (key == "command" && device.kind->name == kExecKind) {
        ReadCommand(entry, &device.command);
      } else {
        std::vector<std::string_view> also = {
            "name",           "kind",
            "count",          "wait_ready",
            RestartKey().key, UserKey().key,
            WeightKey().key,  MaxPriorityKey().key,
            HostKey().key};
        if (device.kind->name == kExecKind) also.push_back("command");
        ReadKnown(key, entry, device.kind->keys, std::move(also),
                  fmt::format("of a device of kind {}", device.kind->name),
                  &device.settings);
      }
    }
    if (device.kind != nullptr && device.kind->name == kExecKind &&
        FindEntry(entries, "command") == nullptr) {
      Complain(node, "the exec device has no command");
    }
    if (reading_.problems.size() == before && device.kind->check != nullptr) {
      ComplainTogether(node.Mark(), entries, device.settings,
                       device.kind->check);
    }
    if (!complete) return;
    size_t added = reading_.topology.devices.size();
    AddDevices(device, counted, count, name->node);
    const Entry* const priority = FindEntry(entries, "priority");
    for (; added < reading_.topology.devices.size(); ++added) {
      device_marks_.push_back(
          {node.Mark(), (priority ? priority->node : node).Mark()});
      for (const std::string_view key : {kHandTo, kTakeFrom}) {
        if (const Entry* const entry = FindEntry(entries, key)) {
          partners_.push_back({entry->node.Mark(), key, added});
        }
      }
    }
  }

  // Each of the settings is right by itself; the program may still refuse them
  // together. Its message begins with the flag that it is about.
  void ComplainTogether(const YAML::Mark& mark, const EntryList& entries,
                        std::span<const Setting> settings,
                        CheckSettings check) {
    const absl::Status status = check(settings);
    if (status.ok()) return;
    const std::string sentence(status.message());
    for (const Setting& setting : settings) {
      const std::string flag = fmt::format("{}: ", setting.option->flag);
      const Entry* const entry = FindEntry(entries, setting.option->key);
      if (entry == nullptr || !sentence.starts_with(flag)) continue;
      return Complain(entry->node, fmt::format("{}: {}", setting.option->key,
                                               sentence.substr(flag.size())));
    }
    Complain(mark, sentence);
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
      if (count == 1) CheckPorts(copy, name);
      reading_.topology.devices.push_back(std::move(copy));
    }
  }

  // Ports have a default, so a device without the key has a fixed port, too.
  static bool HasFixedPort(const DeviceEntry& device) {
    for (const std::string_view name : {"udp_port", "tcp_port"}) {
      const Option* const key = FindKey(device.kind->keys, name);
      if (key == nullptr) continue;
      const auto set =
          std::ranges::find(device.settings, key, &Setting::option);
      if (set == device.settings.end() || set->number != 0) {
        return true;
      }
    }
    return false;
  }

  // Two devices cannot have one port of one address.
  void CheckPorts(const DeviceEntry& device, const YAML::Node& name) {
    const auto find = [&](std::string_view option) -> const Setting* {
      const Option* const key = FindKey(device.kind->keys, option);
      const auto set =
          std::ranges::find(device.settings, key, &Setting::option);
      return set == device.settings.end() ? nullptr : &*set;
    };
    const Setting* const listen = find("listen");
    for (const std::string_view option : {"udp_port", "tcp_port"}) {
      const Setting* const port = find(option);
      if (FindKey(device.kind->keys, option) == nullptr ||
          (port != nullptr && port->number == 0)) {
        continue;
      }
      const std::string where = fmt::format(
          "{} {} of {}", option,
          port == nullptr ? "by default" : fmt::format("{}", port->number),
          listen == nullptr ? "" : listen->text);
      const auto [first, is_new] = ports_.emplace(where, device.name);
      if (is_new) continue;
      Complain(name, fmt::format("{}: {} has the same one; 0 takes any that is "
                                 "free",
                                 option, Quote(first->second)));
    }
  }

  static const std::string* FindText(const DeviceEntry& device,
                                     std::string_view key) {
    const Option* const option = FindKey(device.kind->keys, key);
    const auto set =
        std::ranges::find(device.settings, option, &Setting::option);
    return set == device.settings.end() ? nullptr : &set->text;
  }

  // gpud would refuse what a device asks for.
  void CheckPriorities() {
    uint64_t gpus_most = gpud::kHighestPriority;
    for (const Setting& setting : reading_.topology.gpu) {
      if (setting.option->key == MaxPriorityKey().key) {
        gpus_most = setting.number;
      }
    }
    for (size_t i = 0; i < reading_.topology.devices.size(); ++i) {
      const DeviceEntry& device = reading_.topology.devices[i];
      const Option* const key = FindKey(device.kind->keys, "priority");
      if (key == nullptr) continue;
      const auto set =
          std::ranges::find(device.settings, key, &Setting::option);
      const uint64_t asked = set == device.settings.end()
                                 ? std::stoull(ValueOf(*key))
                                 : set->number;
      if (asked <= std::min(gpus_most, device.max_priority)) continue;
      Complain(device_marks_[i].priority,
               fmt::format("priority: {} asks for {}, and the {} is {}",
                           Quote(device.name), asked,
                           device.max_priority < asked ? "device's max_priority"
                                                       : "max_priority of gpu",
                           std::min(gpus_most, device.max_priority)));
    }
  }

  // Whoever hands on, and whoever takes, must name each other: neither would
  // see the other's frames. A user's own device says in its code what it does.
  void CheckPartners() {
    const std::vector<DeviceEntry>& devices = reading_.topology.devices;
    for (const auto& [mark, key, index] : partners_) {
      const std::string& name = devices[index].name;
      const std::string& other = *FindText(devices[index], key);
      const auto partner =
          std::ranges::find(devices, other, &DeviceEntry::name);
      if (partner == devices.end()) {
        Complain(mark, fmt::format("{}: {} names {}, which is no device of "
                                   "this topology",
                                   key, Quote(name), Quote(other)));
        continue;
      }
      if (partner->kind->name == kExecKind) continue;
      const std::string_view back = key == kHandTo ? kTakeFrom : kHandTo;
      const std::string* const named = FindText(*partner, back);
      if (named != nullptr && *named == name) continue;
      const std::string what = named == nullptr
                                   ? fmt::format("has no {}", back)
                                   : fmt::format("has {}: {}", back, *named);
      Complain(mark,
               fmt::format("{}: {} names {}, which {}; the two must name each "
                           "other",
                           key, Quote(name), Quote(other), what));
    }
  }

  // Where the problem stands; what the file lacks is missed at its `hosts`.
  YAML::Mark MarkOf(const HostProblem& problem,
                    const EntryList& sections) const {
    const auto section = [&](std::string_view key) {
      const Entry* entry = FindEntry(sections, key);
      if (entry == nullptr) entry = FindEntry(sections, "hosts");
      return entry == nullptr ? YAML::Mark() : entry->mark;
    };
    switch (problem.of) {
      case HostProblem::Of::kGpu:
        return section("gpu");
      case HostProblem::Of::kMesh:
        return section("mesh");
      case HostProblem::Of::kLinks:
        return section("links");
      case HostProblem::Of::kHost:
        return host_marks_.at(problem.index);
      case HostProblem::Of::kLink:
        return link_marks_.at(problem.index);
      case HostProblem::Of::kDevice:
        return device_marks_.at(problem.index).device;
    }
    return YAML::Mark();
  }

  static constexpr std::string_view kHandTo = "hand_to";
  static constexpr std::string_view kTakeFrom = "take_from";

  const std::string default_name_;
  TopologyReading& reading_;
  std::map<std::string, int> device_lines_;
  // Devices with a user, and where it is named. What it goes with may stand
  // behind it.
  std::vector<std::pair<YAML::Mark, DeviceEntry>> other_users_;
  std::map<std::string, std::string> ports_;  // whose each is
  // A device, by its index, that names another one, and where.
  struct Partner {
    YAML::Mark mark;
    std::string_view key;
    size_t device = 0;
  };
  std::vector<Partner> partners_;
  // In the topology's order.
  struct DeviceMarks {
    YAML::Mark device;
    YAML::Mark priority;  // if it has one
  };
  std::vector<DeviceMarks> device_marks_;
  std::vector<YAML::Mark> host_marks_;
  std::vector<YAML::Mark> link_marks_;
};

}  // namespace

TopologyReading ReadTopology(std::string_view text,
                             std::string_view default_name) {
  TopologyReading reading;
  ReadYaml(text, "the smallest topology is `name: demo`", &reading.problems,
           [&](const YAML::Node& root) {
             ReadTopologyNode(root, default_name, &reading);
           });
  return reading;
}

void ReadTopologyNode(const YAML::Node& root, std::string_view default_name,
                      TopologyReading* reading) {
  Reader(default_name, reading).ReadFile(root);
}

void AnchorPaths(const std::string& file, Topology& topology) {
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::absolute(file, error).parent_path();
  const auto anchor = [&](std::string& path) {
    path = (folder / path).lexically_normal().string();
  };
  const auto anchor_paths = [&](std::vector<Setting>& settings) {
    for (Setting& setting : settings) {
      const auto& words = setting.option->choices;
      if (setting.option->type == OptionType::kPath &&
          std::ranges::count(words, setting.text) == 0) {
        anchor(setting.text);
      }
    }
  };
  anchor_paths(topology.gpu);
  anchor_paths(topology.mesh);
  for (DeviceEntry& device : topology.devices) {
    // A program without a slash is looked up in PATH.
    if (!device.command.empty() &&
        device.command[0].find('/') != std::string::npos) {
      anchor(device.command[0]);
    }
    anchor_paths(device.settings);
  }
}

absl::StatusOr<TopologyReading> ReadTopologyFile(
    const std::string& path, std::string_view default_name) {
  ASSIGN_OR_RETURN(const auto text, ReadYamlFile(path, "a topology file"));
  TopologyReading reading = ReadTopology(text, default_name);
  AnchorPaths(path, reading.topology);
  return reading;
}

absl::StatusOr<Topology> LoadTopology(const std::string& path,
                                      std::string_view default_name) {
  ASSIGN_OR_RETURN(auto reading, ReadTopologyFile(path, default_name));
  if (reading.problems.empty()) return std::move(reading.topology);
  return absl::InvalidArgumentError(ToString(reading.problems, path));
}

}  // namespace carillon::testbed
