#include "tools/cli/testbed/marks.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "shm/unique_fd.h"

namespace carillon::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kKillWaitMs = 5000;

bool HasMark(pid_t pid, const std::string& start) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::string_view rest = text;
  while (!rest.empty()) {
    if (rest.starts_with(start)) return true;
    const size_t end = rest.find('\0');
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  }
  return false;
}

}  // namespace

std::string SupervisorMark(const TestbedPaths& paths,
                           const ProcessIdentity& supervisor) {
  return fmt::format("{}:{}:{}", paths.directory(), supervisor.pid,
                     supervisor.start_ticks);
}

std::vector<ProcessIdentity> MarkedProcesses(const TestbedPaths& paths) {
  const std::string start =
      fmt::format("{}={}:", kSupervisorVariable, paths.directory());
  std::vector<ProcessIdentity> marked;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const pid_t pid = atoi(entry.path().filename().c_str());
    struct stat facts;
    if (pid <= 0 || pid == getpid() ||
        stat(entry.path().c_str(), &facts) != 0 || facts.st_uid != geteuid()) {
      continue;
    }
    const auto process = LookAtProcess(pid);
    if (process && IsAlive(process->identity) && HasMark(pid, start)) {
      marked.push_back(process->identity);
    }
  }
  return marked;
}

int KillMarkedProcesses(const TestbedPaths& paths) {
  const std::vector<ProcessIdentity> marked = MarkedProcesses(paths);
  for (const ProcessIdentity& identity : marked) {
    const shm::UniqueFd pidfd(syscall(SYS_pidfd_open, identity.pid, 0));
    // The pidfd holds on to whoever has the pid now; see that it is the same.
    if (!pidfd || !IsAlive(identity)) continue;
    syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
    pollfd ended{pidfd.get(), POLLIN, 0};
    poll(&ended, 1, kKillWaitMs);
  }
  return static_cast<int>(marked.size());
}

}  // namespace carillon::cli
