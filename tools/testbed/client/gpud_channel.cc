#include "tools/testbed/client/gpud_channel.h"

#include <utility>

#include "base/status.h"
#include "devices/sdk/rpc_status.h"
#include "devices/sdk/unix_target.h"
#include "fmt/format.h"

namespace carillon::testbed {
namespace {

constexpr std::chrono::milliseconds kDiagnosis{5000};
// gRPC's default of 4 MiB is too small for ListEkt: 1024 entries with four
// histograms each.
constexpr int kMaxMessageBytes = 64 << 20;

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  // Bring-up asks again at once, so a back-off of a second would be felt. The
  // "minimum" stays: it is how long an attempt to connect may take.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 10);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 50);
  // Do not share a channel with another client of this process.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // The environment's proxies are for the web.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  return arguments;
}

std::shared_ptr<grpc::ChannelCredentials> Credentials(const TlsPems& pems) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = pems.ca;
  tls.pem_private_key = pems.key;
  tls.pem_cert_chain = pems.certificate;
  return grpc::SslCredentials(tls);
}

}  // namespace

GpudChannel::GpudChannel(const std::string& socket)
    : where_(socket),
      channel_(grpc::CreateCustomChannel(edge::UnixTarget(socket),
                                         grpc::InsecureChannelCredentials(),
                                         Arguments())) {}

GpudChannel::GpudChannel(RemoteGpud gpud)
    : gpud_(std::move(gpud)),
      where_(gpud_->address.ToString()),
      channel_(grpc::CreateCustomChannel(
          "dns:" + where_, Credentials(gpud_->pems), Arguments())) {}

absl::Status GpudChannel::ToStatus(const grpc::Status& status,
                                   const grpc::ClientContext& context,
                                   std::string_view method,
                                   std::chrono::milliseconds timeout) const {
  const absl::Status told =
      edge::ToStatus(status, context, {method, where_, timeout});
  if (!remote() || !edge::ErrorReason(told).empty()) return told;
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE: {
      RETURN_IF_ERROR(Diagnose(*gpud_, kDiagnosis));
      return absl::UnavailableError(fmt::format(
          "gpud at {} broke off: {}", where_, status.error_message()));
    }
    case grpc::StatusCode::PERMISSION_DENIED:
      // The sentence names the method itself.
      return absl::PermissionDeniedError(status.error_message());
    default:
      return told;
  }
}

}  // namespace carillon::testbed
