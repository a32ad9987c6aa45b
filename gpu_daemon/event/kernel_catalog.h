// The kernels that devices can register and launch: those of this binary, and
// those that users have loaded since it started.
#ifndef CARILLON_GPU_DAEMON_EVENT_KERNEL_CATALOG_H_
#define CARILLON_GPU_DAEMON_EVENT_KERNEL_CATALOG_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "gpu_daemon/event/backend.h"
#include "gpu_daemon/event/user_kernel.h"
#include "kernels/simt/kernel_info.h"

namespace carillon::gpud {

// Thread safe. What it returns is valid for as long as the back-end.
class KernelCatalog {
 public:
  // Every image is kept; beyond it somebody forgets to restart gpud.
  static constexpr size_t kMaxModules = 256;

  // nullptr when there is none of that name.
  const simt::KernelInfo* Find(std::string_view name) const;
  // Sorted by name.
  std::vector<const simt::KernelInfo*> All() const;
  // For "did you mean ...?"; empty when none is near.
  std::string_view Nearest(std::string_view name) const;

  // One a declaration, in order; all of them or none. Errors: AlreadyExists (a
  // name), ResourceExhausted, those of Backend::LoadKernels.
  absl::StatusOr<std::vector<const simt::KernelInfo*>> Load(
      const ModuleSource& source, Backend& backend);

  // Kernels that an earlier gpud had, and that this one cannot load.
  void NoteLost(const ModuleSource& source, std::string_view why);
  // Why the kernel of that name is lost; empty: it is not.
  std::string WhyLost(std::string_view name) const;

 private:
  absl::Status CheckNames(const ModuleSource& source) const;

  // One at a time: nobody takes a name between its check and its use.
  Mutex loading_;
  size_t modules_ ABSL_GUARDED_BY(loading_) = 0;
  mutable Mutex mutex_;
  std::vector<const simt::KernelInfo*> users_ ABSL_GUARDED_BY(mutex_);
  // By name; until a kernel of that name is loaded.
  std::map<std::string, std::string, std::less<>> lost_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_KERNEL_CATALOG_H_
