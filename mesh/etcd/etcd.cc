#include "mesh/etcd/etcd.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/host_port.h"
#include "base/mutex.h"
#include "base/status.h"
#include "proto/etcd.grpc.pb.h"

namespace carillon::mesh {
namespace {

namespace pb = ::etcdserverpb;

// With a member, and with all of them: what keeps a lease alive must come round
// within it (5 s, each second anew), also where several say nothing.
constexpr std::chrono::milliseconds kPatience{2000};
constexpr std::chrono::milliseconds kPatienceWithAll{3000};

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  // A member's channel has connections of its own: a new one dials anew.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // The environment's proxies are for the web.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

absl::Status ToStatus(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return absl::OkStatus();
    case grpc::StatusCode::NOT_FOUND:
      return absl::NotFoundError(status.error_message());
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      return absl::PermissionDeniedError(
          fmt::format("etcd refuses: {}", status.error_message()));
    default:
      return absl::InternalError(
          fmt::format("etcd answers: {}", status.error_message()));
  }
}

// Whether another member may know better. One without a majority answers with
// the words of its own language.
bool IsAway(const grpc::Status& status) {
  return (status.error_code() == grpc::StatusCode::UNKNOWN &&
          status.error_message() == "context deadline exceeded") ||
         status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

// The first key that does not begin with `prefix`, and all that do not come
// before it.
std::string EndOf(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty()) {
    if (static_cast<uint8_t>(end.back()) < 0xff) {
      ++end.back();
      return end;
    }
    end.pop_back();
  }
  return std::string(1, '\0');  // etcd's word for all keys
}

void AddCondition(std::string_view key, int64_t created,
                  pb::TxnRequest& request) {
  pb::Compare& condition = *request.add_compare();
  condition.set_target(pb::Compare::CREATE);
  condition.set_key(std::string(key));
  condition.set_create_revision(created);
}

void AddPut(std::string_view key, std::string_view value, Etcd::LeaseId lease,
            pb::TxnRequest& request) {
  pb::PutRequest& put = *request.add_success()->mutable_request_put();
  put.set_key(std::string(key));
  put.set_value(std::string(value));
  put.set_lease(lease);
}

Etcd::Entry ToEntry(const pb::KeyValue& found) {
  return {.value = found.value(),
          .created = found.create_revision(),
          .lease = found.lease()};
}

}  // namespace

// gRPC's own ways back to a member are for programs that poll at all times. Between
// two calls nobody does so here, and nobody sees that an attempt has succeeded.
class Etcd::Member {
 public:
  Member(std::string name, std::string target,
         std::shared_ptr<grpc::ChannelCredentials> credentials,
         const grpc::ChannelArguments& arguments)
      : name_(std::move(name)),
        target_(std::move(target)),
        credentials_(std::move(credentials)),
        arguments_(arguments) {}

  const std::string& name() const { return name_; }

  Channel ChannelToAsk() {
    const MutexLock lock(mutex_);
    if (channel_ == nullptr) {
      channel_ = grpc::CreateCustomChannel(target_, credentials_, arguments_);
    }
    return channel_;
  }
  void DialAnew(const Channel& silent) {
    const MutexLock lock(mutex_);
    if (channel_ == silent) channel_ = nullptr;
  }

 private:
  const std::string name_;
  const std::string target_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  const grpc::ChannelArguments arguments_;
  Mutex mutex_;
  Channel channel_ ABSL_GUARDED_BY(mutex_);
};

Etcd::Etcd(std::vector<std::unique_ptr<Member>> members)
    : members_(std::move(members)) {}

Etcd::~Etcd() = default;

absl::StatusOr<std::unique_ptr<Etcd>> Etcd::Make(
    const std::vector<std::string>& members, const TlsPems& pems,
    const std::string& name) {
  grpc::ChannelArguments arguments = Arguments();
  if (!name.empty()) arguments.SetSslTargetNameOverride(name);
  if (members.empty()) {
    return absl::InvalidArgumentError("no address of an etcd is given");
  }
  std::vector<std::unique_ptr<Member>> made;
  for (const std::string& member : members) {
    std::string_view rest = member;
    const auto take = [&](std::string_view word) {
      if (!rest.starts_with(word)) return false;
      rest.remove_prefix(word.size());
      return true;
    };
    if (take("unix:") && !rest.empty()) {
      made.push_back(std::make_unique<Member>(
          member, member, grpc::InsecureChannelCredentials(), arguments));
      continue;
    }
    const bool tls = take("https://");
    if (!tls && !take("http://")) {
      return absl::InvalidArgumentError(
          fmt::format("{} is no address of an etcd: http://HOST:PORT, "
                      "https://HOST:PORT or unix:PATH is",
                      member));
    }
    if (rest.ends_with('/')) rest.remove_suffix(1);
    ASSIGN_OR_RETURN(const auto address, ReadHostPort(rest));
    std::shared_ptr<grpc::ChannelCredentials> credentials =
        grpc::InsecureChannelCredentials();
    if (tls) {
      grpc::SslCredentialsOptions options;
      options.pem_root_certs = pems.ca;
      options.pem_private_key = pems.key;
      options.pem_cert_chain = pems.certificate;
      credentials = grpc::SslCredentials(options);
    }
    made.push_back(std::make_unique<Member>(member, "dns:" + address.ToString(),
                                            credentials, arguments));
  }
  return std::unique_ptr<Etcd>(new Etcd(std::move(made)));
}

