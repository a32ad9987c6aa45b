#include "tools/testbed/supervisor/log_rotation.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "base/unique_fd.h"

namespace carillon::testbed {
namespace {

namespace fs = std::filesystem;

constexpr char kLog[] = ".log";
constexpr char kOld[] = ".old.log";

void Rotate(const std::string& path) {
  const UniqueFd log(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  struct stat facts;
  if (!log || fstat(log.get(), &facts) != 0 || !S_ISREG(facts.st_mode) ||
      static_cast<uint64_t>(facts.st_size) <= kMaxLogBytes) {
    return;
  }
  const std::string old = path.substr(0, path.size() - sizeof(kLog) + 1) + kOld;
  // Without space the oldest lines go unseen; the log stays bounded.
  const UniqueFd to(open(old.c_str(),
                         O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                         0600));
  off_t from = facts.st_size - static_cast<off_t>(kMaxLogBytes);
  while (to && sendfile(to.get(), log.get(), &from, kMaxLogBytes) > 0) {
  }
  (void)!ftruncate(log.get(), 0);
}

}  // namespace

void RotateLogs(const std::string& folder) {
  std::vector<std::string> logs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string path = entry.path();
    if (path.ends_with(kLog) && !path.ends_with(kOld)) logs.push_back(path);
  }
  for (const std::string& path : logs) Rotate(path);
}

}  // namespace carillon::testbed
