#include "tools/testbed/supervisor/testbeds.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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

bool WaitForEnd(int pidfd, milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left <= milliseconds(0)) return false;
    pollfd ended{pidfd, POLLIN, 0};
    const int ready = poll(&ended, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

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
  std::sort(testbeds.begin(), testbeds.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
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

absl::Status EndTestbed(const Testbed& testbed, milliseconds limit,
                        const std::function<void(const std::string&)>& say) {
  if (testbed.supervisor) {
    const UniqueFd pidfd(syscall(SYS_pidfd_open, testbed.supervisor->pid, 0));
    // The pidfd keeps the process that has the pid now; check that it is the
    // same one.
    if (pidfd && IsAlive(*testbed.supervisor)) {
      syscall(SYS_pidfd_send_signal, pidfd.get(), SIGTERM, nullptr, 0);
      if (!WaitForEnd(pidfd.get(), limit)) {
        say(fmt::format(
            "the supervisor of '{}' (pid {}) did not end within {}: killed",
            testbed.name, testbed.supervisor->pid,
            FormatSeconds(std::chrono::nanoseconds(limit).count())));
        syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
        if (!WaitForEnd(pidfd.get(), kKillWait)) {
          return absl::DeadlineExceededError(fmt::format(
              "the supervisor of '{}' (pid {}) was killed, but is still there "
              "after {}",
              testbed.name, testbed.supervisor->pid,
              FormatSeconds(std::chrono::nanoseconds(kKillWait).count())));
        }
      }
    }
  }
  // An orderly end leaves nothing, not even the mark.
  if (!IsTestbedDirectory(testbed.paths)) return absl::OkStatus();
  return ClearDead(TestbedAt(testbed.name));
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