absl::Status Etcd::Ask(const Call& call) const {
  std::vector<std::string> reasons;
  const size_t first = answered_.load(std::memory_order_relaxed);
  const auto patience =
      std::min(kPatience, kPatienceWithAll / static_cast<int>(members_.size()));
  for (size_t i = 0; i < members_.size(); ++i) {
    const size_t index = (first + i) % members_.size();
    Member& member = *members_[index];
    const Channel channel = member.ChannelToAsk();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + patience);
    const grpc::Status status = call(channel, context);
    if (!IsAway(status)) {
      answered_.store(index, std::memory_order_relaxed);
      return ToStatus(status);
    }
    member.DialAnew(channel);
    reasons.push_back(
        fmt::format("{} ({})", member.name(), status.error_message()));
  }
  return absl::UnavailableError(
      fmt::format("etcd does not answer: {}{}", fmt::join(reasons, ", "),
                  members_.size() > 1 ? "; most of its members must run" : ""));
}

absl::StatusOr<Etcd::LeaseId> Etcd::GrantLease(std::chrono::seconds length) {
  pb::LeaseGrantRequest request;
  request.set_ttl(length.count());
  pb::LeaseGrantResponse response;
  RETURN_IF_ERROR(Ask([&](const Channel& channel,
                          grpc::ClientContext& context) {
    return pb::Lease::Stub(channel).LeaseGrant(&context, request, &response);
  }));
  return response.id();
}

absl::Status Etcd::KeepAlive(LeaseId lease) {
  pb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  pb::LeaseKeepAliveResponse response;
  RETURN_IF_ERROR(
      Ask([&](const Channel& channel, grpc::ClientContext& context) {
        pb::Lease::Stub stub(channel);
        const auto stream = stub.LeaseKeepAlive(&context);
        stream->Write(request);
        stream->WritesDone();
        const bool answered = stream->Read(&response);
        const grpc::Status status = stream->Finish();
        return answered ? grpc::Status::OK : status;
      }));
  if (response.ttl() > 0) return absl::OkStatus();
  return absl::NotFoundError(fmt::format("lease {:x} has ended", lease));
}

absl::Status Etcd::Revoke(LeaseId lease) {
  pb::LeaseRevokeRequest request;
  request.set_id(lease);
  pb::LeaseRevokeResponse response;
  return Ask([&](const Channel& channel, grpc::ClientContext& context) {
    return pb::Lease::Stub(channel).LeaseRevoke(&context, request, &response);
  });
}

absl::Status Etcd::Try(const pb::TxnRequest& request,
                       pb::TxnResponse* response) const {
  return Ask([&](const Channel& channel, grpc::ClientContext& context) {
    return pb::KV::Stub(channel).Txn(&context, request, response);
  });
}

absl::StatusOr<Etcd::Entry> Etcd::PutNew(std::string_view key,
                                         std::string_view value,
                                         LeaseId lease) {
  pb::TxnRequest request;
  AddCondition(key, 0, request);
  AddPut(key, value, lease, request);
  // A member may put it for us and die before it says so: the second try reads
  // what the first one put.
  for (auto* const all :
       {request.mutable_success(), request.mutable_failure()}) {
    all->Add()->mutable_request_range()->set_key(std::string(key));
  }
  pb::TxnResponse response;
  RETURN_IF_ERROR(Try(request, &response));
  for (const pb::ResponseOp& each : response.responses()) {
    for (const pb::KeyValue& found : each.response_range().kvs()) {
      return ToEntry(found);
    }
  }
  return absl::InternalError("etcd put a key and does not show it");
}

absl::StatusOr<bool> Etcd::Replace(std::string_view key, std::string_view value,
                                   LeaseId lease, int64_t created) {
  pb::TxnRequest request;
  AddCondition(key, created, request);
  AddPut(key, value, lease, request);
  pb::TxnResponse response;
  RETURN_IF_ERROR(Try(request, &response));
  return response.succeeded();
}

absl::Status Etcd::Put(std::string_view key, std::string_view value,
                       LeaseId lease) {
  pb::TxnRequest request;
  AddPut(key, value, lease, request);
  pb::TxnResponse response;
  return Try(request, &response);
}

absl::Status Etcd::Delete(std::string_view key) {
  pb::DeleteRangeRequest request;
  request.set_key(std::string(key));
  pb::DeleteRangeResponse response;
  return Ask([&](const Channel& channel, grpc::ClientContext& context) {
    return pb::KV::Stub(channel).DeleteRange(&context, request, &response);
  });
}

absl::StatusOr<std::map<std::string, Etcd::Entry>> Etcd::List(
    std::string_view prefix) {
  pb::RangeRequest request;
  request.set_key(prefix.empty() ? std::string(1, '\0') : std::string(prefix));
  request.set_range_end(EndOf(prefix));
  pb::RangeResponse response;
  RETURN_IF_ERROR(
      Ask([&](const Channel& channel, grpc::ClientContext& context) {
        return pb::KV::Stub(channel).Range(&context, request, &response);
      }));
  std::map<std::string, Entry> found;
  for (const pb::KeyValue& one : response.kvs()) {
    found[one.key()] = ToEntry(one);
  }
  return found;
}

}  // namespace carillon::mesh
