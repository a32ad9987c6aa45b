#include "gpu_daemon/control/sessions/module_store.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "base/module_folder.h"
#include "fmt/format.h"

namespace carillon::gpud {
namespace {

namespace fs = std::filesystem;

// By name, which is the order in which they were written.
std::vector<fs::path> FilesIn(const std::string& folder) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.path().extension() == kModuleExtension) {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

absl::StatusOr<v1::RegisterModuleRequest> Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  v1::RegisterModuleRequest module;
  if (!module.ParseFromIstream(&file)) {
    return absl::DataLossError("the file is not whole");
  }
  return module;
}

// What devices register it by.
const std::string& NameOf(const v1::KernelDeclaration& kernel) {
  return kernel.name().empty() ? kernel.symbol() : kernel.name();
}

bool ShareAName(const v1::RegisterModuleRequest& a,
                const v1::RegisterModuleRequest& b) {
  return std::ranges::any_of(a.kernels(), [&](const auto& mine) {
    return std::ranges::any_of(b.kernels(), [&](const auto& other) {
      return NameOf(mine) == NameOf(other);
    });
  });
}

}  // namespace

void ModuleStore::Clear() {
  MutexLock lock(mutex_);
  std::error_code ignored;
  for (const fs::path& path : FilesIn(folder_)) fs::remove(path, ignored);
}

absl::Status ModuleStore::Keep(const v1::RegisterModuleRequest& module) {
  MutexLock lock(mutex_);
  uint64_t bytes = module.image().size();
  std::error_code none;
  for (const fs::path& path : FilesIn(folder_)) {
    // An earlier one could not be loaded again, or its names would be taken.
    if (const auto earlier = Read(path);
        earlier.ok() && ShareAName(*earlier, module)) {
      fs::remove(path, none);
      continue;
    }
    bytes += fs::file_size(path, none);
  }
  absl::Status status =
      bytes <= kMaxBytes
          ? Write(module)
          : absl::ResourceExhaustedError(fmt::format(
                "{} bytes of kernels: no more than {} are kept for the next "
                "gpud",
                bytes, kMaxBytes));
  if (!status.ok()) {
    v1::RegisterModuleRequest names;
    names.set_file(module.file());
    *names.mutable_kernels() = module.kernels();
    Write(names).IgnoreError();
  }
  return status;
}

absl::Status ModuleStore::Write(const v1::RegisterModuleRequest& module) {
  std::error_code none;
  fs::create_directory(folder_, none);
  const std::vector<fs::path> files = FilesIn(folder_);
  const int number =
      files.empty() ? 0 : std::atoi(files.back().stem().c_str()) + 1;
  const std::string path =
      fmt::format("{}/{:06}{}", folder_, number, kModuleExtension);
  // A file that is only begun has another name.
  const std::string begun = path + ".tmp";
  std::ofstream file(begun, std::ios::binary | std::ios::trunc);
  const bool written = module.SerializeToOstream(&file) && file.flush().good();
  file.close();
  std::error_code error;
  if (written) fs::rename(begun, path, error);
  if (written && !error) return absl::OkStatus();
  fs::remove(begun, none);
  return absl::ResourceExhaustedError(
      fmt::format("cannot write {}: is the disk full?", path));
}

void ModuleStore::ForEach(
    const std::function<void(
        const std::string& file,
        const absl::StatusOr<v1::RegisterModuleRequest>& module)>& load) const {
  std::vector<fs::path> files;
  {
    MutexLock lock(mutex_);
    files = FilesIn(folder_);
  }
  for (const fs::path& path : files) load(path.string(), Read(path));
}

}  // namespace carillon::gpud
