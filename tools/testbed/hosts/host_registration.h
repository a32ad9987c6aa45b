// A supervisor's place among the hosts of its testbed: a key in etcd that lives
// as long as it does.
#ifndef CARILLON_TOOLS_TESTBED_HOSTS_HOST_REGISTRATION_H_
#define CARILLON_TOOLS_TESTBED_HOSTS_HOST_REGISTRATION_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/tls_files.h"
#include "mesh/etcd/etcd.h"
#include "tools/testbed/hosts/host_record.h"
#include "tools/testbed/topology/topology.h"

namespace carillon::testbed {

inline constexpr std::chrono::seconds kHostLease{5};

// The files of `mesh: tls`.
TlsFiles MeshTls(const Topology& topology);
// Errors: those of ReadTlsFiles().
absl::StatusOr<std::unique_ptr<mesh::Etcd>> OpenEtcd(const Topology& topology);
// AlreadyExists: of the host of `topology.part`, which is up at `place`.
absl::Status HostIsUp(const Topology& topology, std::string_view place);
// FailedPrecondition: the testbed of that name in etcd has other hosts, or
// another one with the GPU, so it is another testbed. Of `found`, keys
// of that testbed, the oldest host of a supervisor says which testbed it is.
absl::Status CheckSameTestbed(
    const std::map<std::string, mesh::Etcd::Entry>& found,
    const Topology& topology);
// Of an etcd that the GPU's host starts, and that does not answer: OK, or what
// TLS has against it. Errors: those of mesh::FindTlsTrouble().
absl::Status ExplainSilence(const Topology& topology);
// On a host without the GPU, of an etcd that the GPU's host starts: waits until
// it answers. Errors: those of OpenEtcd(), of Etcd and of ExplainSilence();
// Cancelled (`stopped`).
absl::Status AwaitOwnEtcd(const Topology& topology,
                          std::chrono::milliseconds patience,
                          const std::function<void(const std::string&)>& say,
                          const std::function<bool()>& stopped);

// A thread keeps it alive, and shows the others what is published. Where etcd
// does not answer, all that runs goes on, and it is there again when etcd is.
class HostRegistration {
 public:
  struct Options {
    std::function<void(const std::string&)> say;  // from any thread
    // The testbed is to end, or this host is another's now. From its thread.
    std::function<void()> end;
  };

  // Takes the host of `topology.part`, and gives the links that are served
  // here an address where they have none. Errors: AlreadyExists (another
  // supervisor has this host), FailedPrecondition (the testbed is being taken
  // down), those of OpenEtcd(), of CheckSameTestbed() and of Etcd.
  static absl::StatusOr<std::unique_ptr<HostRegistration>> Take(
      Topology& topology, Options options);
  // The others see it go.
  ~HostRegistration();

  // On a host without the GPU: waits until the GPU's host is up, and takes the
  // link's address from it. Errors: DeadlineExceeded, Cancelled (`stopped`).
  absl::Status AwaitGpu(HostPart& part, std::chrono::milliseconds patience,
                        const std::function<bool()>& stopped);
  void Publish(const TestbedState& state);
  // What others read once it has gone.
  void NoteFailure(const absl::Status& failure);
  // Aborted: another supervisor has the host, which this one lost.
  absl::Status Judge() const;

 private:
  HostRegistration(std::unique_ptr<mesh::Etcd> etcd, const Topology& topology,
                   Options options);
  // Whose it is now, if it is not this one's. Errors: those of
  // CheckSameTestbed() and of Etcd.
  absl::StatusOr<std::string> Register(const std::string& value);
  void Keep();
  // One look at etcd, for Keep(). Errors: those of Etcd.
  absl::Status Look(bool changed, const std::string& value);
  // Whether the host's key is the one that was put. Errors: those of Etcd.
  absl::StatusOr<bool> IsMine();
  // Whether it is this host's turn to end: the devices' hosts go first, since
  // their events end on the GPU's. Errors: those of Etcd.
  absl::StatusOr<bool> MayEnd();
  void Lose(const std::string& place);
  void End(const std::string& why);

  const std::unique_ptr<mesh::Etcd> etcd_;
  const HostKeys keys_;
  const std::string host_;
  const Topology topology_;
  const Options options_;
  // Of the thread, once it runs.
  mesh::Etcd::LeaseId lease_ = 0;  // 0: none
  int64_t created_ = 0;
  bool ended_ = false;  // End() was called
  // By when the devices' hosts are to have gone.
  std::optional<std::chrono::steady_clock::time_point> last_call_;

  mutable Mutex mutex_;
  CondVar wake_;
  HostRecord record_ ABSL_GUARDED_BY(mutex_);
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;  // since it was put
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::string failure_ ABSL_GUARDED_BY(mutex_);
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
  std::thread keeper_;
};

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_HOSTS_HOST_REGISTRATION_H_
