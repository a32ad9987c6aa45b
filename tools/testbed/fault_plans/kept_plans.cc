#include "tools/testbed/fault_plans/kept_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/testbed_paths.h"
#include "base/text.h"

namespace carillon::fault {

namespace fs = std::filesystem;

std::string KeptPlansDirectory() {
  return RuntimeDirectory() + "/failed-plans";
}

std::vector<std::string> KeptPlans() {
  std::vector<std::pair<fs::file_time_type, std::string>> folders;
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator(KeptPlansDirectory(), error)) {
    std::error_code gone;  // another process may remove it meanwhile
    if (entry.is_symlink(gone) || !entry.is_directory(gone)) continue;
    folders.emplace_back(entry.last_write_time(gone), entry.path());
  }
  std::sort(folders.begin(), folders.end());
  std::vector<std::string> paths;
  for (auto& [time, path] : folders) paths.push_back(std::move(path));
  return paths;
}

absl::Status TrimKeptPlans(size_t most) {
  const std::vector<std::string> plans = KeptPlans();
  absl::Status status;
  for (size_t i = 0; i + most < plans.size(); ++i) {
    std::error_code error;
    fs::remove_all(plans[i], error);
    if (!error) continue;
    status.Update(absl::PermissionDeniedError(
        fmt::format("cannot remove {}: {}", Quote(plans[i]), error.message())));
  }
  std::error_code holds_something;
  if (most == 0) fs::remove(KeptPlansDirectory(), holds_something);
  return status;
}

}  // namespace carillon::fault
