#include "gpu_daemon/event/kernel_catalog.h"

#include <algorithm>

#include "absl/status/status.h"
#include "base/edit_distance.h"
#include "base/status.h"
#include "fmt/format.h"
#include "kernels/registry.h"

namespace carillon::gpud {

using simt::KernelInfo;

const KernelInfo* KernelCatalog::Find(std::string_view name) const {
  if (const KernelInfo* built_in = simt::FindKernel(name)) return built_in;
  MutexLock lock(mutex_);
  const auto found = std::ranges::find(users_, name, &KernelInfo::name);
  return found == users_.end() ? nullptr : *found;
}

std::vector<const KernelInfo*> KernelCatalog::All() const {
  const auto built_in = simt::AllKernels();
  std::vector<const KernelInfo*> all(built_in.begin(), built_in.end());
  {
    MutexLock lock(mutex_);
    all.insert(all.end(), users_.begin(), users_.end());
  }
  std::ranges::sort(all, {}, &KernelInfo::name);
  return all;
}

std::string_view KernelCatalog::Nearest(std::string_view name) const {
  std::vector<std::string_view> names;
  for (const KernelInfo* kernel : All()) names.push_back(kernel->name);
  return NearestName(name, names);
}

absl::Status KernelCatalog::CheckNames(const ModuleSource& source) const {
  for (auto kernel = source.kernels.begin(); kernel != source.kernels.end();
       ++kernel) {
    if (std::any_of(source.kernels.begin(), kernel, [&](const auto& other) {
          return other.name == kernel->name;
        })) {
      return absl::AlreadyExistsError(
          fmt::format("two kernels of {} are to be called '{}'", source.file,
                      kernel->name));
    }
    const KernelInfo* taken = Find(kernel->name);
    if (taken == nullptr) continue;
    return absl::AlreadyExistsError(
        fmt::format("there is a kernel '{}' already, {}; give yours another "
                    "name",
                    kernel->name,
                    taken->is_users() ? fmt::format("from {}", taken->file)
                                      : "one of gpud's own"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<const KernelInfo*>> KernelCatalog::Load(
    const ModuleSource& source, Backend& backend) {
  MutexLock loading(loading_);
  if (modules_ >= kMaxModules) {
    return absl::ResourceExhaustedError(fmt::format(
        "{} files with kernels are loaded: that is the limit; restart gpud",
        kMaxModules));
  }
  RETURN_IF_ERROR(CheckNames(source));
  auto loaded = backend.LoadKernels(source);
  if (!loaded.ok()) return loaded.status();
  ++modules_;
  MutexLock lock(mutex_);
  users_.insert(users_.end(), loaded->begin(), loaded->end());
  for (const KernelInfo* kernel : *loaded) {
    lost_.erase(std::string(kernel->name));
  }
  return loaded;
}

void KernelCatalog::NoteLost(const ModuleSource& source, std::string_view why) {
  MutexLock lock(mutex_);
  for (const KernelDeclaration& kernel : source.kernels) {
    lost_[kernel.name] = fmt::format("{}: {}", source.file, why);
  }
}

std::string KernelCatalog::WhyLost(std::string_view name) const {
  MutexLock lock(mutex_);
  const auto found = lost_.find(name);
  return found == lost_.end() ? "" : found->second;
}

}  // namespace carillon::gpud
