#include "gpu_daemon/options/gpud_options.h"

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

void AddModel(GpuModel& gpu, std::vector<Option>& table) {
  const auto add = [&](std::string_view flag, std::string_view key,
                       OptionType type, uint32_t& field, uint64_t max,
                       std::string_view help) {
    table.push_back({.flag = flag,
                     .key = key,
                     .section = kModelSection,
                     .type = type,
                     .field = &field,
                     .min = 1,
                     .max = max,
                     .help = help});
  };
  add("--sms", "sms", kInteger, gpu.sms, 1024, "streaming multiprocessors");
  add("--blocks-per-sm", "blocks_per_sm", kInteger, gpu.blocks_per_sm, 64,
      "thread blocks resident on an SM at once");
  add("--threads-per-sm", "threads_per_sm", kInteger, gpu.threads_per_sm, 4096,
      "threads resident on an SM at once");
  add("--registers-per-sm", "registers_per_sm", kInteger, gpu.registers_per_sm,
      kMiB, "32-bit registers of an SM");
  add("--shared-per-sm", "shared_bytes_per_sm", kSize, gpu.shared_bytes_per_sm,
      kMiB, "shared memory of an SM");
}

void AddTls(TlsFiles& tls, std::vector<Option>& table) {
  const auto add = [&](std::string_view flag, std::string_view key,
                       std::string& field, std::string_view help) {
    table.push_back({.flag = flag,
                     .key = key,
                     .section = kTlsSection,
                     .type = kPath,
                     .field = &field,
                     .min = 1,
                     .max = kMaxPath,
                     .default_means = "none",
                     .help = help});
  };
  add("--tls-cert", "certificate", tls.certificate, "gpud's certificate, PEM");
  add("--tls-key", "key", tls.key, "its key, PEM, without a passphrase");
  add("--tls-client-ca", "client_ca", tls.ca,
      "whose certificates clients show, PEM");
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
      {.flag = "--first-devices",
       .type = kInteger,
       .field = &backend.first_devices,
       .min = 1,
       .max = kMaxDevices,
       .help = "simulated time begins when so many devices have attached"},
      {.flag = "--faults",
       .type = kBoolean,
       .field = &options.faults,
       .help = "let `carillon fault` break it on purpose"},
      {.flag = "--backend",
       .key = "backend",
       .type = kChoice,
       .field = &options.backend,
       .choices = {kAutoBackend, kCpuBackend, kCudaBackend, kSimBackend},
       .help =
           "who runs the kernels; auto: cuda where there is a GPU, else cpu"},
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
      {.flag = "--event-log",
       .key = "event_log",
       .type = kPath,
       .field = &backend.event_log,
       .min = 1,
       .max = kMaxPath,
       .default_means = "none",
       .help = "in simulated time: a CSV file for the times of each event and "
               "kernel"},
      {.flag = "--workers",
       .key = "workers",
       .type = kInteger,
       .field = &backend.workers,
       .max = 1024,
       .help =
           "threads that run thread blocks (cpu back-end); 0: the cores but "
           "one"},
      {.flag = "--ekt-entries",
       .key = "ekt_entries",
       .type = kInteger,
       .field = &options.ekt_entries,
       .min = 1,
       .max = shm::kMaxDoorbells,
       .help = "event kernels that can be registered at once"},
      {.flag = "--policy",
       .key = "policy",
       .type = kChoice,
       .field = &backend.policy,
       .choices = {kPolicyNames.begin(), kPolicyNames.end()},
       .help = "who gets the next free thread-block slot"},
      {.flag = "--reserve-sms",
       .key = "reserve_sms",
       .type = kInteger,
       .field = &backend.reserved_sms,
       .max = 1024,
       .help =
           "SMs that launch path edge has to itself (cuda back-end); 0: none"},
      {.flag = "--memory",
       .key = "memory",
       .type = kSize,
       .field = &options.memory_bytes,
       .min = kMiB,
       .max = kTiB,
       .or_zero = true,
       .default_means = "0: half of what is free, at most 4GiB",
       .help = "GPU memory and apertures of all devices together"},
      {.flag = "--lease-timeout",
       .key = "lease_timeout",
       .type = kInteger,
       .field = &options.lease_ns,
       .max = 86400,
       .unit = 1'000'000'000,
       .help = "closes a device that gives no sign of life for so many "
               "seconds; 0: never"},
      {.flag = "--listen",
       .key = kListenKey,
       .type = kText,
       .field = &options.listen,
       .min = 3,
       .max = 64,
       .default_means = "none",
       .help = "HOST:PORT to serve on over TCP, HOST in numbers, port 0: any "
               "free one; needs `tls` (docs/security.md)"},
      {.flag = "--trace",
       .key = "trace",
       .type = kBoolean,
       .field = &backend.tracing,
       .help = "stamp every stage of an event's life"},
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
      {.flag = "--log-level",
       .key = "log_level",
       .type = kChoice,
       .field = &options.log_level,
       .choices = {"debug", "info", "warn", "error", "off"},
       .help = "what gpud writes to its log"},
  };
  AddModel(backend.gpu, table);
  AddTls(options.tls, table);
  return table;
}

absl::Status Check(const GpudOptions& options) {
  return CheckFor(options.backend, options.backend_options);
}

}  // namespace carillon::gpud
