#include "tools/testbed/topology/keys.h"

#include <algorithm>
#include <map>
#include <utility>

#include "devices/cpu_host/cpu_host_options.h"
#include "devices/fpga/fpga_options.h"
#include "devices/nic/nic_options.h"
#include "devices/router/router_options.h"
#include "devices/sdk/device_options.h"

namespace carillon::testbed {
namespace {

// Returns the options that have a key, with the defaults of the program.
template <class Options>
std::vector<Option> KeysOf() {
  auto* const defaults = new Options;  // the table refers to it
  std::vector<Option> table = OptionTable(*defaults);
  std::erase_if(table, [](const Option& one) { return one.key.empty(); });
  return table;
}

template <class Options>
DeviceKind MakeKind(std::string_view name, std::string_view summary,
                    std::string_view program,
                    std::string_view not_over_a_link = {}) {
  std::vector<Option> keys = KeysOf<Options>();
  for (Option& key : KeysOf<edge::DeviceOptions>()) {
    keys.push_back(std::move(key));
  }
  return {.name = name,
          .summary = summary,
          .program = program,
          .keys = std::move(keys),
          .check = CheckTogether<Options>,
          .not_over_a_link = not_over_a_link};
}

template <class Options>
std::map<std::string_view, std::vector<Option>> SectionsOf() {
  std::map<std::string_view, std::vector<Option>> sections;
  for (Option& key : KeysOf<Options>()) {
    sections[key.section].push_back(std::move(key));
  }
  return sections;
}

}  // namespace

const Option& RestartKey() {
  static const auto* const key =
      new Option{.flag = "",
                 .key = "restart",
                 .type = OptionType::kChoice,
                 .choices = {"never", "on_failure"},
                 .default_means = "never",
                 .help =
                     "whether it is started again when it ends by a signal or "
                     "with another exit code than 0"};
  return *key;
}

const Option& UserKey() {
  static const auto* const key =
      new Option{.flag = "",
                 .key = "user",
                 .type = OptionType::kText,
                 .min = 1,
                 .max = 32,
                 .default_means = "the testbed's",
                 .help =
                     "the user of this machine whom its process runs as, if "
                     "root brings the testbed up (docs/security.md)"};
  return *key;
}

const Option& WeightKey() {
  static auto* const weight = new uint32_t(1);
  static const auto* const key = new Option(
      IntegerOption("", "weight", weight, 1, gpud::kMostWeight,
                    "its share of the turns under the policy exclusive "
                    "(docs/policies.md)"));
  return *key;
}

const Option& HostKey() {
  static const auto* const key =
      new Option{.flag = "",
                 .key = "host",
                 .type = OptionType::kText,
                 .min = 1,
                 .max = kMaxNameLength - kLinkdPrefix.size(),
                 .default_means = "none: there are no hosts",
                 .help = "where it runs, one of `hosts` (docs/mesh.md)"};
  return *key;
}

const Option& AddressKey() {
  static const auto* const key = new Option{
      .flag = "",
      .key = "address",
      .type = OptionType::kText,
      .min = 2,
      .max = 64,
      .default_means = "by `mesh: etcd`; else the GPU's host needs it",
      .help =
          "HOST or HOST:PORT where the other hosts find it, HOST in "
          "numbers; PORT is the first link's, 4711 by default"};
  return *key;
}

const Option& NodeKey() {
  static const auto* const key =
      new Option{.flag = "",
                 .key = "node",
                 .type = OptionType::kText,
                 .min = 1,
                 .max = 64,
                 .default_means = "any of the job's",
                 .help = "the node of `carillon up --slurm` that it is"};
  return *key;
}

const Option& EtcdKey() {
  static const auto* const key = new Option{
      .flag = "",
      .key = "etcd",
      .type = OptionType::kText,
      .min = 1,
      .max = 256,
      .default_means = "none: each host knows itself",
      .help =
          "where the hosts find each other, by the certificates of `mesh: "
          "tls`: a list of https://HOST:PORT, one a member, or `own` for one "
          "that the GPU's host starts, on the port before its `address`'s"};
  return *key;
}

std::span<const Option> LinkKeys() {
  static const auto* const keys = new std::vector<Option>{
      {.flag = "",
       .key = kFromKey,
       .type = OptionType::kText,
       .min = 1,
       .max = HostKey().max,
       .default_means = "it is needed",
       .help = "one of the two hosts"},
      {.flag = "",
       .key = kToKey,
       .type = OptionType::kText,
       .min = 1,
       .max = HostKey().max,
       .default_means = "it is needed",
       .help = "the other one; one of them has the GPU"},
      {.flag = "",
       .key = kLatencyKey,
       .type = OptionType::kText,
       .min = 1,
       .max = 32,
       .default_means = "it is needed",
       .help = "like 2us: what an event takes to the GPU, and its end back, "
               "in simulated time"}};
  return *keys;
}

const Option& MaxPriorityKey() {
  static auto* const priority = new uint32_t(gpud::kHighestPriority);
  static const auto* const key = new Option(IntegerOption(
      "", "max_priority", priority, 0, gpud::kHighestPriority,
      "the highest priority that it may ask for, if gpu.max_priority is not "
      "lower"));
  return *key;
}

std::span<const Option> GpuKeys(std::string_view section) {
  static const auto* const sections = new auto(SectionsOf<gpud::GpudOptions>());
  return sections->at(section);
}

std::span<const Option> MeshKeys(std::string_view section) {
  static const auto* const sections =
      new auto(SectionsOf<link::LinkdOptions>());
  return sections->at(section);
}

std::span<const DeviceKind> DeviceKinds() {
  static const auto* const kinds = new std::vector<DeviceKind>{
      MakeKind<nic::NicOptions>("nic",
                                "serves memcached clients over UDP and TCP",
                                "devices/nic/nic", "GPU memory"),
      MakeKind<fpga::FpgaOptions>(
          "fpga", "streams frames to an image kernel and checks the results",
          "devices/fpga/fpga"),
      MakeKind<cpu_host::CpuHostOptions>(
          "cpu_host", "launches background kernels and reports their slowdown",
          "devices/cpu_host/cpu_host", "background kernels"),
      MakeKind<router::RouterOptions>(
          "router", "forwards IPv4 and IPv6 packets between network interfaces",
          "devices/router/router", "GPU memory"),
      {.name = kExecKind,
       .summary = "a program of your own (key `command`)",
       .program = "",
       .keys = {}},
  };
  return *kinds;
}

const DeviceKind* FindDeviceKind(std::string_view name) {
  const auto kinds = DeviceKinds();
  const auto found = std::ranges::find(kinds, name, &DeviceKind::name);
  return found == kinds.end() ? nullptr : &*found;
}

const Option* FindKey(std::span<const Option> keys, std::string_view name) {
  const auto found = std::ranges::find(keys, name, &Option::key);
  return found == keys.end() ? nullptr : &*found;
}

}  // namespace carillon::testbed
