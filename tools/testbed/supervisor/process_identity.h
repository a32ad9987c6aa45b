// Identifies a process: pids are reused, but a pid with its start time is not.
#ifndef CARILLON_TOOLS_TESTBED_SUPERVISOR_PROCESS_IDENTITY_H_
#define CARILLON_TOOLS_TESTBED_SUPERVISOR_PROCESS_IDENTITY_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/unique_fd.h"

namespace carillon::testbed {

struct ProcessIdentity {
  pid_t pid = 0;
  uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat

  bool operator==(const ProcessIdentity&) const = default;
};

// What /proc says; nothing if no process has the pid.
struct ProcessFacts {
  ProcessIdentity identity;
  char state = '?';  // R, S, D, Z, T, ...
  uint64_t cpu_ns = 0;
  uint64_t resident_bytes = 0;
  uint64_t age_ns = 0;
};
std::optional<ProcessFacts> LookAtProcess(pid_t pid);

// The same, but only for this very process, and only while it runs: nothing for
// a zombie.
std::optional<ProcessFacts> LookAtLiving(const ProcessIdentity& identity);

ProcessIdentity OwnIdentity();
// Whether LookAtLiving() sees it.
bool IsAlive(const ProcessIdentity& identity);

// A descriptor of this very process; none if it does not run any more.
UniqueFd OpenProcess(const ProcessIdentity& identity);
// Whether it ends before `deadline`.
bool AwaitEnd(const UniqueFd& process,
              std::chrono::steady_clock::time_point deadline);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_PROCESS_IDENTITY_H_
