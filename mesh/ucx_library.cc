#include "mesh/ucx_library.h"

#include <dlfcn.h>
#include <signal.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "fmt/format.h"

namespace carillon::mesh {
namespace {

// UCX takes these signals when it is loaded, and a program's own handlers with
// them.
class KeptSignals {
 public:
  KeptSignals() {
    for (auto& [number, action] : kept_) sigaction(number, nullptr, &action);
  }
  ~KeptSignals() {
    for (auto& [number, action] : kept_) sigaction(number, &action, nullptr);
  }

 private:
  std::array<std::pair<int, struct sigaction>, 5> kept_ = {
      {{SIGILL, {}}, {SIGSEGV, {}}, {SIGBUS, {}}, {SIGFPE, {}}, {SIGHUP, {}}}};
};

// It stays: UCX's own threads and handlers cannot be unloaded.
absl::StatusOr<UcxFunctions> Load(const std::string& path) {
  const KeptSignals signals;
  // Else it rewrites the process's mmap() and others, which crashes under
  // ThreadSanitizer. Only the first of these calls changes the environment.
  setenv("UCX_MEM_EVENTS", "n", 0);
  setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 0);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(fmt::format(
        "the engine ucx needs UCX: {}: install libucx0", dlerror()));
  }
  UcxFunctions functions;
#define CARILLON_UCX_FIND(name)                                                \
  functions.name =                                                             \
      reinterpret_cast<decltype(functions.name)>(dlsym(library, #name));       \
  if (functions.name == nullptr) {                                             \
    return absl::FailedPreconditionError(fmt::format(                          \
        "the engine ucx needs UCX 1.13 or later: {} has no {}", path, #name)); \
  }
  CARILLON_UCX_FUNCTIONS(CARILLON_UCX_FIND)
#undef CARILLON_UCX_FIND
  return functions;
}

}  // namespace

absl::StatusOr<std::shared_ptr<UcxContext>> UcxContext::Create(
    const std::string& library) {
  ASSIGN_OR_RETURN(const UcxFunctions functions, Load(library));
  std::shared_ptr<UcxContext> context(new UcxContext(functions));
  const KeptSignals signals;
  ucp_config_t* config = nullptr;
  ucs_status_t status = functions.ucp_config_read(nullptr, nullptr, &config);
  // A link is between machines. Where both hosts are one, memory that they share
  // would stay behind when one of them is killed.
  if (status == UCS_OK && std::getenv("UCX_TLS") == nullptr) {
    status = functions.ucp_config_modify(config, "TLS", "^shm");
  }
  if (status == UCS_OK) {
    ucp_params_t params{};
    params.field_mask =
        UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    params.mt_workers_shared = 1;
    status = functions.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params,
                                        config, &context->handle_);
  }
  if (config != nullptr) functions.ucp_config_release(config);
  if (status != UCS_OK) {
    return absl::FailedPreconditionError(fmt::format(
        "the engine ucx: UCX does not start: {}: look at UCX_TLS and "
        "UCX_NET_DEVICES, and at what `ucx_info -d` says",
        functions.ucs_status_string(status)));
  }
  return context;
}

UcxContext::~UcxContext() {
  if (handle_ != nullptr) functions_.ucp_cleanup(handle_);
}

}  // namespace carillon::mesh
