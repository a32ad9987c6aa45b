// The near end of a link, on the device's host: it sends the events of rings, and
// takes their completions. A state machine without sockets, threads or clocks;
// link.pml is the model of one ring of it, without leases, CLOSE and fencing.
//
// A ring is the replay window: an event is read from its slot when it is sent,
// and again after a reconnect if the far end has not accepted it.
//
// A connection is an epoch. Out of Open() comes a new one, which ends with Cut().
// Whoever writes asks IsCurrent() first, or a frame that was chosen for one
// connection reaches the next.
#ifndef CARILLON_MESH_NEAR_END_H_
#define CARILLON_MESH_NEAR_END_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mesh/frame.h"
#include "mesh/link_options.h"
#include "mesh/parts.h"
#include "mesh/pulse.h"

namespace carillon::mesh {

// Whose rings they are. Calls come from within the near end's own functions.
class NearHost {
 public:
  virtual ~NearHost() = default;
  // Appends an event that was rung and is not stored: at most event_bytes.
  virtual void ReadEvent(RingId ring, shm::Sequence number,
                         std::string* to) = 0;
  // The end of an event; each comes once, in order. It is to be stored where a
  // later near end finds it. True: that is done; else NearEnd::Stored() says so
  // later.
  virtual bool TakeEnd(RingId ring, shm::Sequence number, const End& end) = 0;
  // All ends of one frame have been taken: time to tell whoever waits for them.
  virtual void FlushEnds() {}
  // The far end has answered that it has the ring: once on each connection.
  virtual void HoldRing(RingId) {}
  // The far end has no place for the ring, or none any more, and it is removed:
  // its events in flight are to be aborted. `why` is a sentence for people.
  // `passing`: or to be rung in another ring that is added later.
  virtual void LoseRing(RingId ring, const std::string& why, bool passing) = 0;
  // Once: the link is lost, no end comes any more, and all events in flight are
  // to be aborted. `why` is a sentence for people.
  virtual void LoseLink(const std::string& why) = 0;
};

// Not thread safe.
class NearEnd {
 public:
  // `host` must outlive it. The lease begins with `now`.
  NearEnd(LinkOptions options, NearHost* host, Nanoseconds now);

  // A ring whose events up to `stored` are completed, and up to `rung` rung.
  // Errors: InvalidArgument: limits that no link carries; AlreadyExists;
  // ResourceExhausted: kMaxRings; Unavailable: the link is lost.
  absl::Status AddRing(RingId ring, const RingLimits& limits,
                       shm::Sequence stored, shm::Sequence rung);
  // Its events in flight are the caller's from now on.
  void RemoveRing(RingId ring);
  // Events up to `last` are rung; requires that the ring has slots for them.
  void Rang(RingId ring, shm::Sequence last);
  // Ends up to `last`, which came by TakeEnd(), are where a later near end finds
  // them.
  void Stored(RingId ring, shm::Sequence last);

  // There is a new connection. Errors: FailedPrecondition: an end is not stored
  // yet, a connection is open, or the link is lost.
  absl::StatusOr<Epoch> Open(Nanoseconds now);
  // That connection is no more. Nothing happens if it is not the newest.
  void Cut(Epoch epoch);

  // Bytes of that connection; those of an earlier one are dropped. After an
  // error the connection is to be closed and Cut(). Errors: InvalidArgument,
  // FailedPrecondition or Aborted: a broken rule, an other end that is not the
  // expected one, or its REFUSAL.
  absl::Status Receive(Epoch epoch, std::string_view bytes, Nanoseconds now);
  // The next frame to send, if there is one.
  std::optional<Out> Poll(Nanoseconds now);
  bool IsCurrent(Epoch epoch) const { return open_ && epoch == epoch_; }

  // Whether the connection is to be cut because nothing comes.
  bool IsSilent(Nanoseconds now) const { return open_ && pulse_.IsSilent(now); }
  // To be called at least once a `ping`: ends the link when its lease is over.
  void Tick(Nanoseconds now);

  // Whether both ends have said hello.
  bool is_up() const { return open_ && greeted_; }
  bool is_lost() const { return lost_; }
  // It is lost because a newer host of this name has come.
  bool is_fenced() const { return fenced_; }
  // When something came last.
  Nanoseconds heard() const { return alive_; }
  std::optional<Nanoseconds> rtt() const { return pulse_.rtt(); }
  // The far end's.
  std::optional<ClockSample> clock() const { return pulse_.clock(); }
  // Events that are rung, and whose ends are not stored.
  uint64_t in_flight() const;
  // Events that are sent again: those that had been sent and that the far end
  // did not have after a reconnect, and those that AddRing() took over.
  uint64_t replayed() const { return replayed_; }

 private:
  struct RingState {
    RingLimits limits;
    shm::Sequence rung;
    shm::Sequence sent;      // to the far end, or accepted by it before
    shm::Sequence received;  // ends that came
    shm::Sequence stored;    // of these
    // Of those rung, another ring's before: they count as replayed once the far
    // end has the ring.
    uint64_t inherited = 0;
    bool named = false;  // on this connection
    bool heard = false;  // the far end's answer
  };

  absl::Status Take(const Frame& frame, Nanoseconds now);
  absl::Status TakeHello(const Hello& hello);
  absl::Status TakeRefusal(const Refusal& refusal);
  absl::Status TakeRing(const Ring& answer);
  absl::Status TakeClose(const Close& close);
  absl::Status TakeDone(const Done& done);
  absl::Status TakeData(const Data& data);
  // The next EVENTS frame of a ring that has some, or DATA; rings take turns.
  bool AppendEvents(std::string* to);
  void AppendPart(std::string* to);
  void Lose(const std::string& why);

  LinkOptions options_;
  NearHost* host_;
  std::map<RingId, RingState> rings_;
  // Removed, and not yet answered by the far end; whether that was said on this
  // connection.
  std::map<RingId, bool> closing_;
  RingId last_sent_;  // whose events were sent last
  Epoch epoch_;
  uint64_t connection_ = 0;  // the number that HELLO says
  uint64_t replayed_ = 0;
  bool open_ = false;
  bool said_hello_ = false;
  bool said_all_ = false;  // that all rings are named
  bool greeted_ = false;
  bool lost_ = false;
  bool fenced_ = false;
  // Why the far end refuses the link, since the last connection that it took;
  // empty: it does not.
  std::string refusal_;
  uint64_t far_incarnation_ = 0;  // the newest
  Nanoseconds alive_;             // when the far end was last heard
  FrameDecoder decoder_;
  Splitter splitter_;
  Joiner joiner_;
  Pulse pulse_;
};

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_NEAR_END_H_
