// A client of etcd (https://etcd.io, API v3): keys that go when their lease ends.
#ifndef CARILLON_MESH_ETCD_ETCD_H_
#define CARILLON_MESH_ETCD_ETCD_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tls_files.h"

namespace etcdserverpb {
class TxnRequest;
class TxnResponse;
}  // namespace etcdserverpb

namespace carillon::mesh {

// Thread safe. Each call asks one member after another until one answers, each
// for at most two seconds, and begins with the one that answered last; one that did
// not answer is dialled anew when it is asked again. Errors of all calls:
// Unavailable (none answers), PermissionDenied, Internal (etcd's own words).
class Etcd {
 public:
  using LeaseId = int64_t;

  // `members`: "http://HOST:PORT", "https://HOST:PORT" or "unix:PATH"; `pems`
  // are for https, and so is `name`: what the members' certificate is of, where
  // that is not their HOST. Does not connect yet. Errors: InvalidArgument (no
  // address).
  static absl::StatusOr<std::unique_ptr<Etcd>> Make(
      const std::vector<std::string>& members, const TlsPems& pems,
      const std::string& name = "");
  ~Etcd();

  // etcd may grant more than is asked for.
  absl::StatusOr<LeaseId> GrantLease(std::chrono::seconds length);
  // The length counts from now. Errors: also NotFound (the lease has ended).
  absl::Status KeepAlive(LeaseId lease);
  // The lease ends now, and its keys go.
  absl::Status Revoke(LeaseId lease);

  struct Entry {
    std::string value;
    int64_t created = 0;  // the revision of etcd in which the key came
    LeaseId lease = 0;    // 0: none
  };
  // Puts a key that is not there. What the key is then: its lease says whose.
  // Errors: also NotFound (the lease has ended).
  absl::StatusOr<Entry> PutNew(std::string_view key, std::string_view value,
                               LeaseId lease);
  // Of a key that was created in this revision. False: it is gone, or is
  // another one now. Errors: as PutNew().
  absl::StatusOr<bool> Replace(std::string_view key, std::string_view value,
                               LeaseId lease, int64_t created);
  // Whatever the key was. Errors: as PutNew().
  absl::Status Put(std::string_view key, std::string_view value,
                   LeaseId lease = 0);
  absl::Status Delete(std::string_view key);
  // Keys that begin so.
  absl::StatusOr<std::map<std::string, Entry>> List(std::string_view prefix);

 private:
  using Channel = std::shared_ptr<grpc::Channel>;
  class Member;
  using Call =
      std::function<grpc::Status(const Channel&, grpc::ClientContext&)>;

  explicit Etcd(std::vector<std::unique_ptr<Member>> members);
  absl::Status Ask(const Call& call) const;
  absl::Status Try(const etcdserverpb::TxnRequest& request,
                   etcdserverpb::TxnResponse* response) const;

  const std::vector<std::unique_ptr<Member>> members_;
  // Which answered last. Relaxed: any is right, and it saves others' silence.
  mutable std::atomic<size_t> answered_{0};
};

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_ETCD_ETCD_H_
