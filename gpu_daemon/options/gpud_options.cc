#include "gpu_daemon/options/gpud_options.h"

#include <utility>

#include "absl/strings/str_split.h"
#include "base/status.h"
#include "fmt/format.h"
#include "shm/layout.h"
#include "shm/recorder/flight_recorder.h"
#include "sim/timing/presets.h"

namespace carillon::gpud {
namespace {

using enum OptionType;

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kTiB = uint64_t{1} << 40;
constexpr uint64_t kMaxPath = 4096;
constexpr uint64_t kMaxTestbedName = 64;

std::vector<std::string_view> Presets() {
  std::vector<std::string_view> names;
  for (const auto& preset : sim::timing::kPresets) names.push_back(preset.name);
  return names;
}

Option InSection(std::string_view section, Option option) {
  option.section = section;
  return option;
}

void AddModel(GpuModel& gpu, std::vector<Option>& table) {
  const auto add = [&](Option option) {
    table.push_back(InSection(kModelSection, std::move(option)));
  };
  add(IntegerOption("--sms", "sms", &gpu.sms, 1, 1024,
                    "streaming multiprocessors"));
  add(IntegerOption("--blocks-per-sm", "blocks_per_sm", &gpu.blocks_per_sm, 1,
                    64, "thread blocks resident on an SM at once"));
  add(IntegerOption("--threads-per-sm", "threads_per_sm", &gpu.threads_per_sm,
                    1, 4096, "threads resident on an SM at once"));
  add(IntegerOption("--registers-per-sm", "registers_per_sm",
                    &gpu.registers_per_sm, 1, kMiB,
                    "32-bit registers of an SM"));
  add({.flag = "--shared-per-sm",
       .key = "shared_bytes_per_sm",
       .type = kSize,
       .field = &gpu.shared_bytes_per_sm,
       .min = 1,
       .max = kMiB,
       .help = "shared memory of an SM"});
}

// Flags only: a topology says it by `hosts` and `mesh`.
void AddLink(RemoteOptions& remote, std::vector<Option>& table) {
  table.push_back({.flag = "--link",
                   .type = kText,
                   .field = &remote.address,
                   .min = 3,
                   .max = 64,
                   .help = "HOST:PORT of the other host's linkd, HOST in "
                           "numbers (remote back-end; docs/mesh.md)"});
  const auto host = [&](std::string_view flag, std::string* field,
                        std::string_view help) {
    table.push_back({.flag = flag,
                     .type = kText,
                     .field = field,
                     .min = 1,
                     .max = kMaxTestbedName,
                     .help = help});
  };
  host("--link-host", &remote.host, "this host's name in its certificate");
  host("--link-peer", &remote.peer, "the other host's name in its certificate");
  table.push_back(PathOption("--link-cert", "", &remote.tls.certificate,
                             "this host's certificate for links, PEM"));
  table.push_back(PathOption("--link-key", "", &remote.tls.key,
                             "its key, PEM, without a passphrase"));
  table.push_back(PathOption("--link-ca", "", &remote.tls.ca,
                             "whose certificate the other host shows, PEM"));
  table.push_back(ChoiceOption("--link-engine", "", &remote.engine.name,
                               {mesh::kTlsEngine, mesh::kUcxEngine},
                               "what carries the events, the same on both "
                               "hosts; ucx is not encrypted, and needs "
                               "--link-trusted"));
  table.push_back(
      BooleanOption("--link-trusted", "", &remote.engine.trusted,
                    "say it where everybody on the hosts' network is trusted: "
                    "they can read and forge what ucx carries"));
  const auto seconds = [&](std::string_view flag, Nanoseconds* field,
                           uint64_t max, std::string_view help) {
    Option option = IntegerOption(flag, "", field, 1, max, help);
    option.unit = 1'000'000'000;
    table.push_back(std::move(option));
  };
  seconds("--link-wait", &remote.wait, 86400,
          "at the start: how many seconds the other host may take");
  table.push_back(BooleanOption(
      "--link-restarted", "", &remote.restarted,
      "this gpud was started again: it waits as long as --link-lease, also "
      "where the other host refuses it"));
  seconds("--link-timeout", &remote.timeout, 60,
          "after so many seconds without a sign of life the connection is cut, "
          "and made again");
  seconds("--link-lease", &remote.lease, 86400,
          "after so many seconds without a link the events in flight end as "
          "aborted");
}

void AddTls(TlsFiles& tls, std::vector<Option>& table) {
  const auto add = [&](Option option) {
    table.push_back(InSection(kTlsSection, std::move(option)));
  };
  add(PathOption("--tls-cert", "certificate", &tls.certificate,
                 "gpud's certificate, PEM"));
  add(PathOption("--tls-key", "key", &tls.key,
                 "its key, PEM, without a passphrase"));
  add(PathOption("--tls-client-ca", "client_ca", &tls.ca,
                 "whose certificates clients show, PEM"));
}

}  // namespace

std::vector<Option> OptionTable(GpudOptions& options) {
  BackendOptions& backend = options.backend_options;
  std::vector<Option> table = {
      {.flag = "--dir",
       .type = kPath,
       .field = &options.directory,
       .min = 1,
       .max = kMaxPath,
       .help = "the testbed's directory: made if missing, private to you",
       .required = true},
      {.flag = "--testbed",
       .type = kText,
       .field = &options.testbed,
       .min = 1,
       .max = kMaxTestbedName,
       .help = "the testbed's name"},
      IntegerOption("--first-devices", "", &backend.first_devices, 1,
                    kMaxDevices,
                    "simulated time begins when so many devices have attached"),
      BooleanOption("--faults", "", &options.faults,
                    "let `carillon fault` break it on purpose"),
      ChoiceOption(
          "--backend", "backend", &options.backend,
          {kAutoBackend, kCpuBackend, kCudaBackend, kSimBackend,
           kRemoteBackend},
          "who runs the kernels; auto: cuda where there is a GPU, else cpu; "
          "remote: another host (docs/mesh.md)"),
      ChoiceOption(
          "--driver", "driver", &backend.driver, {kNvidiaDriver, kSimDriver},
          "whose GPU the cuda back-end runs on; sim: the simulator executes "
          "the PTX that an NVIDIA GPU would"),
      {.flag = "--timing",
       .key = kTimingKey,
       .type = kPath,
       .field = &backend.timing,
       .min = 1,
       .max = kMaxPath,
       .choices = Presets(),
       .default_means = "wall time",
       .help = "live in the time of this simulated GPU (sim back-end; "
               "docs/simulated_time.md)"},
      PathOption(
          "--event-log", "event_log", &backend.event_log,
          "in simulated time: a CSV file for the times of each event and "
          "kernel"),
      IntegerOption(
          "--workers", "workers", &backend.workers, 0, 1024,
          "threads that run thread blocks (cpu back-end); 0: the cores but "
          "one"),
      IntegerOption("--ekt-entries", "ekt_entries", &options.ekt_entries, 1,
                    shm::kMaxDoorbells,
                    "event kernels that can be registered at once"),
      IntegerOption("--devices-per-process", "devices_per_process",
                    &options.devices_per_process, 1, kMaxDevices,
                    "devices that one process may attach at once"),
      {.flag = "--policy",
       .key = "policy",
       .type = kChoice,
       .field = &backend.policy,
       .choices = PolicyNames(),
       .default_means = "first_come; cuda: priority; in simulated time: "
                        "configured",
       .help = "who gets the next free thread-block slot (docs/policies.md)"},
      IntegerOption("--max-priority", "max_priority", &options.max_priority, 0,
                    kHighestPriority,
                    "the highest priority that a device may ask for"),
      IntegerOption(
          "--reserve-sms", "reserve_sms", &backend.reserved_sms, 0, 1024,
          "SMs for events: launch path edge's (cuda; 0: none), and by the "
          "policies reservation and dynamic_reservation (0: half)"),
      IntegerOption("--preempt-us", "preempt_us", &backend.preempt_us, 0,
                    1'000'000,
                    "policy gpes on cuda: how long a slice may have the GPU, "
                    "in us; 0: as "
                    "many blocks as the GPU holds at once"),
      IntegerOption("--max-spin-ns", "max_spin_ns", &backend.max_spin_ns, 0,
                    1'000'000'000,
                    "longest spin for a doorbell before gpud sleeps; 0: it "
                    "sleeps at once"),
      {.flag = "--memory",
       .key = "memory",
       .type = kSize,
       .field = &options.memory_bytes,
       .min = kMiB,
       .max = kTiB,
       .or_zero = true,
       .default_means = "0: half of what is free, at most 4GiB",
       .help = "GPU memory and apertures of all devices together"},
      {.flag = "--copy-in-chunk",
       .key = "copy_in_chunk",
       .type = kSize,
       .field = &backend.copy_in_chunk,
       .min = 4096,
       .max = kTiB,
       .help = "bytes of a copy to GPU memory after which a more urgent one "
               "may go first"},
      {.flag = "--copy-out-chunk",
       .key = "copy_out_chunk",
       .type = kSize,
       .field = &backend.copy_out_chunk,
       .min = 4096,
       .max = kTiB,
       .help = "the same of a copy from GPU memory"},
      {.flag = "--heap",
       .key = "heap",
       .type = kSize,
       .field = &backend.heap_bytes,
       .min = 0,
       .max = kMostHeapBytes,
       .help = "what malloc() of kernels takes from (cpu and sim back-end)"},
      {.flag = "--lease-timeout",
       .key = "lease_timeout",
       .type = kInteger,
       .field = &options.lease_ns,
       .max = 86400,
       .unit = 1'000'000'000,
       .help = "closes a device that gives no sign of life for so many "
               "seconds and has no debugger; 0: never"},
      {.flag = "--listen",
       .key = kListenKey,
       .type = kText,
       .field = &options.listen,
       .min = 3,
       .max = 64,
       .default_means = "none",
       .help = "HOST:PORT to serve on over TCP, HOST in numbers, port 0: any "
               "free one; needs `tls` (docs/security.md)"},
      {.flag = "--device-users",
       .type = kText,
       .field = &options.device_users,
       .min = 1,
       .max = 1024,
       .help = "uids, as 1000,1001: their processes may be devices, too "
               "(docs/security.md)"},
      {.flag = "--device-shares",
       .type = kText,
       .field = &options.device_shares,
       .min = 1,
       .max = 8192,
       .help = "NAME=WEIGHT:PRIORITY,...: devices' weights under the policy "
               "exclusive, and the highest priorities that they may ask for"},
      {.flag = "--device-order",
       .type = kText,
       .field = &backend.device_order,
       .min = 1,
       .max = 8192,
       .help = "NAME,...: simulated time begins when these have attached, in "
               "whichever order (docs/simulated_time.md)"},
      {.flag = "--device-latencies",
       .type = kText,
       .field = &backend.device_latencies,
       .min = 1,
       .max = 8192,
       .help = "NAME=TIME,...: how long a device's link takes each way, in "
               "simulated time (docs/simulated_time.md)"},
      BooleanOption("--trace", "trace", &backend.tracing,
                    "stamp every stage of an event's life"),
      {.flag = "--record",
       .key = "record",
       .type = kInteger,
       .field = &options.record,
       .min = shm::FlightRecorder::kMinRecords,
       .max = shm::FlightRecorder::kMaxRecords,
       .or_zero = true,
       .environment = shm::FlightRecorder::kVariable,
       .default_means = "the topology's `record`",
       .help = "keep the last so many steps of gpud, for `carillon "
               "postmortem`; 0: none"},
      ChoiceOption("--log-level", "log_level", &options.log_level,
                   {"debug", "info", "warn", "error", "off"},
                   "what gpud writes to its log"),
  };
  AddLink(backend.remote, table);
  AddModel(backend.gpu, table);
  AddTls(options.tls, table);
  return table;
}

absl::StatusOr<std::vector<uint32_t>> ReadUids(std::string_view text) {
  std::vector<uint32_t> uids;
  if (text.empty()) return uids;
  const std::vector<std::string> words = absl::StrSplit(std::string(text), ',');
  for (const std::string& word : words) {
    // The last number means "no uid" to the kernel.
    const auto uid = ReadInteger(word, 1, UINT32_MAX - 1);
    if (!uid.ok()) {
      return absl::InvalidArgumentError(fmt::format(
          "--device-users: {}; it is a list of uids, like 1000,1001",
          uid.status().message()));
    }
    uids.push_back(static_cast<uint32_t>(*uid));
  }
  if (uids.size() > kMaxDevices) {
    return absl::InvalidArgumentError(fmt::format(
        "--device-users: {} users; allowed: {}", uids.size(), kMaxDevices));
  }
  return uids;
}

absl::StatusOr<std::vector<NamedShare>> ReadDeviceShares(
    std::string_view text) {
  std::vector<NamedShare> shares;
  if (text.empty()) return shares;
  const std::vector<std::string> words = absl::StrSplit(std::string(text), ',');
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const size_t colon = word.find(':', equals);
    if (equals == 0 || equals == std::string::npos ||
        colon == std::string::npos) {
      return absl::InvalidArgumentError(
          fmt::format("--device-shares: '{}' is not NAME=WEIGHT:PRIORITY, like "
                      "nic0=2:3",
                      word));
    }
    const auto weight = ReadInteger(word.substr(equals + 1, colon - equals - 1),
                                    1, kMostWeight);
    const auto priority =
        ReadInteger(word.substr(colon + 1), 0, kHighestPriority);
    for (const absl::Status& status : {weight.status(), priority.status()}) {
      if (status.ok()) continue;
      return absl::InvalidArgumentError(
          fmt::format("--device-shares: {}: {}", word.substr(0, equals),
                      std::string(status.message())));
    }
    shares.push_back({.device = word.substr(0, equals),
                      .weight = static_cast<uint32_t>(*weight),
                      .max_priority = static_cast<uint32_t>(*priority)});
  }
  return shares;
}

absl::Status Check(const GpudOptions& options) {
  RETURN_IF_ERROR(ReadUids(options.device_users).status());
  RETURN_IF_ERROR(ReadDeviceShares(options.device_shares).status());
  return CheckFor(options.backend, options.backend_options);
}

}  // namespace carillon::gpud
