#include "tools/testbed/supervisor/marks.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/unique_fd.h"

namespace carillon::testbed {
namespace {

namespace fs = std::filesystem;

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kKillWait{5};

struct Marked {
  ProcessIdentity process;
  ProcessIdentity supervisor;
};

// Reads "PID:TICKS"; returns nothing for any other text.
std::optional<ProcessIdentity> ReadIdentity(std::string_view text) {
  ProcessIdentity identity;
  const char* const end = text.data() + text.size();
  const auto pid = std::from_chars(text.data(), end, identity.pid);
  if (pid.ec != std::errc() || pid.ptr == end || *pid.ptr != ':') {
    return std::nullopt;
  }
  const auto ticks = std::from_chars(pid.ptr + 1, end, identity.start_ticks);
  if (ticks.ec != std::errc() || ticks.ptr != end) return std::nullopt;
  return identity;
}

// The supervisor in a process's environment. `start` is the variable up to and
// including the directory's colon.
std::optional<ProcessIdentity> MarkOf(pid_t pid, const std::string& start) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view variable = rest.substr(0, rest.find('\0'));
    if (variable.starts_with(start)) {
      return ReadIdentity(variable.substr(start.size()));
    }
    rest.remove_prefix(std::min(variable.size() + 1, rest.size()));
  }
  return std::nullopt;
}

// A container may have a testbed of the same name, whose pids are other ones.
bool SharesOurNamespaces(const std::string& process) {
  for (const char* const name : {"/ns/pid", "/ns/mnt"}) {
    std::error_code error;
    const auto its = fs::read_symlink(process + name, error);
    if (error || its != fs::read_symlink(fmt::format("/proc/self{}", name))) {
      return false;
    }
  }
  return true;
}

std::vector<Marked> FindMarked(const TestbedPaths& paths) {
  const std::string start =
      fmt::format("{}={}:", kSupervisorVariable, paths.directory());
  std::vector<Marked> marked;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const pid_t pid = atoi(entry.path().filename().c_str());
    struct stat facts;
    if (pid <= 0 || pid == getpid() ||
        stat(entry.path().c_str(), &facts) != 0 ||
        (geteuid() != 0 && facts.st_uid != geteuid())) {
      continue;
    }
    const auto process = LookAtProcess(pid);
    if (!process || !IsAlive(process->identity)) continue;
    const auto supervisor = MarkOf(pid, start);
    if (supervisor && SharesOurNamespaces(entry.path())) {
      marked.push_back({process->identity, *supervisor});
    }
  }
  return marked;
}

}  // namespace

std::string SupervisorMark(const TestbedPaths& paths,
                           const ProcessIdentity& supervisor) {
  return fmt::format("{}:{}:{}", paths.directory(), supervisor.pid,
                     supervisor.start_ticks);
}

std::vector<ProcessIdentity> MarkedProcesses(const TestbedPaths& paths) {
  std::vector<ProcessIdentity> processes;
  for (const Marked& marked : FindMarked(paths)) {
    processes.push_back(marked.process);
  }
  return processes;
}

std::vector<ProcessIdentity> OrphanedProcesses(const TestbedPaths& paths) {
  const ProcessIdentity own = OwnIdentity();
  std::vector<ProcessIdentity> processes;
  for (const Marked& marked : FindMarked(paths)) {
    if (marked.supervisor == own || !IsAlive(marked.supervisor)) {
      processes.push_back(marked.process);
    }
  }
  return processes;
}

int KillOrphanedProcesses(const TestbedPaths& paths) {
  const Clock::time_point deadline = Clock::now() + kKillWait;
  int killed = 0;
  // Repeat until none is left: one may have forked before its end.
  do {
    std::vector<UniqueFd> ending;
    for (const ProcessIdentity& identity : OrphanedProcesses(paths)) {
      UniqueFd process = OpenProcess(identity);
      if (!process) continue;
      syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
      ending.push_back(std::move(process));
    }
    if (ending.empty()) break;
    killed += static_cast<int>(ending.size());
    for (const UniqueFd& process : ending) AwaitEnd(process, deadline);
  } while (Clock::now() < deadline);
  return killed;
}

}  // namespace carillon::testbed
