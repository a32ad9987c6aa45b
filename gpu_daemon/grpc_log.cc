#include "gpu_daemon/grpc_log.h"

#include <grpc/support/log.h>

#include <mutex>
#include <new>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/net/refusal_log.h"

namespace carillon::gpud {
namespace {

constexpr size_t kMaxMessage = 512;
// Its last words before it aborts, where there is no room for a thread's stack.
constexpr std::string_view kNoThread = "assertion failed: worker->created()";

void Log(gpr_log_func_args* said) {
  if (said->message == kNoThread) {
    if (const auto out_of_memory = std::get_new_handler()) out_of_memory();
  }
  // gRPC's threads may outlive everything static.
  static std::mutex* const mutex = new std::mutex;
  static RefusalLog* const log = new RefusalLog;
  const std::string line =
      fmt::format("gRPC: {}", Printable(said->message, kMaxMessage));
  std::lock_guard lock(*mutex);
  log->Warn(line, NowNs());
}

}  // namespace

void LimitGrpcLog() { gpr_set_log_function(Log); }

}  // namespace carillon::gpud
