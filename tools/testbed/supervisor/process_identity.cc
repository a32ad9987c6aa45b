#include "tools/testbed/supervisor/process_identity.h"

#include <fmt/format.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

namespace carillon::testbed {

std::optional<ProcessFacts> LookAtProcess(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // The command's name is in parentheses and may contain anything.
  const size_t name_end = line.rfind(')');
  if (name_end == line.npos) return std::nullopt;
  std::istringstream rest(line.substr(name_end + 1));
  std::vector<std::string> fields;  // from field 3 on
  for (std::string field; rest >> field;) fields.push_back(field);
  if (fields.size() < 22) return std::nullopt;
  const auto field = [&](int number) {
    return strtoull(fields[number - 3].c_str(), nullptr, 10);
  };
  const uint64_t tick_ns = 1'000'000'000 / sysconf(_SC_CLK_TCK);
  ProcessFacts facts;
  facts.identity = {pid, field(22)};
  facts.state = fields[0][0];
  facts.cpu_ns = (field(14) + field(15)) * tick_ns;
  facts.resident_bytes = field(24) * sysconf(_SC_PAGESIZE);
  timespec boot;
  clock_gettime(CLOCK_BOOTTIME, &boot);
  const uint64_t now_ns = boot.tv_sec * uint64_t{1'000'000'000} + boot.tv_nsec;
  const uint64_t start_ns = field(22) * tick_ns;
  facts.age_ns = now_ns - std::min(now_ns, start_ns);
  return facts;
}

ProcessIdentity OwnIdentity() {
  const auto facts = LookAtProcess(getpid());
  return facts ? facts->identity : ProcessIdentity{getpid(), 0};
}

std::optional<ProcessFacts> LookAtLiving(const ProcessIdentity& identity) {
  auto facts = LookAtProcess(identity.pid);
  if (!facts || facts->identity != identity || facts->state == 'Z' ||
      facts->state == 'X') {
    return std::nullopt;
  }
  return facts;
}

bool IsAlive(const ProcessIdentity& identity) {
  return LookAtLiving(identity).has_value();
}

UniqueFd OpenProcess(const ProcessIdentity& identity) {
  UniqueFd process(syscall(SYS_pidfd_open, identity.pid, 0));
  // The descriptor keeps the process that has the pid now; check that it is the
  // same one.
  return process && IsAlive(identity) ? std::move(process) : UniqueFd();
}

bool AwaitEnd(const UniqueFd& process,
              std::chrono::steady_clock::time_point deadline) {
  using std::chrono::milliseconds;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left <= milliseconds(0)) return false;
    pollfd ended{process.get(), POLLIN, 0};
    const int ready = poll(&ended, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace carillon::testbed
