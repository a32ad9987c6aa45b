#include "tools/testbed/supervisor/directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "base/file_error.h"
#include "base/incarnation/incarnation.h"
#include "base/module_folder.h"
#include "base/status.h"
#include "base/text.h"
#include "tools/testbed/supervisor/dashboard_link.h"
#include "tools/testbed/supervisor/marks.h"

namespace carillon::testbed {
namespace {

namespace fs = std::filesystem;

constexpr char kMark[] = "carillon testbed";
constexpr char kOwnFolder[] =
    "set CARILLON_RUNTIME_DIR to a folder of your own (mode 0700)";
// Another process may remove the directory between two of our steps.
constexpr int kTries = 20;
// A killed process counts as dead when its first thread has ended, and gives
// its lock back with its last.
constexpr std::chrono::milliseconds kLockOutlivesItsOwner{2'000};

std::string UserName(uid_t uid) {
  const passwd* user = getpwuid(uid);
  return user != nullptr ? fmt::format("{} (uid {})", user->pw_name, uid)
                         : fmt::format("uid {}", uid);
}

std::string BaseName(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string IncarnationFileOf(const TestbedPaths& paths) {
  return fmt::format("{}/{}", paths.directory(), kIncarnationFile);
}

// The names of the files in a testbed's directory, outside of its folders.
std::vector<std::string> OwnFiles(const TestbedPaths& paths) {
  return {paths.control_socket(),      paths.operator_socket(),
          paths.handover_socket(),     paths.bus_socket(),
          paths.gpud_lock(),           paths.restart_mark(),
          paths.state_file(),          paths.state_file() + ".tmp",
          SupervisorSocketOf(paths),   paths.fault_board(),
          DashboardTokenFile(paths),   DashboardTokenFile(paths) + ".tmp",
          DashboardAddressFile(paths), DashboardAddressFile(paths) + ".tmp",
          IncarnationFileOf(paths)};
}

bool IsLog(const fs::path& path) { return path.extension() == ".log"; }
// A process that dies while it writes peer.clock leaves a file of a longer name.
bool IsRecording(const fs::path& path) {
  return path.extension() == ".rec" ||
         path.filename().string().starts_with("peer.clock");
}
bool IsModule(const fs::path& path) {
  return path.extension() == kModuleExtension || path.extension() == ".tmp";
}

// The folders in a testbed's directory, and which files there are its own; but
// for etcd's, where all is.
struct Folder {
  std::string path;
  bool (*is_own)(const fs::path&);
};
std::array<Folder, 3> OwnFolders(const TestbedPaths& paths) {
  return {
      Folder{paths.log_directory(), IsLog},
      Folder{paths.recorder_directory(), IsRecording},
      Folder{fmt::format("{}/{}", paths.directory(), kModuleFolder), IsModule}};
}

absl::Status MakeDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) {
    return absl::OkStatus();
  }
  return WithHint(FileError("make", "folder", path), kOwnFolder);
}

// The folder of testbeds, unless the user has named one: that belongs to the
// user.
std::optional<std::string> OwnFolderAbove(const TestbedPaths& paths) {
  const std::string above = fs::path(paths.directory()).parent_path();
  const char* const own = std::getenv("CARILLON_RUNTIME_DIR");
  if ((own != nullptr && *own != '\0') || above != RuntimeDirectory()) {
    return std::nullopt;
  }
  return above;
}

// Whether a living process listens on the socket.
bool SomebodyListens(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() > kMaxSocketPath) return false;
  path.copy(address.sun_path, path.size());
  const UniqueFd fd(
      socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
                 sizeof(address)) == 0 ||
         errno == EAGAIN;
}

bool SameFile(int fd, const std::string& path) {
  struct stat open_file;
  struct stat named_file;
  return fstat(fd, &open_file) == 0 && lstat(path.c_str(), &named_file) == 0 &&
         open_file.st_ino == named_file.st_ino &&
         open_file.st_dev == named_file.st_dev;
}

absl::Status AlreadyUp(const TestbedPaths& paths) {
  const std::string name = BaseName(paths.directory());
  const auto supervisor = SupervisorOf(paths);
  return WithHint(
      absl::AlreadyExistsError(
          supervisor ? fmt::format("testbed '{}' is already up (pid {})", name,
                                   supervisor->pid)
                     : fmt::format("testbed '{}' is already up", name)),
      fmt::format("carillon down --name {}, or choose another --name", name));
}

bool TakeLock(int fd, const TestbedPaths& paths) {
  const auto deadline =
      std::chrono::steady_clock::now() + kLockOutlivesItsOwner;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const bool owner_is_dead =
        IsTestbedDirectory(paths) && !SupervisorOf(paths);
    if (!owner_is_dead || std::chrono::steady_clock::now() >= deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// Takes the lock on the testbed, or returns AlreadyExists. Unavailable: the
// file was removed meanwhile, try again.
absl::StatusOr<UniqueFd> Lock(const TestbedPaths& paths, int open_flags) {
  const std::string path = paths.lock_file();
  UniqueFd fd(
      open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | open_flags, 0600));
  if (!fd) {
    const absl::Status status = FileError("open", "lock file", path);
    return absl::IsNotFound(status) ? absl::UnavailableError(status.message())
                                    : WithHint(status, kOwnFolder);
  }
  if (!TakeLock(fd.get(), paths)) return AlreadyUp(paths);
  if (!SameFile(fd.get(), path)) {
    return absl::UnavailableError(fmt::format("{} was replaced", path));
  }
  return fd;
}

absl::Status WriteMark(int fd) {
  const ProcessIdentity own = OwnIdentity();
  const std::string text =
      fmt::format("{}\n{} {}\n", kMark, own.pid, own.start_ticks);
  if (ftruncate(fd, 0) != 0 || pwrite(fd, text.data(), text.size(), 0) !=
                                   static_cast<ssize_t>(text.size())) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot write the lock file: {}", strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace

TestbedPaths PathsOf(const std::string& name) {
  return TestbedPaths(RuntimeDirectory() + "/" + name);
}

std::string EtcdFolderOf(const TestbedPaths& paths) {
  return paths.directory() + "/etcd";
}

std::string SupervisorSocketOf(const TestbedPaths& paths) {
  return paths.directory() + "/supervisor.sock";
}

absl::Status CheckSocketPaths(const TestbedPaths& paths) {
  for (const std::string& socket :
       {paths.handover_socket(), paths.control_socket(),
        paths.operator_socket(), paths.bus_socket(),
        SupervisorSocketOf(paths)}) {
    if (absl::Status status = CheckSocketPath(socket); !status.ok()) {
      return WithHint(std::move(status),
                      "set CARILLON_RUNTIME_DIR to a shorter path, or choose a "
                      "shorter --name");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDirectoryOwner(const std::string& directory) {
  struct stat facts;
  if (lstat(directory.c_str(), &facts) != 0) {
    return absl::NotFoundError(
        fmt::format("{}: {}", directory, strerror(errno)));
  }
  if (!S_ISDIR(facts.st_mode)) {
    return WithHint(absl::PermissionDeniedError(fmt::format(
                        "{} is {}, not a folder", directory,
                        S_ISLNK(facts.st_mode) ? "a link" : "a file")),
                    kOwnFolder);
  }
  if (facts.st_uid != geteuid()) {
    return WithHint(absl::PermissionDeniedError(fmt::format(
                        "{} belongs to {}, not to {}", directory,
                        UserName(facts.st_uid), UserName(geteuid()))),
                    kOwnFolder);
  }
  if ((facts.st_mode & 022) != 0 && (facts.st_mode & S_ISVTX) == 0) {
    return WithHint(absl::PermissionDeniedError(
                        fmt::format("others may write to {} (mode {:04o})",
                                    directory, facts.st_mode & 07777)),
                    fmt::format("chmod go-w {}", directory));
  }
  return absl::OkStatus();
}

std::optional<ProcessIdentity> SupervisorOf(const TestbedPaths& paths) {
  std::ifstream file(paths.lock_file());
  std::string mark;
  ProcessIdentity identity;
  if (!std::getline(file, mark) || mark != kMark ||
      !(file >> identity.pid >> identity.start_ticks) || !IsAlive(identity)) {
    return std::nullopt;
  }
  return identity;
}

bool IsTestbedDirectory(const TestbedPaths& paths) {
  std::ifstream file(paths.lock_file());
  std::string mark;
  return std::getline(file, mark) && mark == kMark;
}

std::vector<std::string> TestbedFiles(const TestbedPaths& paths) {
  std::vector<std::string> candidates = OwnFiles(paths);
  candidates.push_back(paths.lock_file());
  std::error_code error;
  for (const Folder& folder : OwnFolders(paths)) {
    for (const auto& entry : fs::directory_iterator(folder.path, error)) {
      if (folder.is_own(entry.path())) candidates.push_back(entry.path());
    }
  }
  std::erase_if(candidates, [](const std::string& path) {
    std::error_code ignored;
    return !fs::exists(fs::symlink_status(path, ignored));
  });
  std::sort(candidates.begin(), candidates.end());
  return candidates;
}

absl::StatusOr<LockedDirectory> LockedDirectory::Create(
    const TestbedPaths& paths) {
  RETURN_IF_ERROR(CheckSocketPaths(paths));
  const std::string above = fs::path(paths.directory()).parent_path();
  absl::Status status;
  for (int i = 0; i < kTries; ++i) {
    for (const std::string& directory : {above, paths.directory()}) {
      status = MakeDirectory(directory);
      if (status.ok()) status = CheckDirectoryOwner(directory);
      if (!status.ok()) break;
    }
    if (absl::IsNotFound(status)) continue;  // removed meanwhile
    if (!status.ok()) return status;
    absl::StatusOr<UniqueFd> lock = Lock(paths, O_CREAT);
    status = lock.status();
    if (absl::IsUnavailable(status)) continue;
    if (!status.ok()) return status;

    LockedDirectory directory(paths, *std::move(lock));
    // A directory that was made by hand may be readable for others.
    chmod(paths.directory().c_str(), 0700);
    // gpud's list of other users (gpu_daemon/control/net/user_access.h).
    removexattr(paths.directory().c_str(), "system.posix_acl_access");
    // Kill the daemons of a dead testbed: the kernel has killed only its
    // children.
    KillOrphanedProcesses(paths);
    if (SomebodyListens(paths.control_socket())) {
      return WithHint(absl::AlreadyExistsError(fmt::format(
                          "a gpud that carillon did not start serves on {}",
                          paths.control_socket())),
                      "end it, or choose another --name");
    }
    if (const auto foreign = directory.ForeignFiles(); !foreign.empty()) {
      return WithHint(absl::FailedPreconditionError(
                          fmt::format("{} holds what no testbed makes: {}",
                                      paths.directory(), JoinWords(foreign))),
                      "move it away, or choose another --name");
    }
    directory.RemoveContents(/*logs=*/true);
    status = WriteMark(directory.lock_.get());
    if (status.ok()) status = MakeDirectory(paths.log_directory());
    if (status.ok()) return directory;
    // Without its mark nobody would take it for a testbed's.
    directory.Remove().IgnoreError();
    return status;
  }
  return status;
}

absl::StatusOr<LockedDirectory> LockedDirectory::TakeOver(
    const TestbedPaths& paths) {
  RETURN_IF_ERROR(CheckDirectoryOwner(paths.directory()));
  absl::StatusOr<UniqueFd> lock = Lock(paths, 0);
  if (absl::IsUnavailable(lock.status())) {
    return absl::NotFoundError(
        fmt::format("{} is no testbed's directory", paths.directory()));
  }
  if (!lock.ok()) return lock.status();
  return LockedDirectory(paths, *std::move(lock));
}

std::vector<std::string> LockedDirectory::ForeignFiles() const {
  std::vector<std::string> own = OwnFiles(paths_);
  own.push_back(paths_.lock_file());
  const auto folders = OwnFolders(paths_);
  std::vector<std::string> foreign;
  std::error_code error;
  const auto look = [&](const std::string& directory, const auto& is_own) {
    for (const auto& entry : fs::directory_iterator(directory, error)) {
      // A testbed makes no other folders.
      const bool folder =
          entry.symlink_status(error).type() == fs::file_type::directory;
      const bool own_folder =
          entry.path() == EtcdFolderOf(paths_) ||
          std::ranges::any_of(folders, [&](const Folder& own) {
            return entry.path() == own.path;
          });
      if (folder ? !own_folder : !is_own(entry.path())) {
        foreign.push_back(Quote(
            entry.path().lexically_relative(paths_.directory()).string()));
      }
    }
  };
  look(paths_.directory(), [&](const fs::path& path) {
    return std::find(own.begin(), own.end(), path) != own.end();
  });
  for (const Folder& folder : folders) look(folder.path, folder.is_own);
  std::sort(foreign.begin(), foreign.end());
  return foreign;
}

void LockedDirectory::RemoveContents(bool logs) {
  for (const std::string& path : OwnFiles(paths_)) {
    // What comes next in it is newer, too.
    if (path == IncarnationFileOf(paths_)) continue;
    if (logs || path != paths_.state_file()) unlink(path.c_str());
  }
  if (!logs) return;
  std::error_code error;
  fs::remove_all(EtcdFolderOf(paths_), error);
  for (const Folder& folder : OwnFolders(paths_)) {
    for (const auto& entry : fs::directory_iterator(folder.path, error)) {
      if (folder.is_own(entry.path())) unlink(entry.path().c_str());
    }
    rmdir(folder.path.c_str());
  }
}

void LockedDirectory::LetOthersPass() {
  if (const auto above = OwnFolderAbove(paths_)) chmod(above->c_str(), 0711);
}

void LockedDirectory::RemoveSockets() { RemoveContents(/*logs=*/false); }

absl::Status LockedDirectory::Remove() {
  RemoveContents(/*logs=*/true);
  if (const auto foreign = ForeignFiles(); !foreign.empty()) {
    return WithHint(absl::FailedPreconditionError(
                        fmt::format("left {} there: it holds {}",
                                    paths_.directory(), JoinWords(foreign))),
                    "move it away, then: carillon cleanup");
  }
  unlink(IncarnationFileOf(paths_).c_str());
  unlink(paths_.lock_file().c_str());
  if (rmdir(paths_.directory().c_str()) != 0 && errno != ENOENT) {
    return absl::FailedPreconditionError(fmt::format(
        "cannot remove {}: {}", paths_.directory(), strerror(errno)));
  }
  if (const auto above = OwnFolderAbove(paths_)) rmdir(above->c_str());
  return absl::OkStatus();
}

}  // namespace carillon::testbed
