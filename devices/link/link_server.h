// The far end's host: for each device of the other host one of its own name in
// this host's testbed, which rings for it.
#ifndef CARILLON_DEVICES_LINK_LINK_SERVER_H_
#define CARILLON_DEVICES_LINK_LINK_SERVER_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "devices/link/link_figures.h"
#include "devices/link/linkd_options.h"
#include "devices/link/linked_ring.h"
#include "devices/sdk/device_main.h"
#include "devices/sdk/edge.h"
#include "mesh/far_end.h"
#include "mesh/far_link.h"
#include "proto/link.pb.h"

namespace carillon::link {

// Three threads: the link's, in which events are rung; Run()'s, which takes
// completions and sees devices end; and one for all calls to gpud, which take as
// long as they take. What they share belongs to the link's lock.
class LinkServer final : private mesh::FarHost {
 public:
  // Waits for gpud. Errors: those of AttachSelf() and FarLink::Start().
  static absl::StatusOr<std::unique_ptr<LinkServer>> Start(
      const edge::DeviceContext& context, const LinkdOptions& options);
  ~LinkServer() override;

  // Until a stop is asked for. Errors: Unavailable: the testbed has gone down.
  absl::Status Run();

 private:
  // It goes with its last ring, in the thread of the calls.
  struct Client {
    std::unique_ptr<edge::Device> device;
    uint32_t rings = 0;  // of the thread of the calls
    bool ended = false;  // its rings are given up
  };
  struct Linked {
    mesh::RingSerial serial;
    uint64_t kept_bytes = 0;
    std::shared_ptr<Client> client;  // both null until it is made
    std::unique_ptr<LinkedRing> ring;
  };
  struct RingToMake {
    mesh::RingId id;
    mesh::RingSerial serial;
    v1::LinkRing wanted;
    mesh::RingLimits limits;
    shm::Sequence last;
  };
  struct RingToDrop {
    std::shared_ptr<Client> client;
    std::unique_ptr<LinkedRing> ring;  // null: it could not be made
    bool link_lost = false;            // which takes all rings
  };
  using Job = std::variant<RingToMake, RingToDrop>;

  LinkServer(const edge::DeviceContext& context, const LinkdOptions& options)
      : context_(context), options_(options) {}

  // The thread of the calls.
  void WorkOff();
  void Make(const RingToMake& wanted);
  void Drop(const RingToDrop& dropped);
  // The device of that name, attached if it is not there.
  absl::StatusOr<std::shared_ptr<Client>> ClientOf(const std::string& name);
  void AddJob(Job job);
  // What is said of a ring while gpud is not there.
  absl::Status Away() const;

  // Run()'s. Goes on with another gpud as linkd's own device. Errors: it cannot.
  absl::Status LookAfterSelf();
  // Says which events are done; false: none since the last time.
  bool TakeCompletions(mesh::FarEnd& far);
  // Gives up what a device had that has ended.
  void LookAfter(const std::string& name, Client& client, mesh::FarEnd& far);

  // mesh::FarHost: under the link's lock, in the link's thread or that of With()'s
  // caller.
  std::optional<absl::Status> MakeRing(mesh::RingId ring,
                                       mesh::RingSerial serial,
                                       const mesh::RingLimits& limits,
                                       shm::Sequence last) override;
  void RunEvent(mesh::RingId ring, shm::Sequence number,
                std::string_view event) override;
  void FlushRuns(mesh::RingId ring) override;
  mesh::End ReadEnd(mesh::RingId ring, shm::Sequence number,
                    std::string* output) override;
  void Free(mesh::RingId ring, shm::Sequence last) override;
  void DropRing(mesh::RingId ring, mesh::GoneReason why) override;

  const edge::DeviceContext& context_;
  const LinkdOptions options_;
  const mesh::Alarm changed_;  // there are other devices than before
  // Without rings: it shows that linkd is there.
  std::unique_ptr<edge::Device> self_;
  bool self_away_ = false;
  std::string catalogue_;  // what HELLO says
  LinkFigures figures_;
  // Changed by the thread of the calls, under the link's lock.
  std::map<std::string, std::shared_ptr<Client>> clients_;
  std::map<mesh::RingId, Linked> rings_;  // the link's lock
  uint64_t kept_bytes_ = 0;               // the same
  Mutex jobs_mutex_;                      // taken after the link's lock
  CondVar jobs_changed_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(jobs_mutex_);
  bool stop_ ABSL_GUARDED_BY(jobs_mutex_) = false;
  std::unique_ptr<mesh::FarLink> link_;
  std::thread calls_;
};

}  // namespace carillon::link

#endif  // CARILLON_DEVICES_LINK_LINK_SERVER_H_
