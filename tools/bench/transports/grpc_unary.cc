#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstring>
#include <memory>

#include "fmt/format.h"
#include "tools/bench/transports/echo.grpc.pb.h"
#include "tools/bench/transports/transports.h"

namespace carillon::bench {
namespace {

// What has ended, from a completion queue; false after kPatience without any.
// A queue is polled by the thread that asks it, so that only the deadline says
// whether that thread sleeps.
bool NextOf(grpc::CompletionQueue& queue, void** tag, bool* ok, Wait wait,
            std::chrono::nanoseconds spin) {
  const auto next = [&](std::chrono::system_clock::time_point deadline) {
    return queue.AsyncNext(tag, ok, deadline) ==
           grpc::CompletionQueue::GOT_EVENT;
  };
  return WaitUntil(
      wait, spin, [&] { return next(std::chrono::system_clock::time_point()); },
      [&] { return next(std::chrono::system_clock::now() + kPatience); });
}

// A call that the server expects, then has, then has answered.
struct ServerCall {
  grpc::ServerContext context;
  EchoMessage request;
  grpc::ServerAsyncResponseWriter<EchoMessage> writer{&context};
  bool answered = false;
};

absl::Status Serve(const std::string& directory, Wait wait,
                   AnnounceReady ready) {
  const std::string endpoint = "unix:" + directory + "/grpc";
  Echo::AsyncService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(endpoint, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const auto queue = builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return absl::InternalError("gRPC server: no start");
  // Each call is its own tag, and is deleted when its tag says that it is over.
  const auto expect_call = [&] {
    auto* const call = new ServerCall;
    service.RequestCall(&call->context, &call->request, &call->writer,
                        queue.get(), queue.get(), call);
  };
  for (uint32_t i = 0; i < kMaxWindow; ++i) expect_call();
  ready(endpoint);
  while (true) {
    void* tag;
    bool ok;
    if (!NextOf(*queue, &tag, &ok, wait, kServerSpin)) continue;
    auto* const call = static_cast<ServerCall*>(tag);
    if (!ok || call->answered) {
      delete call;
      continue;
    }
    expect_call();
    call->answered = true;
    call->writer.Finish(call->request, grpc::Status::OK, call);
  }
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

class GrpcClient final : public Client {
 public:
  GrpcClient(std::shared_ptr<grpc::Channel> channel, Wait wait)
      : stub_(Echo::NewStub(channel)), wait_(wait) {}
  ~GrpcClient() override {
    queue_.Shutdown();
    void* tag;
    bool ok;
    while (queue_.Next(&tag, &ok)) delete static_cast<PendingCall*>(tag);
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
    if (!NextOf(queue_, &tag, &ok, wait_, kClientSpin)) return Silent();
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
  const Wait wait_;
};

absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& endpoint,
                                                Wait wait) {
  auto channel =
      grpc::CreateChannel(endpoint, grpc::InsecureChannelCredentials());
  if (!channel->WaitForConnected(std::chrono::system_clock::now() +
                                 kPatience)) {
    return absl::UnavailableError("gRPC does not connect");
  }
  return std::make_unique<GrpcClient>(std::move(channel), wait);
}

}  // namespace

Transport GrpcUnary() {
  return {.name = "grpc_unary",
          .label = "gRPC unary over a Unix socket",
          .serve = &Serve,
          .connect = &Connect};
}

}  // namespace carillon::bench
