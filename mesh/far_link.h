// The far end of a link and its thread, which listens for the near one; the
// connections are near_link.h's.
#ifndef CARILLON_MESH_FAR_LINK_H_
#define CARILLON_MESH_FAR_LINK_H_

#include <poll.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/tls_files.h"
#include "base/unique_fd.h"
#include "mesh/fair_lock.h"
#include "mesh/far_end.h"
#include "mesh/link_engine.h"
#include "mesh/link_options.h"
#include "mesh/link_sockets.h"
#include "mesh/link_status.h"
#include "mesh/pulse.h"
#include "mesh/tls_stream.h"
#include "mesh/ucx_library.h"

namespace carillon::mesh {

// Thread safe, as NearLink. Serves one near host.
class FarLink {
 public:
  struct Settings {
    TlsFiles tls;
    std::string address;  // where to listen, in numbers; port 0: any free one
    LinkOptions link;
    Engine engine = Engine::kTls;
  };

  // Errors: InvalidArgument: as NearLink::Start(); Unavailable: the address
  // is in use, or is not this machine's; FailedPrecondition: as above.
  static absl::StatusOr<std::unique_ptr<FarLink>> Start(
      const Settings& settings, FarHost* host);
  // The rings are the host's from now on.
  ~FarLink();

  void With(const std::function<void(FarEnd&)>& use);

  // Where it listens: "127.0.0.1:40123".
  const std::string& address() const { return address_; }
  LinkStatus status();

 private:
  enum class Stage { kHandshake, kHello, kServed, kRefused };
  struct Peer;

  FarLink(TlsContext context, std::shared_ptr<UcxContext> ucx,
          UniqueFd listener, std::string address, LinkOptions link,
          FarHost* host);
  void Run();
  void AcceptAll();
  // Does what can be done now. Errors: why the connection is to end.
  absl::Status Step(Peer& peer);
  absl::Status Greet(Peer& peer);
  // Of UCX: gives the peer a ticket.
  absl::Status Admit(Peer& peer, const Meet& asked);
  absl::Status Serve(Peer& peer);
  // Whoever is stopped reads late what came meanwhile, also the end of a
  // connection.
  void NoteStop();
  // `when`, unless this process was stopped then.
  void GoDown(Nanoseconds when) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<pollfd> Descriptors();
  absl::Status SayWhyNot(Peer& peer);
  // To another host than the one that this link is for.
  Refusal Misdirected(std::string_view why) const;
  void Refuse(Peer& peer, const Refusal& refusal);
  void End(Peer& peer, const absl::Status& why);

  const TlsContext context_;
  const std::shared_ptr<UcxContext> ucx_;  // null: the engine is tls
  const UniqueFd listener_;
  const std::string address_;
  const LinkOptions link_;
  const Alarm alarm_;
  std::atomic<bool> stop_{false};  // written by the destructor, read by thread_
  std::span<char> buffer_;         // of thread_: for what has come
  // Of thread_: when it last looked whether this process was stopped; and since
  // when it was, for as long as the end of a connection may be of that time; and
  // when it went on.
  Nanoseconds looked_at_ = NowNs();
  std::optional<Nanoseconds> stopped_at_;
  Nanoseconds went_on_at_ = 0;
  // Of thread_; the streams and `out` of those that are served: of mutex_.
  std::list<std::unique_ptr<Peer>> peers_;
  Mutex mutex_;
  FairLock fair_;                                   // of With() and status()
  Peer* served_ ABSL_GUARDED_BY(mutex_) = nullptr;  // the newest; null: none
  std::string from_ ABSL_GUARDED_BY(mutex_);        // whence that one has come
  FarEnd far_ ABSL_GUARDED_BY(mutex_);
  LinkStatus status_ ABSL_GUARDED_BY(mutex_);
  DownTime down_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_FAR_LINK_H_
