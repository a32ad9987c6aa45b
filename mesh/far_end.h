// The far end of a link, on the GPU's host: it takes the events of a near host's
// rings, and sends their completions. A state machine without sockets, threads or
// clocks; link.pml is the model of one ring of it, without leases, CLOSE and
// fencing. What the near end says is judged as what a hostile device says: one
// broken rule ends the link.
//
// A slot is the far end's until the near end has acknowledged its completion:
// only then FarHost::Free() comes, and until then FarHost::ReadEnd() may, again
// after each reconnect.
#ifndef CARILLON_MESH_FAR_END_H_
#define CARILLON_MESH_FAR_END_H_

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "mesh/frame.h"
#include "mesh/link_options.h"
#include "mesh/parts.h"
#include "mesh/pulse.h"

namespace carillon::mesh {

enum class GoneReason : uint8_t {
  kClosed,    // the near host has removed the ring
  kFenced,    // a newer near host has come
  kLinkLost,  // the link was down for longer than its lease
  kBroken,    // the near end has broken a rule
};

// Of all rings that a far end has had, from 1: a near host may use its ids again.
using RingSerial = shm::Strong<struct RingSerialTag, uint64_t>;

// Where the events run. Calls come from within the far end's own functions.
class FarHost {
 public:
  virtual ~FarHost() = default;
  // A new ring, whose first event will be `last` + 1. Nothing: FarEnd::Made() will
  // say what has become of it. An error is for the near host: there is no such
  // ring then, and the link goes on; Unavailable: it may be taken later. Slots
  // times bytes may be more than this host has.
  virtual std::optional<absl::Status> MakeRing(RingId ring, RingSerial serial,
                                               const RingLimits& limits,
                                               shm::Sequence last) = 0;
  // The next event of a ring, to be run: each comes once, in order. Its bytes
  // are anything; the slot is free.
  virtual void RunEvent(RingId ring, shm::Sequence number,
                        std::string_view event) = 0;
  // All events of one frame have come: time to ring for them.
  virtual void FlushRuns(RingId) {}
  // State and status of an event that is done; appends its output, at most
  // done_bytes. The End's own `output` is not looked at.
  virtual End ReadEnd(RingId ring, shm::Sequence number,
                      std::string* output) = 0;
  // The slots of events up to `last` are free.
  virtual void Free(RingId ring, shm::Sequence last) = 0;
  // The ring is no more; what of it is not done is to be aborted.
  virtual void DropRing(RingId ring, GoneReason why) = 0;
};

// Not thread safe.
class FarEnd {
 public:
  // `host` must outlive it.
  FarEnd(LinkOptions options, FarHost* host, Nanoseconds now);

  // A new connection has begun with this HELLO, and takes the place of the one
  // before, if this end has no reason to refuse it. `from`: whence and when, for
  // people: an older host of the same name is told.
  std::variant<Epoch, Refusal> Accept(const Hello& hello, Nanoseconds now,
                                      const std::string& from = "");
  void Cut(Epoch epoch);

  // Bytes that followed. After an error the connection is to be closed. Errors:
  // InvalidArgument: a broken rule.
  absl::Status Receive(Epoch epoch, std::string_view bytes, Nanoseconds now);
  std::optional<Out> Poll(Nanoseconds now);
  bool IsCurrent(Epoch epoch) const { return open_ && epoch == epoch_; }

  // Events up to `last` are done. A ring that is gone is none, whatever other one
  // has its id now.
  void Done(RingId ring, RingSerial serial, shm::Sequence last);

  // A ring is there of which MakeRing() has said nothing.
  void Made(RingId ring, RingSerial serial);
  // A ring is not to be had, or not any more, and is the host's from now on:
  // nothing happens to one that is gone. `why` as in MakeRing().
  void GiveUp(RingId ring, RingSerial serial, const absl::Status& why);

  bool IsSilent(Nanoseconds now) const { return open_ && pulse_.IsSilent(now); }
  // To be called at least once a `ping`: ends the link when its lease is over.
  void Tick(Nanoseconds now);

  bool is_up() const { return open_; }
  // Of the near host, the highest; 0: none has come, or it has lost its link.
  uint64_t incarnation() const { return lost_ ? 0 : incarnation_; }
  // When something came last.
  Nanoseconds heard() const { return alive_; }
  std::optional<Nanoseconds> rtt() const { return pulse_.rtt(); }
  // Events that were accepted, and whose slots are not freed.
  uint64_t in_flight() const;

 private:
  struct RingState {
    RingSerial serial;
    RingLimits limits;
    shm::Sequence accepted;
    shm::Sequence done;
    shm::Sequence sent;   // ends that were sent, or stored before
    shm::Sequence freed;  // ends that the near end has stored
    bool named = false;   // on this connection
    bool made = false;
    bool answered = false;
  };

  absl::Status Take(const Frame& frame, Nanoseconds now);
  absl::Status TakeRing(const Ring& ring);
  absl::Status TakeNamed();
  absl::Status CheckClosed() const;
  absl::Status TakeEvents(const Events& events);
  absl::Status TakeData(const Data& data);
  // The next DONE frame of a ring that has some, or DATA; rings take turns.
  bool AppendDone(std::string* to);
  void AppendPart(std::string* to);
  void Free(RingId ring, RingState& state, shm::Sequence last);
  void Forget(RingId ring);
  // Nobody of this incarnation is let in any more.
  void Lose(GoneReason why, std::string sentence);
  void DropAll(GoneReason why);

  LinkOptions options_;
  FarHost* host_;
  std::map<RingId, RingState> rings_;
  std::deque<Close> closed_;  // to be sent
  // Rings of this connection that were given up, until the near end's CLOSE: what
  // it sends of them counts for nothing.
  std::set<RingId> given_up_;
  RingSerial serial_;  // of the newest ring
  RingId last_sent_;   // whose completions were sent last
  Epoch epoch_;
  bool open_ = false;
  bool said_hello_ = false;
  bool heard_all_ = false;       // NAMED
  uint64_t incarnation_ = 0;     // of the near host; the highest
  std::string from_;             // whence and when that one has come first
  uint64_t connection_ = 0;      // of that one; the newest
  std::optional<Refusal> lost_;  // why that one may not come again
  Nanoseconds alive_;
  FrameDecoder decoder_;
  Splitter splitter_;
  End split_;  // state and status of what it splits
  Joiner joiner_;
  Pulse pulse_;
};

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_FAR_END_H_
