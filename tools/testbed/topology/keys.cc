#include "tools/testbed/topology/keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace carillon::testbed {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kTiB = uint64_t{1} << 40;

const std::vector<Key>& GpuTable() {
  static const auto* const keys = new std::vector<Key>{
      {.name = "backend",
       .type = KeyType::kChoice,
       .choices = {"auto", "cpu", "cuda", "sim"},
       .flag = "--backend",
       .fallback = "auto",
       .help =
           "who runs the kernels; auto: cuda where there is a GPU, else cpu"},
      {.name = kTimingKey,
       .type = KeyType::kPath,
       .min = 1,
       .max = 4096,
       .choices = {"edge_table2", "gtx980", "tiny"},
       .flag = "--timing",
       .fallback = "wall time",
       .help = "live in the time of this simulated GPU (sim back-end; "
               "docs/simulated_time.md)"},
      {.name = "event_log",
       .type = KeyType::kPath,
       .min = 1,
       .max = 4096,
       .flag = "--event-log",
       .fallback = "none",
       .help = "in simulated time: a CSV file for the times of each event and "
               "kernel"},
      {.name = "workers",
       .type = KeyType::kInteger,
       .min = 0,
       .max = 1024,
       .flag = "--workers",
       .fallback = "0",
       .help =
           "threads that run thread blocks (cpu back-end); 0: the cores but "
           "one"},
      {.name = "ekt_entries",
       .type = KeyType::kInteger,
       .min = 1,
       .max = 1024,
       .flag = "--ekt-entries",
       .fallback = "32",
       .help = "event kernels that can be registered at once"},
      {.name = "policy",
       .type = KeyType::kChoice,
       .choices = {"first_come", "priority"},
       .flag = "--policy",
       .fallback = "first_come",
       .help = "who gets the next free thread-block slot"},
      {.name = "reserve_sms",
       .type = KeyType::kInteger,
       .min = 0,
       .max = 1024,
       .flag = "--reserve-sms",
       .fallback = "0",
       .help =
           "SMs that launch path edge has to itself (cuda back-end); 0: none"},
      {.name = "memory",
       .type = KeyType::kSize,
       .min = kMiB,
       .max = kTiB,
       .flag = "--memory",
       .fallback = "half of what is free, at most 4GiB",
       .help = "GPU memory and apertures of all devices together"},
      {.name = "lease_timeout",
       .type = KeyType::kInteger,
       .min = 0,
       .max = 86400,
       .flag = "--lease-timeout",
       .fallback = "0",
       .help = "closes a device that gives no sign of life for so many "
               "seconds; 0: never"},
      {.name = kListenKey,
       .type = KeyType::kText,
       .min = 3,
       .max = 64,
       .flag = "--listen",
       .fallback = "none",
       .help = "HOST:PORT to serve on over TCP, HOST in numbers, port 0: any "
               "free one; needs `tls` (docs/security.md)"},
      {.name = "trace",
       .type = KeyType::kBoolean,
       .flag = "--trace",
       .fallback = "false",
       .help = "stamp every stage of an event's life"},
      {.name = "record",
       .type = KeyType::kInteger,
       .min = kMinRecords,
       .max = kMaxRecords,
       .flag = "--record",
       .fallback = "the topology's `record`",
       .help =
           "keep the last so many steps of gpud, for `carillon postmortem`"},
      {.name = "log_level",
       .type = KeyType::kChoice,
       .choices = {"debug", "info", "warn", "error", "off"},
       .flag = "--log-level",
       .fallback = "info",
       .help = "what gpud writes to its log"},
  };
  return *keys;
}

const std::vector<Key>& ModelTable() {
  static const auto* const keys = new std::vector<Key>{
      {.name = "sms",
       .type = KeyType::kInteger,
       .min = 1,
       .max = 1024,
       .flag = "--sms",
       .fallback = "16",
       .help = "streaming multiprocessors"},
      {.name = "blocks_per_sm",
       .type = KeyType::kInteger,
       .min = 1,
       .max = 64,
       .flag = "--blocks-per-sm",
       .fallback = "16",
       .help = "thread blocks resident on an SM at once"},
      {.name = "threads_per_sm",
       .type = KeyType::kInteger,
       .min = 1,
       .max = 4096,
       .flag = "--threads-per-sm",
       .fallback = "2048",
       .help = "threads resident on an SM at once"},
      {.name = "registers_per_sm",
       .type = KeyType::kInteger,
       .min = 1,
       .max = 1 << 20,
       .flag = "--registers-per-sm",
       .fallback = "65536",
       .help = "32-bit registers of an SM"},
      {.name = "shared_bytes_per_sm",
       .type = KeyType::kSize,
       .min = 1,
       .max = kMiB,
       .flag = "--shared-per-sm",
       .fallback = "48KiB",
       .help = "shared memory of an SM"},
  };
  return *keys;
}

Key TlsFile(std::string_view name, std::string_view flag,
            std::string_view help) {
  return {.name = name,
          .type = KeyType::kPath,
          .min = 1,
          .max = 4096,
          .flag = flag,
          .fallback = "none",
          .help = help};
}

const std::vector<Key>& TlsTable() {
  static const auto* const keys = new std::vector<Key>{
      TlsFile("certificate", "--tls-cert", "gpud's certificate, PEM"),
      TlsFile("key", "--tls-key", "its key, PEM, without a passphrase"),
      TlsFile("client_ca", "--tls-client-ca",
              "whose certificates clients show, PEM"),
  };
  return *keys;
}

}  // namespace

const Key& RestartKey() {
  static const auto* const key =
      new Key{.name = "restart",
              .type = KeyType::kChoice,
              .choices = {"never", "on_failure"},
              .fallback = "never",
              .help =
                  "whether it is started again when it ends by a signal or "
                  "with another exit code than 0"};
  return *key;
}

std::span<const Key> GpuKeys() { return GpuTable(); }
std::span<const Key> GpuModelKeys() { return ModelTable(); }
std::span<const Key> GpuTlsKeys() { return TlsTable(); }

const DeviceKind* FindDeviceKind(std::string_view name) {
  for (const DeviceKind& kind : DeviceKinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

const Key* FindKey(std::span<const Key> keys, std::string_view name) {
  const auto found =
      std::find_if(keys.begin(), keys.end(),
                   [&](const Key& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

std::string AllowedValues(const Key& key) {
  switch (key.type) {
    case KeyType::kBoolean:
      return "true or false";
    case KeyType::kInteger:
      return fmt::format("{}{} to {}",
                         key.power_of_two ? "a power of two, " : "", key.min,
                         key.max);
    case KeyType::kSize:
      return fmt::format("{} to {}", FormatExactSize(key.min),
                         FormatExactSize(key.max));
    case KeyType::kText:
      return fmt::format("{} to {} characters", key.min, key.max);
    case KeyType::kPath:
      return key.choices.empty()
                 ? "a path"
                 : fmt::format("{} or a path", fmt::join(key.choices, ", "));
    case KeyType::kChoice:
      return fmt::format("{}", fmt::join(key.choices, ", "));
    case KeyType::kDimensions:
      return fmt::format("WIDTHxHEIGHT, each {} to {}", key.min, key.max);
  }
  return "";
}

}  // namespace carillon::testbed
