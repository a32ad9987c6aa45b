// A new kind of device is one entry here.
#include "tools/testbed/topology/keys.h"

namespace carillon::testbed {
namespace {

constexpr uint64_t kKiB = 1 << 10;
constexpr uint64_t kGiB = 1 << 30;

Key LogLevel() {
  return {.name = "log_level",
          .type = KeyType::kChoice,
          .choices = {"trace", "debug", "info", "warn", "error", "off"},
          .flag = "--log-level",
          .fallback = "info",
          .help = "what the device writes to its log"};
}

Key RingKey(uint64_t max, std::string_view fallback) {
  return {.name = "ring",
          .type = KeyType::kInteger,
          .min = 1,
          .max = max,
          .power_of_two = true,
          .flag = "--ring",
          .fallback = fallback,
          .help = "entries of each ESQ and ECQ: events in flight"};
}

Key Priority(
    std::string_view help = "of the device's event kernels; 7 is the highest") {
  return {.name = "priority",
          .type = KeyType::kInteger,
          .min = 0,
          .max = 7,
          .flag = "--priority",
          .fallback = "0",
          .help = help};
}

Key Port(std::string_view name, std::string_view flag, std::string_view help) {
  return {.name = name,
          .type = KeyType::kInteger,
          .min = 0,
          .max = 65535,
          .flag = flag,
          .fallback = "11211",
          .help = help};
}

DeviceKind Nic() {
  return {
      .name = "nic",
      .summary = "serves memcached clients over UDP and TCP",
      .program = "devices/nic/nic",
      .keys =
          {
              {.name = "listen",
               .type = KeyType::kText,
               .min = 2,
               .max = 64,
               .flag = "--listen",
               .fallback = "127.0.0.1",
               .help = "address to serve on, in numbers (IPv4 or IPv6)"},
              Port("udp_port", "--udp-port", "0: any free port"),
              Port("tcp_port", "--tcp-port", "0: any free port"),
              {.name = "batch",
               .type = KeyType::kInteger,
               .min = 1,
               .max = 512,
               .flag = "--batch",
               .fallback = "32",
               .help = "requests of one event (512: the GNoM setting)"},
              {.name = "batch_timeout_us",
               .type = KeyType::kInteger,
               .min = 0,
               .max = 1'000'000,
               .flag = "--batch-timeout-us",
               .fallback = "100",
               .help = "a batch is closed after this long at the latest"},
              RingKey(4096, "64"),
              Priority(),
              {.name = "table_entries",
               .type = KeyType::kInteger,
               .min = 16,
               .max = 1 << 28,
               .flag = "--table-entries",
               .fallback = "65536",
               .help = "keys that the 16-way hash table holds"},
              {.name = "store_bytes",
               .type = KeyType::kSize,
               .min = 128 * kKiB,
               .max = 64 * kGiB,
               .flag = "--store-bytes",
               .fallback = "64MiB",
               .help = "room for values"},
              {.name = "packet_buffers",
               .type = KeyType::kInteger,
               .min = 1,
               .max = 1 << 20,
               .flag = "--packet-buffers",
               .fallback = "4096",
               .help = "datagrams that can be in flight; at least `batch`"},
              {.name = "max_connections",
               .type = KeyType::kInteger,
               .min = 1,
               .max = 65536,
               .flag = "--max-connections",
               .fallback = "1024",
               .help = "TCP connections at once"},
              LogLevel(),
          },
  };
}

DeviceKind Fpga() {
  return {
      .name = "fpga",
      .summary = "streams frames to an image kernel and checks the results",
      .program = "devices/fpga/fpga",
      .keys =
          {
              {.name = "source",
               .type = KeyType::kPath,
               .min = 1,
               .max = 4096,
               .choices = {"cardiac"},
               .flag = "--source",
               .fallback = "cardiac",
               .help = "frames: a synthetic cardiac wave, or a PGM or PPM "
                       "file, or a folder of them"},
              {.name = "kernel",
               .type = KeyType::kChoice,
               .choices = {"dct8x8", "conv5x5"},
               .flag = "--kernel",
               .fallback = "dct8x8",
               .help = "event kernel that every frame launches"},
              {.name = "size",
               .type = KeyType::kDimensions,
               .min = 1,
               .max = 8192,
               .flag = "--size",
               .fallback = "128x128",
               .help = "of a cardiac frame, pixels"},
              {.name = "fps",
               .type = KeyType::kInteger,
               .min = 0,
               .max = 1'000'000,
               .flag = "--fps",
               .fallback = "0",
               .help = "frames a second; 0: as fast as they are done"},
              {.name = "frames",
               .type = KeyType::kInteger,
               .min = 0,
               .max = 1'000'000'000'000,
               .flag = "--frames",
               .fallback = "0",
               .help = "ends after this many; 0: never"},
              {.name = "check",
               .type = KeyType::kBoolean,
               .flag = "--check",
               .fallback = "false",
               .help = "compare every result with the known answer"},
              {.name = "store",
               .type = KeyType::kPath,
               .min = 1,
               .max = 4096,
               .flag = "--store",
               .fallback = "none",
               .help = "folder to write results to (needs `frames`)"},
              {.name = "store_raw",
               .type = KeyType::kBoolean,
               .flag = "--store-raw",
               .fallback = "false",
               .help = "store coefficients, not the image that they stand for"},
              RingKey(65536, "8"),
              Priority(),
              LogLevel(),
          },
  };
}

DeviceKind CpuHost() {
  return {
      .name = "cpu_host",
      .summary = "launches background kernels and reports their slowdown",
      .program = "devices/cpu_host/cpu_host",
      .keys =
          {
              {.name = "kernel",
               .type = KeyType::kChoice,
               .choices = {"matmul", "bfs", "busy"},
               .flag = "--kernel",
               .fallback = "matmul",
               .help = "background kernel"},
              {.name = "size",
               .type = KeyType::kInteger,
               .min = 0,
               .max = 1 << 24,
               .flag = "--size",
               .fallback = "0",
               .help = "matmul: rows, at most 4096 (256); bfs: vertices "
                       "(65536); busy: steps of a thread (2000); 0: the number "
                       "in brackets",
               .lower_max =
                   {{.key = "kernel", .value = "matmul", .max = 4096}}},
              {.name = "seed",
               .type = KeyType::kInteger,
               .min = 0,
               .max = UINT32_MAX,
               .flag = "--seed",
               .fallback = "1",
               .help = "of matrices and graphs"},
              Priority("of the background kernels; 7 is the highest"),
              {.name = "gap_us",
               .type = KeyType::kInteger,
               .min = 0,
               .max = 60'000'000,
               .flag = "--gap-us",
               .fallback = "0",
               .help = "pause between two runs (bfs: whole searches)"},
              {.name = "launches",
               .type = KeyType::kInteger,
               .min = 0,
               .max = 1'000'000'000'000,
               .flag = "--launches",
               .fallback = "0",
               .help = "ends after this many, and a search that has begun; "
                       "0: never"},
              {.name = "schedule_event_every_ms",
               .type = KeyType::kInteger,
               .min = 0,
               .max = 3'600'000,
               .flag = "--schedule-event-every-ms",
               .fallback = "0",
               .help = "also launches an event by edgeScheduleEvent; 0: never"},
              LogLevel(),
          },
  };
}

DeviceKind Exec() {
  return {.name = kExecKind,
          .summary = "a program of your own (key `command`)",
          .program = "",
          .keys = {}};
}

}  // namespace

std::span<const DeviceKind> DeviceKinds() {
  static const auto* const kinds =
      new std::vector<DeviceKind>{Nic(), Fpga(), CpuHost(), Exec()};
  return *kinds;
}

}  // namespace carillon::testbed
