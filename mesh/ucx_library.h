// UCX's library, found when the engine `ucx` is asked for: what does not use it
// needs none, and none of UCX's start-up code runs there.
#ifndef CARILLON_MESH_UCX_LIBRARY_H_
#define CARILLON_MESH_UCX_LIBRARY_H_

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace carillon::mesh {

// Every function of UCX that is used.
#define CARILLON_UCX_FUNCTIONS(F)   \
  F(ucp_config_read)                \
  F(ucp_config_modify)              \
  F(ucp_config_release)             \
  F(ucp_init_version)               \
  F(ucp_cleanup)                    \
  F(ucp_worker_create)              \
  F(ucp_worker_destroy)             \
  F(ucp_worker_get_address)         \
  F(ucp_worker_release_address)     \
  F(ucp_worker_get_efd)             \
  F(ucp_worker_arm)                 \
  F(ucp_worker_progress)            \
  F(ucp_worker_set_am_recv_handler) \
  F(ucp_ep_create)                  \
  F(ucp_ep_close_nbx)               \
  F(ucp_am_send_nbx)                \
  F(ucp_request_check_status)       \
  F(ucp_request_free)               \
  F(ucs_status_string)

struct UcxFunctions {
#define CARILLON_UCX_POINTER(name) decltype(&::name) name = nullptr;
  CARILLON_UCX_FUNCTIONS(CARILLON_UCX_POINTER)
#undef CARILLON_UCX_POINTER
};

inline constexpr const char* kUcxLibrary = "libucp.so.0";

// What all connections of one link share. Thread safe.
class UcxContext {
 public:
  // Errors: FailedPrecondition: the library is not there, or is not whole, or
  // UCX does not start, and what to do.
  static absl::StatusOr<std::shared_ptr<UcxContext>> Create(
      const std::string& library = kUcxLibrary);
  ~UcxContext();
  UcxContext(const UcxContext&) = delete;
  UcxContext& operator=(const UcxContext&) = delete;

  const UcxFunctions& ucx() const { return functions_; }
  ucp_context_h handle() const { return handle_; }

 private:
  explicit UcxContext(const UcxFunctions& functions) : functions_(functions) {}

  const UcxFunctions functions_;
  ucp_context_h handle_ = nullptr;
};

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_UCX_LIBRARY_H_
