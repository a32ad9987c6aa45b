#include "tools/testbed/supervisor/testbeds.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/marks.h"

namespace carillon::testbed {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

Testbed TestbedAt(const std::string& name) {
  const TestbedPaths paths = PathsOf(name);
  return {name, paths, SupervisorOf(paths)};
}

// How long to wait for a process after SIGKILL.
constexpr milliseconds kKillWait{5000};

}  // namespace

absl::StatusOr<std::vector<Testbed>> ListTestbeds() {
  const std::string runtime = RuntimeDirectory();
  const absl::Status owned = CheckDirectoryOwner(runtime);
  if (absl::IsNotFound(owned)) return std::vector<Testbed>();
  if (!owned.ok()) return owned;
  std::vector<Testbed> testbeds;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(runtime, error)) {
    Testbed testbed = TestbedAt(entry.path().filename());
    if (IsTestbedDirectory(testbed.paths) &&
        CheckDirectoryOwner(testbed.paths.directory()).ok()) {
      testbeds.push_back(std::move(testbed));
    }
  }
  std::ranges::sort(testbeds, {}, &Testbed::name);
  return testbeds;
}

absl::StatusOr<Testbed> ChooseTestbed(const std::string& name) {
  ASSIGN_OR_RETURN(auto testbeds, ListTestbeds());
  std::vector<std::string> up;
  for (const Testbed& testbed : testbeds) {
    if (testbed.name == name) return testbed;
    if (testbed.supervisor) up.push_back(testbed.name);
  }
  if (!name.empty()) {
    const std::vector<std::string_view> names(up.begin(), up.end());
    return WithHint(
        absl::NotFoundError(fmt::format("there is no testbed {}{}", Quote(name),
                                        DidYouMean(name, names))),
        up.empty() ? "none is up; start one with: carillon up"
                   : fmt::format("up: {}", JoinWords(up)));
  }
  if (up.empty() && !testbeds.empty()) {
    const std::string& dead = testbeds.front().name;
    return WithHint(
        absl::NotFoundError(
            fmt::format("no testbed is up, and {} is dead", Quote(dead))),
        fmt::format("carillon postmortem says how it ended, carillon logs "
                    "--name {} has its logs; carillon up begins anew",
                    dead));
  }
  if (up.empty()) {
    return WithHint(absl::NotFoundError("no testbed is up"),
                    "start one with: carillon up");
  }
  if (up.size() > 1) {
    return WithHint(absl::InvalidArgumentError(fmt::format(
                        "{} testbeds are up: {}", up.size(), JoinWords(up))),
                    fmt::format("choose one: --name {}", up[0]));
  }
  return TestbedAt(up[0]);
}

absl::StatusOr<Testbed> FindTestbed(const std::string& name) {
  ASSIGN_OR_RETURN(const auto testbeds, ListTestbeds());
  if (name.empty() && testbeds.size() == 1) return testbeds.front();
  for (const Testbed& testbed : testbeds) {
    if (testbed.name == name) return testbed;
  }
  return ChooseTestbed(name);
}

std::string StoppedSupervisor(const Testbed& testbed) {
  const auto facts =
      testbed.supervisor ? LookAtLiving(*testbed.supervisor) : std::nullopt;
  if (!facts || facts->state != 'T') return "";
  return fmt::format(
      "the supervisor of '{}' (pid {}) is stopped: it sees no process end and "
      "starts none; it goes on with: kill -CONT {}",
      testbed.name, testbed.supervisor->pid, testbed.supervisor->pid);
}

absl::Status EndTestbed(const Testbed& testbed, milliseconds limit,
                        const std::function<void(const std::string&)>& say) {
  using Clock = std::chrono::steady_clock;
  const UniqueFd supervisor =
      testbed.supervisor ? OpenProcess(*testbed.supervisor) : UniqueFd();
  if (supervisor) {
    const auto signal = [&](int number) {
      syscall(SYS_pidfd_send_signal, supervisor.get(), number, nullptr, 0);
    };
    signal(SIGCONT);  // a stopped one would not hear SIGTERM
    signal(SIGTERM);
    if (!AwaitEnd(supervisor, Clock::now() + limit)) {
      say(fmt::format(
          "the supervisor of '{}' (pid {}) did not end within {}: killed",
          testbed.name, testbed.supervisor->pid, FormatSeconds(limit)));
      signal(SIGKILL);
      if (!AwaitEnd(supervisor, Clock::now() + kKillWait)) {
        return absl::DeadlineExceededError(fmt::format(
            "the supervisor of '{}' (pid {}) was killed, but is still there "
            "after {}",
            testbed.name, testbed.supervisor->pid, FormatSeconds(kKillWait)));
      }
    }
  }
  // An orderly end leaves nothing, not even the mark.
  if (!IsTestbedDirectory(testbed.paths)) return absl::OkStatus();
  return ClearDead(TestbedAt(testbed.name));
}

std::vector<std::string> RemoveEmptyFolders(const std::string& name) {
  std::vector<std::string> removed;
  const std::string runtime = RuntimeDirectory();
  if (!CheckDirectoryOwner(runtime).ok()) return removed;
  std::error_code error;
  std::vector<std::string> folders;
  for (const auto& entry : fs::directory_iterator(runtime, error)) {
    folders.push_back(entry.path().filename());
  }
  for (const std::string& folder : folders) {
    if (!name.empty() && folder != name) continue;
    // rmdir() itself refuses what is no folder, or holds something; an `up` that
    // has just made it makes it again.
    if (CheckDirectoryOwner(PathsOf(folder).directory()).ok() &&
        rmdir(PathsOf(folder).directory().c_str()) == 0) {
      removed.push_back(folder);
    }
  }
  std::ranges::sort(removed);
  return removed;
}

Leftovers LeftoversOf(const Testbed& testbed) {
  return {.name = testbed.name,
          .directory = testbed.paths.directory(),
          .processes = OrphanedProcesses(testbed.paths),
          .files = TestbedFiles(testbed.paths)};
}

absl::Status ClearDead(const Testbed& testbed) {
  auto directory = LockedDirectory::TakeOver(testbed.paths);
  if (absl::IsNotFound(directory.status())) return absl::OkStatus();
  if (!directory.ok()) return directory.status();
  KillOrphanedProcesses(testbed.paths);
  return directory->Remove();
}

}  // namespace carillon::testbed
