// Every key of a topology file: its type, its limits, the flag that it becomes,
// and its meaning. The reader, the JSON schema and the documentation are made
// from these tables, so a new key is one line and a new kind of device one
// table.
#ifndef CARILLON_TOOLS_TESTBED_TOPOLOGY_KEYS_H_
#define CARILLON_TOOLS_TESTBED_TOPOLOGY_KEYS_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace carillon::testbed {

enum class KeyType {
  kBoolean,
  kInteger,  // min to max
  kSize,     // bytes, min to max, with units
  kText,     // min to max bytes
  kPath,    // like kText, relative to the file's folder; or a word of `choices`
  kChoice,  // one of `choices`
  kDimensions,  // WIDTHxHEIGHT, each min to max
};

// If another key of the same map has this value, or is absent and has it as its
// default, `max` is the limit.
struct LowerMax {
  std::string_view key;
  std::string_view value;
  uint64_t max = 0;
};

struct Key {
  std::string_view name;
  KeyType type;
  uint64_t min = 0;
  uint64_t max = 0;
  bool power_of_two = false;
  std::vector<std::string_view> choices = {};
  // "--udp-port"; a boolean becomes the bare flag if it is true.
  std::string_view flag = {};
  // The program's own default, for the documentation.
  std::string_view fallback = {};
  std::string_view help = {};
  std::vector<LowerMax> lower_max = {};  // kInteger
};

// `restart`, for gpu and for every device. It is no flag, since the supervisor
// uses it.
const Key& RestartKey();

struct DeviceKind {
  std::string_view name;
  std::string_view summary;
  // Relative to the folder of programs: "devices/nic/nic".
  std::string_view program;
  std::vector<Key> keys;
};

// The keys of `gpu:`, of `gpu: model:`, and of `gpu: tls:`. Those of tls are
// needed all together, with `gpu: listen`.
std::span<const Key> GpuKeys();
std::span<const Key> GpuModelKeys();
std::span<const Key> GpuTlsKeys();
inline constexpr std::string_view kListenKey = "listen";
// The key of `gpu` that puts the testbed into simulated time.
inline constexpr std::string_view kTimingKey = "timing";

std::span<const DeviceKind> DeviceKinds();
// Returns null for an unknown kind.
const DeviceKind* FindDeviceKind(std::string_view name);
// The kind of a user's own device, which its `command` starts.
inline constexpr std::string_view kExecKind = "exec";

// Limits of a flight recorder (shm::FlightRecorder).
inline constexpr uint64_t kMinRecords = 64;
inline constexpr uint64_t kMaxRecords = 1 << 22;
inline constexpr std::string_view kRecordHelp =
    "keep the last so many steps of every process, for `carillon postmortem`";

inline constexpr std::string_view kFaultsHelp =
    "let `carillon fault` break it on purpose. Default: false";

// The limit that gpud has, too (SessionTable::kMaxSessions).
inline constexpr uint64_t kMaxDevices = 64;
inline constexpr uint64_t kMaxNameLength = 32;
// Carillon uses these names itself: their logs lie beside the devices'.
inline constexpr std::array<std::string_view, 2> kReservedNames = {
    "gpud", "supervisor"};

const Key* FindKey(std::span<const Key> keys, std::string_view name);

// Describes them: "1 to 1024", "4 KiB to 1 TiB", "a power of two, 1 to 65536",
// "cpu or cuda".
std::string AllowedValues(const Key& key);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_TOPOLOGY_KEYS_H_
