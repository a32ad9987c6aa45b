#include "gpu_daemon/control/rpc/bounded_service.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>

#include <string_view>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/sessions/module_request.h"
#include "shm/layout.h"

namespace carillon::gpud {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using grpc::internal::MethodHandler;
using grpc::internal::RpcMethod;

// A kernel's parameters have at least 4 bytes each; their bindings have names.
constexpr RequestBounds Launch(int parameters_field) {
  return {.bytes = 128 << 10,
          .repeated_field = parameters_field,
          .repetitions = shm::kMaxParameterBytes / 4};
}

class SliceReader final : public google::protobuf::io::CopyingInputStream {
 public:
  explicit SliceReader(grpc_byte_buffer* buffer) {
    grpc_byte_buffer_reader_init(&reader_, buffer);
  }
  ~SliceReader() override { grpc_byte_buffer_reader_destroy(&reader_); }

  int Read(void* to, int size) override {
    while (rest_.empty()) {
      grpc_slice* slice = nullptr;
      if (grpc_byte_buffer_reader_peek(&reader_, &slice) == 0) return 0;
      rest_ = {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(*slice)),
               GRPC_SLICE_LENGTH(*slice)};
    }
    const size_t read = rest_.copy(static_cast<char*>(to), size);
    rest_.remove_prefix(read);
    return static_cast<int>(read);
  }

 private:
  grpc_byte_buffer_reader reader_;
  std::string_view rest_;
};

// Walks over a message's fields without unpacking them.
absl::Status CheckFields(const char* method, const RequestBounds& bounds,
                         google::protobuf::io::ZeroCopyInputStream* stream) {
  CodedInputStream input(stream);
  size_t long_bytes = 0;
  size_t repetitions = 0;
  int begin = 0;
  while (const uint32_t tag = input.ReadTag()) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    if (!WireFormatLite::SkipField(&input, tag)) break;
    const int end = input.CurrentPosition();
    if (field == bounds.long_field) long_bytes += end - begin;
    if (field == bounds.repeated_field) ++repetitions;
    begin = end;
    if (bounds.repeated_field != 0 && repetitions > bounds.repetitions) {
      return Error(absl::StatusCode::kInvalidArgument,
                   fmt::format("{}: field {} occurs more than {} times: that "
                               "is the limit",
                               method, field, bounds.repetitions),
                   reason::kBadCount);
    }
    if (bounds.long_field != 0 &&
        static_cast<size_t>(end) - long_bytes > bounds.bytes) {
      return Error(absl::StatusCode::kInvalidArgument,
                   fmt::format("{}: a request of more than {} bytes beside its "
                               "field {}: that is the limit",
                               method, bounds.bytes, bounds.long_field),
                   reason::kBadSize);
    }
  }
  return absl::OkStatus();
}

class BoundedHandler final : public MethodHandler {
 public:
  BoundedHandler(const char* method, const RequestBounds& bounds,
                 std::unique_ptr<MethodHandler> handler)
      : method_(method), bounds_(bounds), handler_(std::move(handler)) {}

  // gRPC's own handler has the request destroyed; so must this one.
  void* Deserialize(grpc_call* call, grpc_byte_buffer* request,
                    grpc::Status* status, void** data) override {
    // A call without a message is refused by gRPC.
    const absl::Status checked = request == nullptr
                                     ? absl::OkStatus()
                                     : CheckRequest(method_, bounds_, request);
    if (checked.ok()) {
      return handler_->Deserialize(call, request, status, data);
    }
    grpc_byte_buffer_destroy(request);
    // RunHandler(), which has the call's context, makes the error whole.
    *status = grpc::Status(static_cast<grpc::StatusCode>(checked.code()),
                           std::string(checked.message()),
                           DetailOf(checked).reason());
    return nullptr;
  }

  void RunHandler(const HandlerParameter& parameter) override {
    if (parameter.status.ok() || parameter.status.error_details().empty()) {
      return handler_->RunHandler(parameter);
    }
    const grpc::Status& refused = parameter.status;
    handler_->RunHandler(HandlerParameter(
        parameter.call, parameter.server_context, nullptr,
        ToGrpc(Error(static_cast<absl::StatusCode>(refused.error_code()),
                     refused.error_message(), refused.error_details()),
               static_cast<grpc::ServerContext*>(parameter.server_context)),
        parameter.internal_data, parameter.call_requester));
  }

 private:
  const char* const method_;
  const RequestBounds bounds_;
  const std::unique_ptr<MethodHandler> handler_;
};

}  // namespace

