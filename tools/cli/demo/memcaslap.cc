#include "tools/cli/demo/memcaslap.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <sstream>

#include "absl/status/status.h"
#include "base/unique_fd.h"

namespace carillon::cli {
namespace {

constexpr int kPortTries = 100;

bool ReadNumber(std::string_view text, uint64_t* number) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  return std::from_chars(text.data(), text.data() + text.size(), *number).ec ==
         std::errc();
}

// "Run time: 2.0s Ops: 46419 TPS: 23207 Net_rate: 1.6M/s"
bool ReadRunTime(const std::string& line, MemcaslapResult* result) {
  return std::sscanf(line.c_str(), "Run time: %lfs Ops: %lu TPS: %lu",
                     &result->seconds, &result->operations,
                     &result->operations_per_s) == 3;
}

uint16_t Bind(int fd, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  socklen_t size = sizeof(address);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return 0;
  }
  return ntohs(address.sin_port);
}

}  // namespace

std::string MemcaslapConfiguration() {
  return "key\n16 16 1\nvalue\n2 2 1\ncmd\n0 0.1\n1 0.9\n";
}

std::vector<std::string> MemcaslapCommand(const MemcaslapLoad& load) {
  return {kMemcaslap, "-s", fmt::format("127.0.0.1:{}", load.port), "-U", "-T",
          "1", "-c", fmt::format("{}", load.concurrency),
          // The keys of all connections fit into the NIC's table.
          "-w", "1k", "-t", fmt::format("{}s", load.seconds), "-v", "1.0",
          // Without this option it reports no latencies.
          "-S", "1s", "-F", load.configuration_file};
}

absl::StatusOr<MemcaslapResult> ParseMemcaslap(std::string_view output) {
  MemcaslapResult result;
  struct Field {
    std::string_view name;
    uint64_t* value;
    bool found = false;
  };
  Field fields[] = {{"cmd_get:", &result.gets},
                    {"cmd_set:", &result.sets},
                    {"get_misses:", &result.get_misses},
                    {"verify_misses:", &result.verify_misses},
                    {"verify_failed:", &result.verify_failed},
                    {"packet_disorder:", &result.packet_disorder},
                    {"packet_drop:", &result.packet_drop},
                    {"udp_timeout:", &result.udp_timeout}};
  bool has_run_time = false;
  bool in_total = false;
  std::istringstream lines{std::string(output)};
  for (std::string line; std::getline(lines, line);) {
    has_run_time |= ReadRunTime(line, &result);
    if (line.starts_with("Total Statistics (")) in_total = true;
    for (Field& field : fields) {
      if (line.starts_with(field.name)) {
        field.found = ReadNumber(
            std::string_view(line).substr(field.name.size()), field.value);
      }
    }
    if (!in_total) continue;
    for (const auto& [name, value] :
         {std::pair("   Min:", &result.min_us),
          std::pair("   Max:", &result.max_us),
          std::pair("   Avg:", &result.average_us)}) {
      if (line.starts_with(name)) {
        ReadNumber(std::string_view(line).substr(std::string_view(name).size()),
                   value);
      }
    }
  }
  for (const Field& field : fields) {
    if (!field.found) {
      return absl::InvalidArgumentError(
          fmt::format("memcaslap's report has no line '{}'", field.name));
    }
  }
  if (!has_run_time) {
    return absl::InvalidArgumentError(
        "memcaslap's report has no line 'Run time:'");
  }
  return result;
}

absl::StatusOr<uint16_t> FindFreePort() {
  for (int i = 0; i < kPortTries; ++i) {
    const UniqueFd udp(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const UniqueFd tcp(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const uint16_t port = Bind(tcp.get(), 0);
    if (port != 0 && Bind(udp.get(), port) == port) return port;
  }
  return absl::ResourceExhaustedError(
      "no port of 127.0.0.1 is free for both UDP and TCP");
}

}  // namespace carillon::cli
