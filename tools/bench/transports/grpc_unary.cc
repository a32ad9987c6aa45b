#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstring>
#include <memory>

#include "fmt/format.h"
#include "tools/bench/transports/echo.grpc.pb.h"
#include "tools/bench/transports/transports.h"

namespace carillon::bench {
namespace {

class EchoService final : public Echo::Service {
  grpc::Status Call(grpc::ServerContext*, const EchoMessage* request,
                    EchoMessage* reply) override {
    reply->set_body(request->body());
    return grpc::Status::OK;
  }
};

absl::Status Serve(const std::string& directory, AnnounceReady ready) {
  const std::string endpoint = "unix:" + directory + "/grpc";
  EchoService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(endpoint, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return absl::InternalError("gRPC server: no start");
  ready(endpoint);
  server->Wait();
  return absl::OkStatus();
}

absl::Status ToMessage(const grpc::Status& status, const EchoMessage& echo,
                       Message* reply) {
  if (!status.ok()) {
    return absl::InternalError(
        fmt::format("gRPC call: {}", status.error_message()));
  }
  if (echo.body().size() != sizeof(*reply)) {
    return absl::InternalError(
        fmt::format("a reply of {} bytes", echo.body().size()));
  }
  std::memcpy(reply, echo.body().data(), sizeof(*reply));
  return absl::OkStatus();
}

void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + kPatience);
}

// A single call is made in the usual, blocking way; many calls go through a
// completion queue.
class GrpcClient final : public Client {
 public:
  explicit GrpcClient(std::shared_ptr<grpc::Channel> channel)
      : stub_(Echo::NewStub(channel)) {}
  ~GrpcClient() override {
    queue_.Shutdown();
    void* tag;
    bool ok;
    while (queue_.Next(&tag, &ok)) delete static_cast<PendingCall*>(tag);
  }

  absl::Status RoundTrip(const Message& request, Message* reply) override {
    grpc::ClientContext context;
    SetDeadline(&context);
    EchoMessage asked, answered;
    asked.set_body(&request, sizeof(request));
    const grpc::Status status = stub_->Call(&context, asked, &answered);
    return ToMessage(status, answered, reply);
  }

  absl::Status Send(const Message& request) override {
    auto call = std::make_unique<PendingCall>();
    SetDeadline(&call->context);
    EchoMessage asked;
    asked.set_body(&request, sizeof(request));
    call->reader = stub_->AsyncCall(&call->context, asked, &queue_);
    PendingCall* const tag = call.release();  // back in Receive()
    tag->reader->Finish(&tag->reply, &tag->status, tag);
    return absl::OkStatus();
  }
  absl::Status Receive(Message* reply) override {
    void* tag;
    bool ok;
    if (!queue_.Next(&tag, &ok)) return absl::AbortedError("queue closed");
    const std::unique_ptr<PendingCall> call(static_cast<PendingCall*>(tag));
    return ToMessage(call->status, call->reply, reply);
  }

 private:
  struct PendingCall {
    grpc::ClientContext context;
    EchoMessage reply;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<EchoMessage>> reader;
  };

  const std::unique_ptr<Echo::Stub> stub_;
  grpc::CompletionQueue queue_;
};

absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& endpoint,
                                                std::chrono::nanoseconds) {
  auto channel =
      grpc::CreateChannel(endpoint, grpc::InsecureChannelCredentials());
  if (!channel->WaitForConnected(std::chrono::system_clock::now() +
                                 kPatience)) {
    return absl::UnavailableError("gRPC does not connect");
  }
  return std::make_unique<GrpcClient>(std::move(channel));
}

}  // namespace

Transport GrpcUnary() {
  return {.name = "grpc_unary",
          .label = "gRPC unary over a Unix socket",
          .serve = &Serve,
          .connect = &Connect};
}

}  // namespace carillon::bench
