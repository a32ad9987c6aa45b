#include "gpu_daemon/control/rpc/rpc_faults.h"

#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {

absl::Status PassRpc(std::string_view method, std::string_view device) {
  const auto struck =
      faults::At(faults::Point::kGpudRpc, {.device = device, .method = method});
  if (!struck) return absl::OkStatus();
  return Error(static_cast<absl::StatusCode>(struck->code),
               fmt::format("an injected fault ends the call {}", method),
               reason::kInjectedFault, method, "carillon fault list");
}

absl::Status PassRoom(faults::Point point, std::string_view device,
                      std::string_view reason,
                      absl::FunctionRef<absl::Status()> full) {
  const auto struck = faults::At(point, {.device = device});
  if (!struck) return absl::OkStatus();
  if (struck->action == faults::Action::kFull) return full();
  return Error(
      absl::StatusCode::kResourceExhausted,
      fmt::format("an injected fault refuses this to device '{}' at {}", device,
                  faults::InfoOf(point).name),
      reason, "", "carillon fault list");
}

}  // namespace carillon::gpud
