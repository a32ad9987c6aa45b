// Every key of a topology file. The keys of a program are its own table of
// options (base/option_table.h). The reader, the JSON schema and the
// documentation are made from these tables, so a new key is one entry in its
// program's table, and a new kind of device is one line here.
#ifndef CARILLON_TOOLS_TESTBED_TOPOLOGY_KEYS_H_
#define CARILLON_TOOLS_TESTBED_TOPOLOGY_KEYS_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/option_table.h"
#include "devices/link/linkd_options.h"
#include "gpu_daemon/options/gpud_options.h"

namespace carillon::testbed {

// `restart`, for gpu and for every device. It is no flag, since the supervisor
// uses it.
const Option& RestartKey();
// `user`, for every device; likewise.
const Option& UserKey();

// What the operator lets a device have, for every device; gpud gets them.
const Option& WeightKey();
const Option& MaxPriorityKey();

// `host`, for gpu and for every device, where there are hosts.
const Option& HostKey();
// Those of a host.
const Option& AddressKey();
const Option& NodeKey();
// `mesh: etcd`, a list or this word.
const Option& EtcdKey();
inline constexpr std::string_view kOwnEtcd = "own";
// The keys of one of `links`, all of which are needed.
std::span<const Option> LinkKeys();
inline constexpr std::string_view kFromKey = "from";
inline constexpr std::string_view kToKey = "to";
inline constexpr std::string_view kLatencyKey = "latency";
inline constexpr uint16_t kDefaultLinkPort = 4711;

// Checks settings together, as the program does.
using CheckSettings = absl::Status (*)(std::span<const Setting> settings);

struct DeviceKind {
  std::string_view name;
  std::string_view summary;
  // Relative to the folder of programs: "devices/nic/nic".
  std::string_view program;
  std::vector<Option> keys;
  CheckSettings check = nullptr;
  // What keeps it from a host without the GPU (docs/mesh.md): "GPU memory".
  std::string_view not_over_a_link = {};
};

// The keys of `gpu:` (section ""), of `gpu: model:`, and of `gpu: tls:`. Those of
// tls are needed all together, with `gpu: listen`.
std::span<const Option> GpuKeys(std::string_view section = "");
inline constexpr CheckSettings kCheckGpu = CheckTogether<gpud::GpudOptions>;
using gpud::kListenKey;
using gpud::kModelSection;
using gpud::kTimingKey;  // the testbed lives in simulated time
using gpud::kTlsSection;

// The keys of `mesh:` (section ""), and of `mesh: tls:`, which are needed all
// together: those of linkd.
std::span<const Option> MeshKeys(std::string_view section = "");
inline constexpr std::string_view kMeshTlsSection = link::kTlsSection;

std::span<const DeviceKind> DeviceKinds();
// Returns null for an unknown kind.
const DeviceKind* FindDeviceKind(std::string_view name);
// The kind of a user's own device, which its `command` starts.
inline constexpr std::string_view kExecKind = "exec";

inline constexpr std::string_view kLinksHelp =
    "in simulated time: how long the links between hosts take "
    "(docs/mesh.md)";
inline constexpr std::string_view kRecordHelp =
    "keep the last so many steps of every process, for `carillon postmortem`";
inline constexpr std::string_view kFaultsHelp =
    "let `carillon fault` break it on purpose. Default: false";
inline constexpr std::string_view kDashboardHelp =
    "run a dashboard with it, whose link `carillon dashboard --link` prints: "
    "true, false, or {port: N}. Default: false";
inline constexpr std::string_view kDashboardPortHelp =
    "where it listens, on 127.0.0.1; 0, as without it: any free port";

using gpud::kMaxDevices;
inline constexpr uint64_t kMaxNameLength = 32;
// A host's linkd is called so, and then by the other host's name.
inline constexpr std::string_view kLinkdPrefix = "linkd-";
// And of the one that `mesh: etcd: own` starts.
inline constexpr std::string_view kEtcdName = "etcd";
// Carillon uses these names itself: their logs lie beside the devices'.
inline constexpr std::string_view kDashboardName = "dashboard";
inline constexpr std::array<std::string_view, 3> kReservedNames = {
    "gpud", "supervisor", kDashboardName};

const Option* FindKey(std::span<const Option> keys, std::string_view name);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_TOPOLOGY_KEYS_H_
