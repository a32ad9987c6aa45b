#include "gpu_daemon/control/rpc/change_log.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>
#include <spdlog/spdlog.h>

#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

constexpr size_t kMaxNameLength = 64;

void Write(const std::string& line) { spdlog::info("{}", line); }

}  // namespace

std::string ChangeLog::CallerOf(const grpc::ServerContext& context) const {
  if (const auto peer = peers_->Find(context.peer()); peer != nullptr) {
    return fmt::format("process {} of uid {}", peer->pid, peer->uid);
  }
  const auto identity = context.auth_context();
  if (identity == nullptr) return "no connection";  // a fuzzer's call
  std::string name;
  for (const grpc::string_ref& own :
       identity->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME)) {
    name.assign(own.data(), own.size());
  }
  return fmt::format("CN={} at {}", Printable(name, kMaxNameLength),
                     context.peer());
}

void ChangeLog::Tell(const grpc::ServerContext& context,
                     std::string_view method, const std::string& what) {
  const std::string line =
      fmt::format("{}: {} ({})", method, what, CallerOf(context));
  MutexLock lock(mutex_);
  by_method_.try_emplace(method, Write).first->second.Warn(line, NowNs());
}

void ChangeLog::Tick(Nanoseconds now) {
  MutexLock lock(mutex_);
  for (auto& [method, log] : by_method_) log.Tick(now);
}

}  // namespace carillon::gpud
