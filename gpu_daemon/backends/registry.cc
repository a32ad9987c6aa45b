#include "gpu_daemon/backends/registry.h"

#include <spdlog/spdlog.h>

#include <iterator>

#include "absl/status/status.h"
#include "base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gpu_daemon/backends/cpu/cpu_backend.h"
#include "gpu_daemon/backends/remote/remote_backend.h"
#include "gpu_daemon/backends/sim/sim_backend.h"
#include "gpu_daemon/backends/sim/timed_backend.h"
#include "gpu_daemon/options/policy_names.h"
#ifdef CARILLON_HAVE_CUDA
#include "gpu_daemon/backends/cuda/cuda_backend.h"
#endif

namespace carillon::gpud {
namespace {

struct BackendEntry {
  std::string_view name;
  absl::StatusOr<std::unique_ptr<Backend>> (*create)(const BackendOptions&);
};

// In the order in which "auto" tries them.
constexpr BackendEntry kBackends[] = {
#ifdef CARILLON_HAVE_CUDA
    {kCudaBackend, &cuda::CudaBackend::Create},
#else
    {kCudaBackend,
     [](const BackendOptions&) -> absl::StatusOr<std::unique_ptr<Backend>> {
       return absl::FailedPreconditionError(
           "this gpud was built without the CUDA toolkit: it has no CUDA "
           "back-end; use --backend cpu");
     }},
#endif
    {kCpuBackend, &CpuBackend::Create},
    {kSimBackend,
     [](const BackendOptions& options) {
       return options.timing.empty() ? SimBackend::Create(options)
                                     : TimedBackend::Create(options);
     }},
    {kRemoteBackend, &RemoteBackend::Create},
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(
    std::string_view name, const BackendOptions& options) {
  RETURN_IF_ERROR(CheckFor(name, options));
  for (const BackendEntry& entry : kBackends) {
    if (name != entry.name && name != kAutoBackend) continue;
    auto backend = entry.create(options);
    // Only now it is known whose policies "auto" means: a GPU that is there is
    // not left for one that it cannot do.
    if (backend.ok() && name == kAutoBackend && entry.name == kCudaBackend) {
      RETURN_IF_ERROR(CheckPolicy(Sharer::kCuda, options.policy));
    }
    const bool last = &entry == std::end(kBackends) - 1;
    if (backend.ok() || name == entry.name || last) return backend;
    spdlog::info("no {} back-end: {}", entry.name, backend.status().message());
  }
  return absl::NotFoundError(
      fmt::format("no back-end '{}'; there are: auto, {}", name,
                  fmt::join(BackendNames(), ", ")));
}

std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  for (const BackendEntry& backend : kBackends)
    names.emplace_back(backend.name);
  return names;
}

}  // namespace carillon::gpud