absl::Status CheckRequest(const char* method, const RequestBounds& bounds,
                          grpc_byte_buffer* request) {
  const size_t limit = bounds.bytes + bounds.long_bytes;
  if (const size_t bytes = grpc_byte_buffer_length(request); bytes > limit) {
    return Error(absl::StatusCode::kInvalidArgument,
                 fmt::format("{}: a request of {} bytes: the limit is {}",
                             method, bytes, limit),
                 reason::kBadSize);
  }
  if (bounds.long_field == 0 && bounds.repeated_field == 0) {
    return absl::OkStatus();
  }
  SliceReader reader(request);
  google::protobuf::io::CopyingInputStreamAdaptor stream(&reader);
  return CheckFields(method, bounds, &stream);
}

void BoundedService::Add(const char* path, RpcMethod::RpcType type,
                         std::unique_ptr<MethodHandler> handler,
                         const RequestBounds& bounds) {
  AddMethod(new grpc::internal::RpcServiceMethod(
      path, type, new BoundedHandler(path, bounds, std::move(handler))));
}

template <class Implementation, class Base, class Request, class Response>
void BoundedService::Add(const char* path, Implementation* service,
                         grpc::Status (Base::*method)(grpc::ServerContext*,
                                                      const Request*,
                                                      Response*),
                         const RequestBounds& bounds) {
  using Handler =
      grpc::internal::RpcMethodHandler<Base, Request, Response,
                                       google::protobuf::MessageLite,
                                       google::protobuf::MessageLite>;
  Add(path, RpcMethod::NORMAL_RPC,
      std::make_unique<Handler>(
          [method](Base* base, grpc::ServerContext* context,
                   const Request* request, Response* response) {
            return (base->*method)(context, request, response);
          },
          service),
      bounds);
}

template <class Implementation, class Request, class Response>
void BoundedService::AddStream(
    const char* path, Implementation* service,
    grpc::Status (Implementation::*method)(grpc::ServerContext*, const Request*,
                                           grpc::ServerWriter<Response>*)) {
  using Handler =
      grpc::internal::ServerStreamingHandler<Implementation, Request, Response>;
  Add(path, RpcMethod::SERVER_STREAMING,
      std::make_unique<Handler>(
          [method](Implementation* of, grpc::ServerContext* context,
                   const Request* request,
                   grpc::ServerWriter<Response>* writer) {
            return (of->*method)(context, request, writer);
          },
          service),
      {});
}

BoundedAdmin::BoundedAdmin(AdminService* admin) {
#define ADD(name) Add("/carillon.v1.Admin/" #name, admin, &AdminService::name)
  ADD(GetStatus);
  ADD(ListDevices);
  ADD(ListEkt);
  ADD(ListRings);
  ADD(ListQueues);
  ADD(SetPolicy);
  ADD(ResetStatistics);
  ADD(SetTracing);
  ADD(Drain);
  ADD(Shutdown);
#undef ADD
  Add("/carillon.v1.Admin/RegisterModule", admin, &AdminService::RegisterModule,
      {.bytes = 1 << 20,
       .long_field = v1::RegisterModuleRequest::kImageFieldNumber,
       .long_bytes = kMaxImageBytes,
       .repeated_field = v1::RegisterModuleRequest::kKernelsFieldNumber,
       .repetitions = kMaxKernelsOfAFile});
  AddStream("/carillon.v1.Admin/Watch", admin, &AdminService::Watch);
  AddStream("/carillon.v1.Admin/StreamSnapshots", admin,
            &AdminService::StreamSnapshots);
}

BoundedDevices::BoundedDevices(DevicesService* devices) {
  Add("/carillon.v1.Devices/Attach", devices, &DevicesService::Attach);
  Add("/carillon.v1.Devices/ReportReady", devices,
      &DevicesService::ReportReady);
  Add("/carillon.v1.Devices/Detach", devices, &DevicesService::Detach);
}

BoundedEvents::BoundedEvents(EventsService* events) {
#define PATH(name) "/carillon.v1.Events/" #name, events, &EventsService::name
  Add(PATH(ListKernels));
  Add(PATH(AllocateBuffer));
  Add(PATH(FreeBuffer));
  Add(PATH(RegisterEvent),
      Launch(v1::RegisterEventRequest::kParametersFieldNumber));
  Add(PATH(UnregisterEvent));
  Add(PATH(ScheduleEvent));
  Add(PATH(ReleaseBarrier));
  Add(PATH(LaunchKernel),
      Launch(v1::LaunchKernelRequest::kParametersFieldNumber));
  Add(PATH(Copy));
#undef PATH
}

BoundedFaults::BoundedFaults(FaultsService* faults) {
  Add("/carillon.v1.Faults/Inject", faults, &FaultsService::Inject);
  Add("/carillon.v1.Faults/List", faults, &FaultsService::List);
  Add("/carillon.v1.Faults/Clear", faults, &FaultsService::Clear);
}

}  // namespace carillon::gpud
