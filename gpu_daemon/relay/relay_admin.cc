#include "gpu_daemon/relay/relay_admin.h"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

// Answers a call, or refuses it, and deletes itself. The requests of both calls
// are empty, and nobody reads them.
class Answer final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Answer(const google::protobuf::Message& message) {
    const grpc::Slice slice(message.SerializeAsString());
    bytes_ = grpc::ByteBuffer(&slice, 1);
    StartWriteAndFinish(&bytes_, {}, grpc::Status::OK);
  }
  explicit Answer(grpc::Status refusal) { Finish(std::move(refusal)); }
  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer bytes_;
};

}  // namespace

grpc::ServerGenericBidiReactor* RelayAdmin::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  const std::string& method = context->method();
  const std::string name = method.substr(method.rfind('/') + 1);
  if (name == "GetStatus") return new Answer(answers_.status());
  if (name == "ListDevices") return new Answer(answers_.devices());
  return new Answer(
      ToGrpc(absl::UnimplementedError(fmt::format(
                 "{}: this host relays its devices to the GPU's host '{}' in "
                 "simulated time, whose gpud knows: ask there",
                 name, peer_)),
             context));
}

}  // namespace carillon::gpud
