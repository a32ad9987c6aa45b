#include "devices/router/ipsec/number_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/file_error.h"
#include "base/option_table.h"
#include "base/read_file.h"
#include "base/status.h"

namespace carillon::router {
namespace {

constexpr char kThing[] = "file of used numbers";
constexpr char kFirstLine[] =
    "# The numbers that keys have used (docs/workloads.md). Never edit or "
    "remove it while a key is in use.";
// Without it, at the end, a part of the file is missing.
constexpr char kLastLine[] = "# end";
constexpr size_t kFingerprintBytes = 40;
// A process that was killed may take a moment to end.
constexpr int kLockAttempts = 100;
constexpr int kLockWaitMs = 50;
constexpr Nanoseconds kOften = 1'000'000'000;
constexpr uint32_t kHighest = std::numeric_limits<uint32_t>::max();

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError("write", kThing, path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status LockFile(int fd, const std::string& path) {
  for (int i = 0; i < kLockAttempts; ++i) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return FileError("lock", kThing, path);
    }
    poll(nullptr, 0, kLockWaitMs);
  }
  return absl::AlreadyExistsError(fmt::format(
      "{}: another process uses these tunnels; two would send the same numbers",
      path));
}

}  // namespace

NumberStore::NumberStore(std::string path, std::vector<std::string> keys)
    : path_(std::move(path)),
      keys_(std::move(keys)),
      limits_(keys_.size(), 0),
      ahead_(keys_.size(), kLeastAhead),
      extended_(keys_.size(), 0) {}

absl::StatusOr<std::unique_ptr<NumberStore>> NumberStore::Open(
    const std::string& tunnels, std::vector<std::string> keys) {
  // One file has one file of numbers, whichever symbolic links lead to it.
  std::error_code error;
  const std::string path = std::filesystem::canonical(tunnels, error).string();
  if (error) {
    errno = error.value();
    return FileError("find", "file of tunnels", tunnels);
  }
  std::unique_ptr<NumberStore> store(
      new NumberStore(path + ".numbers", std::move(keys)));
  RETURN_IF_ERROR(store->Lock(path));
  RETURN_IF_ERROR(store->Read());
  for (size_t i = 0; i < store->keys_.size(); ++i) {
    const auto found = store->file_.find(store->keys_[i]);
    if (found != store->file_.end()) store->limits_[i] = found->second;
  }
  return store;
}

absl::Status NumberStore::Lock(const std::string& tunnels) {
  // A hard link to it has another file of numbers, but the same lock.
  tunnels_lock_.reset(open(tunnels.c_str(), O_RDONLY | O_CLOEXEC));
  if (!tunnels_lock_) return FileError("open", "file of tunnels", tunnels);
  RETURN_IF_ERROR(LockFile(tunnels_lock_.get(), tunnels));
  // A file of its own, since the tunnels may be replaced by a rename, and the
  // numbers are with each change.
  const std::string path = path_ + ".lock";
  lock_.reset(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock_) return FileError("make", kThing, path);
  return LockFile(lock_.get(), path);
}

absl::Status NumberStore::Read() {
  const auto text = ReadFile(path_, kThing);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  RETURN_IF_ERROR(text.status());
  const auto damaged = [this](const std::string& what) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: {}. Nobody knows any more which numbers were used: give all "
        "tunnels new keys, and remove the file",
        path_, what));
  };
  const std::string first = fmt::format("{}\n", kFirstLine);
  const std::string last = fmt::format("{}\n", kLastLine);
  if (!text->starts_with(first) || !text->ends_with("\n" + last)) {
    return damaged("its beginning or its end is missing");
  }
  std::istringstream lines(
      text->substr(first.size(), text->size() - first.size() - last.size()));
  std::string line;
  for (uint64_t number = 2; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    std::string key, limit_text, more;
    words >> key >> limit_text >> more;
    const auto limit = ReadInteger(limit_text, 0, kHighest);
    if (key.size() != kFingerprintBytes || !limit.ok() || !more.empty()) {
      return damaged(fmt::format("line {} is damaged", number));
    }
    if (!file_.emplace(key, static_cast<uint32_t>(*limit)).second) {
      return damaged(
          fmt::format("line {} has a key for a second time", number));
    }
  }
  return absl::OkStatus();
}

absl::Status NumberStore::Extend(size_t key, uint32_t number) {
  const Nanoseconds now = NowNs();
  uint32_t& ahead = ahead_[key];
  ahead = now - extended_[key] < kOften ? std::min(2 * ahead, kMostAhead)
                                        : std::max(ahead / 2, kLeastAhead);
  const uint32_t limit = kHighest - number < ahead ? kHighest : number + ahead;
  RETURN_IF_ERROR(Write(key, limit));
  extended_[key] = now;
  return absl::OkStatus();
}

absl::Status NumberStore::Settle(size_t key, uint32_t number) {
  return limits_[key] == number ? absl::OkStatus() : Write(key, number);
}

absl::Status NumberStore::Write(size_t key, uint32_t limit) {
  std::map<std::string, uint32_t> file = file_;
  file[keys_[key]] = limit;
  std::string text = fmt::format("{}\n", kFirstLine);
  for (const auto& [name, number] : file) {
    text += fmt::format("{} {}\n", name, number);
  }
  text += fmt::format("{}\n", kLastLine);
  // After a crash there is the old file or the new one.
  const std::string path = path_ + ".new";
  const UniqueFd fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return FileError("make", kThing, path);
  RETURN_IF_ERROR(WriteAll(fd.get(), text, path));
  if (fsync(fd.get()) != 0) return FileError("write", kThing, path);
  if (rename(path.c_str(), path_.c_str()) != 0) {
    return FileError("replace", kThing, path_);
  }
  const std::filesystem::path folder =
      std::filesystem::path(path_).parent_path();
  const UniqueFd folder_fd(open(folder.empty() ? "." : folder.c_str(),
                                O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_fd || fsync(folder_fd.get()) != 0) {
    return FileError("write", kThing, path_);
  }
  file_ = std::move(file);
  limits_[key] = limit;
  return absl::OkStatus();
}

}  // namespace carillon::router
