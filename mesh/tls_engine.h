// Carries a link. Each end is a thread that connects again for as long as the
// link is not lost. A connection is one of TCP with mutual TLS 1.3; with the
// engine `tls` the frames go there, and with `ucx` by UCX (mesh/ucx_stream.h).
#ifndef CARILLON_MESH_TLS_ENGINE_H_
#define CARILLON_MESH_TLS_ENGINE_H_

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/host_port.h"
#include "base/mutex.h"
#include "base/tls_files.h"
#include "base/unique_fd.h"
#include "mesh/far_end.h"
#include "mesh/link_engine.h"
#include "mesh/link_options.h"
#include "mesh/near_end.h"
#include "mesh/pulse.h"
#include "mesh/tls_stream.h"
#include "mesh/turns.h"
#include "mesh/ucx_library.h"
#include "mesh/ucx_stream.h"

namespace carillon::mesh {

// To be shown: where a link stands.
struct LinkStatus {
  bool up = false;
  bool lost = false;               // of the near end: for good
  bool fenced = false;             // of the near end: a newer one has come
  uint64_t connections = 0;        // that came up, so far
  uint64_t refused = 0;            // that did not
  std::string error;               // of the last one that did not, or has ended
  std::string refusal;             // of the last one that an end refused
  uint64_t downs = 0;              // how often it went down
  Nanoseconds down = 0;            // for how long in all
  std::optional<Nanoseconds> rtt;  // the median of the last pings
  std::optional<ClockSample> clock;  // of the near end: the far end's
  uint64_t in_flight = 0;  // events that are rung and not stored, or freed
  // Of the near end: events that were sent again on a later connection.
  uint64_t replayed = 0;
  // Of the far end: how often a near host took the place of another one of its
  // name that was still there; and of the last one, whose.
  uint64_t takeovers = 0;
  std::string takeover;
};

// What of LinkStatus a link that is lost hands on to the next one.
struct LinkHistory {
  uint64_t connections = 0;
  uint64_t refused = 0;
  uint64_t replayed = 0;
  DownTime down = {};
};

// Wakes a thread that polls.
class Alarm {
 public:
  Alarm();
  void Ring() const;
  void Clear() const;
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

// Thread safe. The host's functions are called in the link's thread, or in that of
// With()'s caller, under the link's lock: they must not call the link.
class TlsNearLink {
 public:
  struct Settings {
    TlsFiles tls;
    std::string address;  // of the far end: "10.0.0.5:4711", in numbers
    LinkOptions link;
    Engine engine = Engine::kTls;
    LinkHistory history = {};  // of the link before
  };

  // Whether the other end is there, does not matter: see status(). Errors:
  // InvalidArgument: the files, or the address; FailedPrecondition: there is no
  // UCX, and what to do.
  static absl::StatusOr<std::unique_ptr<TlsNearLink>> Start(
      const Settings& settings, NearHost* host);
  // The events in flight are left to the far end.
  ~TlsNearLink();

  // Calls `use` with the near end, and sends what there is then: the caller's
  // thread does, as far as the connection takes it at once, and the link's all
  // that is more than kWriteBytes.
  void With(const std::function<void(NearEnd&)>& use);

  LinkStatus status();
  // It is down from now on, if it was ever up.
  LinkHistory history();

 private:
  TlsNearLink(TlsContext context, std::shared_ptr<UcxContext> ucx,
              HostPort address, const Settings& settings, NearHost* host);
  void Run();
  // One connection, from its beginning to its end; why it has ended.
  absl::Status Connect();
  absl::StatusOr<UniqueFd> Dial(Nanoseconds deadline);
  // Of UCX: asks the far end for a ticket.
  absl::StatusOr<std::unique_ptr<UcxStream>> Meet(TlsStream& stream,
                                                  Nanoseconds deadline);
  absl::Status Serve(LinkStream& stream, Epoch epoch);
  // What can be done now; `wait`: for which events there is to be a wait, unless
  // there is more to do.
  absl::Status Step(Epoch epoch, std::span<char> buffer,
                    std::optional<short>* wait)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for the descriptor, or the alarm, or the time of the next look.
  void Wait(int fd, short events, Nanoseconds until);
  bool IsOver();

  const TlsContext context_;
  const std::shared_ptr<UcxContext> ucx_;  // null: the engine is tls
  const HostPort address_;
  const LinkOptions link_;
  const uint64_t replayed_before_;  // by the links before
  const Alarm alarm_;
  std::atomic<bool> stop_{false};  // written by the destructor, read by thread_
  Mutex mutex_;
  Turns turns_;  // of With() and status()
  NearEnd near_ ABSL_GUARDED_BY(mutex_);
  LinkStatus status_ ABSL_GUARDED_BY(mutex_);
  // Of the connection that is served; null: none is.
  LinkStream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::string out_ ABSL_GUARDED_BY(mutex_);  // chosen, and not yet written
  bool counted_ ABSL_GUARDED_BY(mutex_) = false;
  DownTime down_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// Thread safe, as above. Serves one near host.
class TlsFarLink {
 public:
  struct Settings {
    TlsFiles tls;
    std::string address;  // where to listen, in numbers; port 0: any free one
    LinkOptions link;
    Engine engine = Engine::kTls;
  };

  // Errors: InvalidArgument: the files, or the address; Unavailable: the address
  // is in use, or is not this machine's; FailedPrecondition: as above.
  static absl::StatusOr<std::unique_ptr<TlsFarLink>> Start(
      const Settings& settings, FarHost* host);
  // The rings are the host's from now on.
  ~TlsFarLink();

  void With(const std::function<void(FarEnd&)>& use);

  // Where it listens: "127.0.0.1:40123".
  const std::string& address() const { return address_; }
  LinkStatus status();

 private:
  enum class Stage { kHandshake, kHello, kServed, kRefused };
  struct Peer;

  TlsFarLink(TlsContext context, std::shared_ptr<UcxContext> ucx,
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
  // Of thread_; the streams and `out` of those that are served: of mutex_.
  std::list<std::unique_ptr<Peer>> peers_;
  Mutex mutex_;
  Turns turns_;                                     // of With() and status()
  Peer* served_ ABSL_GUARDED_BY(mutex_) = nullptr;  // the newest; null: none
  std::string from_ ABSL_GUARDED_BY(mutex_);        // whence that one has come
  FarEnd far_ ABSL_GUARDED_BY(mutex_);
  LinkStatus status_ ABSL_GUARDED_BY(mutex_);
  DownTime down_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_TLS_ENGINE_H_
