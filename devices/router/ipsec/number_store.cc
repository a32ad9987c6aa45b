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

}  // namespace

NumberStore::NumberStore(std::string path, std::vector<std::string> keys)
    : path_(std::move(path)),
      keys_(std::move(keys)),
      limits_(keys_.size(), 0),
      ahead_(keys_.size(), kLeastAhead),
      extended_(keys_.size(), 0) {}

absl::StatusOr<std::unique_ptr<NumberStore>> NumberStore::Open(
    const std::string& path, std::vector<std::string> keys) {
  std::unique_ptr<NumberStore> store(new NumberStore(path, std::move(keys)));
  RETURN_IF_ERROR(store->Lock());
  RETURN_IF_ERROR(store->Read());
  for (size_t i = 0; i < store->keys_.size(); ++i) {
    const auto found = store->file_.find(store->keys_[i]);
    if (found != store->file_.end()) store->limits_[i] = found->second;
  }
  return store;
}

absl::Status NumberStore::Lock() {
  // A file of its own, since the other one is replaced with each change.
  const std::string path = path_ + ".lock";
  lock_.reset(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock_) return FileError("make", kThing, path);
  for (int i = 0; i < kLockAttempts; ++i) {
    if (flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return FileError("lock", kThing, path);
    }
    poll(nullptr, 0, kLockWaitMs);
  }
  return absl::AlreadyExistsError(fmt::format(
      "{}: another process uses these tunnels; two would send the same numbers",
      path));
}

absl::Status NumberStore::Read() {
  const auto text = ReadFile(path_, kThing);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  RETURN_IF_ERROR(text.status());
  std::istringstream lines(*text);
  std::string line;
  for (uint64_t number = 1; std::getline(lines, line); ++number) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string key, limit_text, more;
    words >> key >> limit_text >> more;
    const auto limit = ReadInteger(limit_text, 0, kHighest);
    if (key.size() != kFingerprintBytes || !limit.ok() || !more.empty()) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: line {} is damaged. Nobody knows any more which numbers were "
          "used: give all tunnels new keys, and remove the file",
          path_, number));
    }
    file_[key] = static_cast<uint32_t>(*limit);
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
