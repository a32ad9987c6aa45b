// What distinguishes a testbed's processes from all others: an environment
// variable that only a supervisor sets. Names of programs prove nothing.
#ifndef CARILLON_TOOLS_TESTBED_SUPERVISOR_MARKS_H_
#define CARILLON_TOOLS_TESTBED_SUPERVISOR_MARKS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/testbed_paths.h"
#include "tools/testbed/supervisor/process_identity.h"

namespace carillon::testbed {

// Names the directory and the supervisor of the testbed that a process belongs
// to.
inline constexpr char kSupervisorVariable[] = "CARILLON_SUPERVISOR";

// The variable's value for children of `supervisor`.
std::string SupervisorMark(const TestbedPaths& paths,
                           const ProcessIdentity& supervisor);

// This user's living processes with a mark for the directory, of any
// supervisor. For root, those of all users: its devices may have others.
std::vector<ProcessIdentity> MarkedProcesses(const TestbedPaths& paths);

// Those of them that no other process looks after: their supervisor is dead, or
// is this process.
std::vector<ProcessIdentity> OrphanedProcesses(const TestbedPaths& paths);

// Sends SIGKILL to the orphaned processes and to those that they start
// meanwhile, and waits until they have gone (5 s at most). Returns how many it
// killed. The caller must hold the testbed's lock and have no child there that
// should go on.
int KillOrphanedProcesses(const TestbedPaths& paths);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_MARKS_H_
