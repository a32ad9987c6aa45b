// Counts the calls of each connection over TCP that have begun and whose
// message has not come.
//
// gRPC holds a client to GRPC_ARG_MAX_CONCURRENT_STREAMS only once it has
// acknowledged the server's SETTINGS, and each call that has begun takes some
// 15 KB. gpud cannot see HTTP/2's frames in TLS, but it sees every call twice:
// RoleGate when it begins, an interceptor when its message is there.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_UNREAD_CALLS_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_UNREAD_CALLS_H_

#include <grpcpp/security/auth_context.h>
#include <grpcpp/support/server_interceptor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/mutex.h"

namespace carillon::gpud {

// Thread safe.
class UnreadCalls {
 public:
  // A client may have half as many calls at a time. The others are for calls
  // that it gave up before they came.
  static constexpr uint32_t kMaxUnread = 128;

  struct Callbacks {
    // A call of a connection has come whole, or what belongs to one, of at most
    // so many bytes.
    std::function<void(const std::string& grpc_peer, uint64_t bytes)> served;
    // A connection must end: TcpListener::CutFlood().
    std::function<void(const std::string& grpc_peer)> cut;
  };

  explicit UnreadCalls(Callbacks callbacks)
      : callbacks_(std::move(callbacks)) {}

  // A call begins on a connection, which this marks in its `context`. Returns
  // false if it has too many; the connection is then cut. An honest client,
  // which has given up many calls, makes a new one.
  bool Begin(grpc::AuthContext* context);
  // Its message has come, and had at most so many bytes.
  void Arrive(const grpc::AuthContext& context, const std::string& grpc_peer,
              uint64_t bytes);
  // A message of so many bytes goes to a connection, which answers it with flow
  // control.
  void Answer(const grpc::AuthContext& context, const std::string& grpc_peer,
              uint64_t bytes);

 private:
  // Far more than connections can be open. An older one than so many loses its
  // place and is refused.
  static constexpr size_t kPlaces = 4096;
  struct Place {
    uint64_t connection = 0;
    uint32_t unread = 0;
    std::string grpc_peer;  // once a call was served
  };

  const Callbacks callbacks_;
  Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::array<Place, kPlaces> places_ ABSL_GUARDED_BY(mutex_);
};

// Tells `calls` of every call whose message has come, and of every message that
// goes out.
class ArrivalWatch final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit ArrivalWatch(std::shared_ptr<UnreadCalls> calls)
      : calls_(std::move(calls)) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override;

 private:
  const std::shared_ptr<UnreadCalls> calls_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_UNREAD_CALLS_H_
