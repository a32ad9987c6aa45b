#include "gpu_daemon/control/rpc/unread_calls.h"

#include <grpcpp/server_context.h>

#include <charconv>

namespace carillon::gpud {
namespace {

// The property of a connection's context that holds its number.
constexpr char kProperty[] = "carillon_connection";

// 0: it has none.
uint64_t NumberOf(const grpc::AuthContext& context) {
  uint64_t number = 0;
  for (const grpc::string_ref& value : context.FindPropertyValues(kProperty)) {
    std::from_chars(value.data(), value.data() + value.size(), number);
  }
  return number;
}

}  // namespace

bool UnreadCalls::Begin(grpc::AuthContext* context) {
  std::string served;
  {
    MutexLock lock(mutex_);
    uint64_t number = NumberOf(*context);
    if (number == 0) {
      number = ++last_;
      context->AddProperty(kProperty, std::to_string(number));
      places_[number % kPlaces] = {.connection = number};
    }
    Place& place = places_[number % kPlaces];
    if (place.connection == number) {
      if (++place.unread <= kMaxUnread) return true;
      // While it has not sent enough to be told from others, it is only refused.
      if (place.unread % kMaxUnread != 1) return false;
      served = place.grpc_peer;
    }
  }
  callbacks_.cut(served);
  return false;
}

void UnreadCalls::Arrive(const grpc::AuthContext& context,
                         const std::string& grpc_peer) {
  const uint64_t number = NumberOf(context);
  if (number == 0) return;
  {
    MutexLock lock(mutex_);
    Place& place = places_[number % kPlaces];
    if (place.connection != number) return;
    if (place.unread > 0) --place.unread;
    if (!place.grpc_peer.empty()) return;
    place.grpc_peer = grpc_peer;
  }
  callbacks_.served(grpc_peer);
}

grpc::experimental::Interceptor* ArrivalWatch::CreateServerInterceptor(
    grpc::experimental::ServerRpcInfo* info) {
  const grpc::ServerContextBase& context = *info->server_context();
  if (const auto connection = context.auth_context()) {
    calls_->Arrive(*connection, context.peer());
  }
  return nullptr;
}

}  // namespace carillon::gpud
