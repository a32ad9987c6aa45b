// gRPC reads a request whole, and unpacks it, before it calls a service. A
// message of a few bytes a field unpacks to 43 times its size. So gpud registers
// its services in this form, which looks at a request's bytes first.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_BOUNDED_SERVICE_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_BOUNDED_SERVICE_H_

#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/method_handler.h>

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "gpu_daemon/control/rpc/admin_service.h"
#include "gpu_daemon/control/rpc/devices_service.h"
#include "gpu_daemon/control/rpc/events_service.h"
#include "gpu_daemon/control/rpc/faults_service.h"

namespace carillon::gpud {

// What a request may hold.
struct RequestBounds {
  size_t bytes = 16 << 10;
  // This field alone may be longer (0: none has a limit of its own): all others
  // together must keep to `bytes`.
  int long_field = 0;
  size_t long_bytes = 0;
  // This field occurs at most so often (0: no matter).
  int repeated_field = 0;
  size_t repetitions = 0;
};

// Errors: InvalidArgument BAD_SIZE, BAD_COUNT, naming the method; or OK also
// for bytes that are no message, which gRPC refuses.
absl::Status CheckRequest(const char* method, const RequestBounds& bounds,
                          grpc_byte_buffer* request);

// A service of gRPC's whose requests are checked.
class BoundedService : public grpc::Service {
 protected:
  // `path` lives as long as the program.
  template <class Implementation, class Base, class Request, class Response>
  void Add(const char* path, Implementation* service,
           grpc::Status (Base::*method)(grpc::ServerContext*, const Request*,
                                        Response*),
           const RequestBounds& bounds = {});
  // One whose answer is a stream.
  template <class Implementation, class Request, class Response>
  void AddStream(const char* path, Implementation* service,
                 grpc::Status (Implementation::*method)(
                     grpc::ServerContext*, const Request*,
                     grpc::ServerWriter<Response>*));
  void Add(const char* path, grpc::internal::RpcMethod::RpcType type,
           std::unique_ptr<grpc::internal::MethodHandler> handler,
           const RequestBounds& bounds);
};

class BoundedAdmin final : public BoundedService {
 public:
  explicit BoundedAdmin(AdminService* admin);
};
class BoundedDevices final : public BoundedService {
 public:
  explicit BoundedDevices(DevicesService* devices);
};
class BoundedEvents final : public BoundedService {
 public:
  explicit BoundedEvents(EventsService* events);
};
class BoundedFaults final : public BoundedService {
 public:
  explicit BoundedFaults(FaultsService* faults);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_BOUNDED_SERVICE_H_
