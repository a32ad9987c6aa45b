#include "tools/testbed/client/faults_client.h"

#include <utility>

#include "base/status.h"
#include "proto/faults.grpc.pb.h"
#include "shm/faults/fault_message.h"
#include "tools/testbed/client/gpud_channel.h"

namespace carillon::testbed {
namespace {

// An injection waits until every process has noticed it.
constexpr std::chrono::milliseconds kTimeout{10'000};

}  // namespace

struct FaultsClient::Channel : GpudChannel {
  explicit Channel(RemoteGpud gpud)
      : GpudChannel(std::move(gpud)), faults(v1::Faults::NewStub(channel())) {}
  const std::unique_ptr<v1::Faults::Stub> faults;
};

FaultsClient::FaultsClient(RemoteGpud gpud)
    : channel_(std::make_unique<Channel>(std::move(gpud))) {}

FaultsClient::~FaultsClient() = default;

absl::StatusOr<v1::ListFaultsResponse> FaultsClient::List() {
  v1::ListFaultsResponse response;
  RETURN_IF_ERROR(channel_->Call(*channel_->faults, &v1::Faults::Stub::List,
                                 "List", v1::ListFaultsRequest(), &response,
                                 kTimeout));
  return response;
}

absl::StatusOr<v1::InjectResponse> FaultsClient::Inject(
    std::span<const faults::Fault> faults) {
  v1::InjectRequest request;
  for (const faults::Fault& fault : faults) {
    *request.add_faults() = ToMessage(fault);
  }
  v1::InjectResponse response;
  RETURN_IF_ERROR(channel_->Call(*channel_->faults, &v1::Faults::Stub::Inject,
                                 "Inject", request, &response, kTimeout));
  return response;
}

absl::StatusOr<uint32_t> FaultsClient::Clear(const std::string& name) {
  v1::ClearFaultsRequest request;
  request.set_name(name);
  v1::ClearFaultsResponse response;
  RETURN_IF_ERROR(channel_->Call(*channel_->faults, &v1::Faults::Stub::Clear,
                                 "Clear", request, &response, kTimeout));
  return response.cleared();
}

}  // namespace carillon::testbed
