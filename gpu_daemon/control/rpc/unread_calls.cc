#include "gpu_daemon/control/rpc/unread_calls.h"

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <charconv>
#include <string_view>
#include <utility>

#include "gpu_daemon/control/sessions/module_request.h"

namespace carillon::gpud {
namespace {

// The property of a connection's context that holds its number.
constexpr char kProperty[] = "carillon_connection";
// What a call that is served over TCP has at most, with TLS and HTTP/2; that of
// devices are not.
constexpr uint64_t kCallBytes = 32 << 10;
constexpr char kImageMethod[] = "/carillon.v1.Admin/RegisterModule";
constexpr uint64_t kImageCallBytes = kMaxImageBytes + (2 << 20);

// What a client sends for a frame of a message at most: two WINDOW_UPDATEs,
// SETTINGS, a PING and an acknowledgement, each in a record of TLS.
constexpr uint64_t kAnswerBytes = 256;
// A frame of HTTP/2 has at most so many bytes unless the client allows more.
constexpr uint64_t kFrameBytes = 16 << 10;

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
                         const std::string& grpc_peer, uint64_t bytes) {
  const uint64_t number = NumberOf(context);
  if (number == 0) return;
  {
    MutexLock lock(mutex_);
    Place& place = places_[number % kPlaces];
    if (place.connection != number) return;
    if (place.unread > 0) --place.unread;
    place.grpc_peer = grpc_peer;
  }
  callbacks_.served(grpc_peer, bytes);
}

void UnreadCalls::Answer(const grpc::AuthContext& context,
                         const std::string& grpc_peer, uint64_t bytes) {
  if (NumberOf(context) == 0) return;
  callbacks_.served(grpc_peer, kAnswerBytes * (1 + bytes / kFrameBytes));
}

namespace {

// Of one call. When gRPC makes it, it cannot tell yet of which connection; the
// call's context owns it.
class CallWatch final : public grpc::experimental::Interceptor {
 public:
  CallWatch(std::shared_ptr<UnreadCalls> calls,
            const grpc::ServerContextBase* context, uint64_t bytes)
      : calls_(std::move(calls)), context_(context), bytes_(bytes) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    using grpc::experimental::InterceptionHookPoints;
    const auto has = [batch](InterceptionHookPoints point) {
      return batch->QueryInterceptionHookPoint(point);
    };
    if (const auto connection = context_->auth_context()) {
      // A client that sends more messages has still begun one call.
      if (has(InterceptionHookPoints::POST_RECV_MESSAGE) &&
          !std::exchange(arrived_, true)) {
        calls_->Arrive(*connection, context_->peer(), bytes_);
      }
      if (has(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
        // gRPC makes these bytes here instead of afterwards, and once.
        const grpc::ByteBuffer* const bytes = batch->GetSerializedSendMessage();
        calls_->Answer(*connection, context_->peer(),
                       bytes == nullptr ? 0 : bytes->Length());
      }
    }
    batch->Proceed();
  }

 private:
  const std::shared_ptr<UnreadCalls> calls_;
  const grpc::ServerContextBase* const context_;
  const uint64_t bytes_;
  bool arrived_ = false;
};

}  // namespace

grpc::experimental::Interceptor* ArrivalWatch::CreateServerInterceptor(
    grpc::experimental::ServerRpcInfo* info) {
  const bool image = std::string_view(info->method()) == kImageMethod;
  return new CallWatch(calls_, info->server_context(),
                       image ? kImageCallBytes : kCallBytes);
}

}  // namespace carillon::gpud
