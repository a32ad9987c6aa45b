// A testbed's directory: made for one owner, locked while the testbed is up,
// and removed with exactly what a testbed puts there.
#ifndef CARILLON_TOOLS_TESTBED_SUPERVISOR_DIRECTORY_H_
#define CARILLON_TOOLS_TESTBED_SUPERVISOR_DIRECTORY_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/testbed_paths.h"
#include "base/unique_fd.h"
#include "tools/testbed/supervisor/process_identity.h"

namespace carillon::testbed {

// RuntimeDirectory()/name.
TestbedPaths PathsOf(const std::string& name);

// The socket on which the supervisor takes requests (supervisor_socket.h).
std::string SupervisorSocketOf(const TestbedPaths& paths);

// Where an etcd of the testbed's own has its data.
std::string EtcdFolderOf(const TestbedPaths& paths);

// InvalidArgument if a socket's path would be longer than a Unix socket's may
// be.
absl::Status CheckSocketPaths(const TestbedPaths& paths);

// PermissionDenied if the directory belongs to somebody else, is a link, or
// others may write to it; NotFound.
absl::Status CheckDirectoryOwner(const std::string& directory);

// The process that holds the testbed up, by its lock file; empty if there is
// none.
std::optional<ProcessIdentity> SupervisorOf(const TestbedPaths& paths);
// Whether the directory has a testbed's mark (its lock file's first line).
bool IsTestbedDirectory(const TestbedPaths& paths);

// The files in the directory that a testbed makes: sockets, locks, state, logs,
// flight recordings, the board of faults.
std::vector<std::string> TestbedFiles(const TestbedPaths& paths);

class LockedDirectory {
 public:
  // Makes the directory (mode 0700) and its parents as needed, and clears away
  // what a dead testbed of that name left: kills its processes, removes its
  // files. Errors: AlreadyExists (it is up; names the pid), PermissionDenied,
  // InvalidArgument (path too long), FailedPrecondition (it holds files that no
  // testbed makes), Internal (a read-only file system).
  static absl::StatusOr<LockedDirectory> Create(const TestbedPaths& paths);
  // Locks the directory of a dead testbed without changing it. Errors:
  // AlreadyExists (it is up), NotFound, PermissionDenied.
  static absl::StatusOr<LockedDirectory> TakeOver(const TestbedPaths& paths);

  const TestbedPaths& paths() const { return paths_; }

  // The files in it, and in its folders of logs and recordings, that no testbed
  // makes; quoted and relative to it.
  std::vector<std::string> ForeignFiles() const;
  // Removes what a testbed makes, and the directory, and its parent if that is
  // empty and the default one. FailedPrecondition, naming the files, if others
  // are there: they stay, and so does the lock file, by which the directory is
  // found again.
  absl::Status Remove();
  // Lets other users reach their sockets in it: they may pass through the folder
  // above it, if that is the default one, without seeing what is there.
  void LetOthersPass();
  // Removes the sockets, but keeps logs, recordings and state for people to
  // read.
  void RemoveSockets();

 private:
  LockedDirectory(TestbedPaths paths, UniqueFd lock)
      : paths_(std::move(paths)), lock_(std::move(lock)) {}
  void RemoveContents(bool logs);

  TestbedPaths paths_;
  UniqueFd lock_;
};

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_DIRECTORY_H_
