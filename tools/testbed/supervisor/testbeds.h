// The testbeds of this user: finding, choosing, ending, and clearing away.
#ifndef CARILLON_TOOLS_TESTBED_SUPERVISOR_TESTBEDS_H_
#define CARILLON_TOOLS_TESTBED_SUPERVISOR_TESTBEDS_H_

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/testbed_paths.h"
#include "tools/testbed/supervisor/process_identity.h"
#include "tools/testbed/supervisor/state.h"

namespace carillon::testbed {

struct Testbed {
  std::string name;
  TestbedPaths paths;
  // Empty if the testbed is dead and its directory a leftover.
  std::optional<ProcessIdentity> supervisor;
};

// All directories with a testbed's mark, by name. Errors: PermissionDenied (the
// runtime directory is somebody else's).
absl::StatusOr<std::vector<Testbed>> ListTestbeds();

// The testbed called `name`; without a name, the only one that is up. Errors:
// NotFound, InvalidArgument (several are up).
absl::StatusOr<Testbed> ChooseTestbed(const std::string& name);

// The testbed called `name`, dead or alive; without a name, the only one there
// is, or else the only one that is up. Errors: those of ChooseTestbed().
absl::StatusOr<Testbed> FindTestbed(const std::string& name);

// What to know of a supervisor that somebody has stopped (SIGSTOP), which is not
// seen otherwise as long as nothing happens; else empty.
std::string StoppedSupervisor(const Testbed& testbed);

// Asks the supervisor to end its testbed and waits until everything has gone;
// kills it after `limit`. Clears a dead testbed away. Errors: those of
// ClearDead(); DeadlineExceeded (the supervisor survives SIGKILL inside the
// kernel).
absl::Status EndTestbed(const Testbed& testbed, std::chrono::milliseconds limit,
                        const std::function<void(const std::string&)>& say);

// Removes the empty folders in the runtime directory, which an `up` that was
// killed in its first moments leaves; `name` empty: all of them. Returns their
// names.
std::vector<std::string> RemoveEmptyFolders(const std::string& name);

struct Leftovers {
  std::string name;
  std::string directory;
  std::vector<ProcessIdentity> processes;
  std::vector<std::string> files;  // files that a testbed made
};

Leftovers LeftoversOf(const Testbed& testbed);
// Kills its processes and removes its files. Errors: AlreadyExists (it came up
// meanwhile), FailedPrecondition (foreign files stay), PermissionDenied.
absl::Status ClearDead(const Testbed& testbed);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_TESTBEDS_H_
