// What two ends of a link say to each other (docs/mesh.md), as bytes of a
// stream. A frame is a header and a payload, of little-endian numbers:
//
//   0               4      5          8
//   +---------------+------+----------+------------ - -
//   | payload bytes | type | 0, 0, 0  | payload
//   +---------------+------+----------+------------ - -
//
// The near end is on the device's host, the far end on the GPU's.
//
//   HELLO    both      who I am; the first frame of a connection
//   REFUSAL  far       why there is no link; the last one
//   RING     near      this ring is mine, and this is its last completed event
//            far       the answer: its last accepted event
//   NAMED    near      those were all my rings; once on a connection
//   CLOSE    near      this ring is gone; also the answer to the far end's for a
//                      ring that it had answered for
//            far       the answer; or with a reason: this ring is not taken, or
//                      not any more
//   EVENTS   near      events of a ring, from `first` on, without a gap
//   DONE     far       their ends, the same way
//   DATA     both      a part of an event, or of its output, that is larger than
//                      a frame; its last part comes as an item of those two
//   PING     both      I live
//   MEET     both      where UCX finds me; over TLS, before HELLO, and only with the
//                      engine `ucx` (mesh/ucx_stream.h)
#ifndef CARILLON_MESH_FRAME_H_
#define CARILLON_MESH_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "shm/layout.h"
#include "shm/types.h"

namespace carillon::mesh {

// A ring of a near host. No two rings of one incarnation have the same.
using RingId = shm::Strong<struct RingIdTag, uint64_t>;

inline constexpr uint32_t kProtocol = 4;
inline constexpr size_t kHeaderBytes = 8;
inline constexpr size_t kMaxPayloadBytes = 64 << 10;
// Events or completions of one frame.
inline constexpr size_t kMaxItems = 256;
// Of an event with its inputs, or of a completion's output, in one frame.
inline constexpr size_t kMaxItemBytes = kMaxPayloadBytes - 64;
// The same, in parts.
inline constexpr size_t kMaxEventBytes = 16 << 20;
// A text of HELLO; of REFUSAL and CLOSE.
inline constexpr size_t kMaxNameBytes = 128;
inline constexpr size_t kMaxReasonBytes = 512;
// Of where UCX finds an end.
inline constexpr size_t kMaxUcxAddressBytes = 8 << 10;
inline constexpr size_t kTicketBytes = 32;
// Of what a ring is for.
inline constexpr size_t kMaxPurposeBytes = 16 << 10;

struct Hello {
  std::string testbed;
  std::string host;
  std::string build;      // Carillon's
  std::string catalogue;  // what tells one catalogue of kernels from another
  // Of the host's registration, from 1: the newer one of two hosts of one name
  // has the higher one.
  uint64_t incarnation = 1;
  // Of the near end: grows with each connection of that incarnation.
  uint64_t connection = 1;
  bool operator==(const Hello&) const = default;
};

enum class RefusalCode : uint32_t {
  kBadFrame = 1,        // what was sent is against the protocol
  kOther = 2,           // of another testbed, build or catalogue
  kOldIncarnation = 3,  // a newer host of this name has come
  kLinkLost = 4,  // the far end has aborted all events: the lease was over
};

struct Refusal {
  RefusalCode code = RefusalCode::kBadFrame;
  std::string why;  // for people
  bool operator==(const Refusal&) const = default;
};

struct RingLimits {
  uint32_t slots = 0;        // power of two, at most shm::kMaxRingEntries
  uint32_t event_bytes = 0;  // of one event, at most kMaxEventBytes
  uint32_t done_bytes = 0;   // of one completion's output, the same
  // What the near host says of it to the far host, in bytes that are theirs; at
  // most kMaxPurposeBytes.
  std::string purpose = {};
  bool operator==(const RingLimits&) const = default;
};
// Errors: InvalidArgument: slots that are no power of two or too many, or too
// many bytes.
absl::Status CheckLimits(const RingLimits& limits);

struct Ring {
  RingId ring;
  shm::Sequence number;
  RingLimits limits;
  bool operator==(const Ring&) const = default;
};

struct Close {
  RingId ring;
  std::string why;  // for people; "": nothing is refused
  // With a reason: the ring may be taken when it is named under another id later.
  bool passing = false;
  bool operator==(const Close&) const = default;
};

// Those that no RING of this connection has named are gone.
struct Named {
  bool operator==(const Named&) const = default;
};

// At least one item. `completed`: all completions up to it are stored at the
// near end, so that the far end may free their slots.
struct Events {
  RingId ring;
  shm::Sequence first;
  shm::Sequence completed;
  std::vector<std::string_view> items;
  bool operator==(const Events&) const = default;
};

struct End {
  shm::EventState state = shm::EventState::kNone;  // never kNone in a frame
  uint32_t status = 0;
  std::string_view output;
  bool operator==(const End&) const = default;
};

// Whether an end has an output: its kernel has run to the end. Of any other event
// the output buffers stay as they were.
constexpr bool HasOutput(shm::EventState state, uint32_t status) {
  return state == shm::EventState::kDone ||
         (state == shm::EventState::kFailed &&
          status >= static_cast<uint32_t>(shm::EventStatus::kKernelStatusBase));
}

// At least one item.
struct Done {
  RingId ring;
  shm::Sequence first;
  std::vector<End> items;
  bool operator==(const Done&) const = default;
};

// At least one byte. The next item of the ring, which is `number`, begins so.
struct Data {
  RingId ring;
  shm::Sequence number;
  std::string_view bytes;
  bool operator==(const Data&) const = default;
};

// Times are the senders' own clocks'.
struct Ping {
  Nanoseconds sent = 0;
  Nanoseconds echoed = 0;  // the newest `sent` of the other end; 0: none
  Nanoseconds held = 0;    // how long ago that came
  bool operator==(const Ping&) const = default;
};

// The near end asks without a ticket, and the far end answers with one.
struct Meet {
  std::string ticket;   // kTicketBytes; or empty
  std::string address;  // of a worker of UCX's
  bool operator==(const Meet&) const = default;
};

using Frame = std::variant<Hello, Refusal, Ring, Close, Events, Done, Ping,
                           Data, Named, Meet>;

// "EVENTS"
std::string_view NameOf(const Frame& frame);

// Requires that the frame is within the limits above. Text that no frame may
// have (control bytes, too much) is replaced or cut.
void AppendFrame(const Frame& frame, std::string* to);

// What one EVENTS or DONE frame can still take, without building it first.
size_t EventsBytes(size_t items, size_t item_bytes);
size_t DoneBytes(size_t items, size_t item_bytes);

// Takes a stream apart. The other end is taken to be hostile: what is not
// exactly a frame is an error. It keeps what was appended and not yet asked for,
// and, once Next() has no more, less than one frame.
class FrameDecoder {
 public:
  void Append(std::string_view bytes);

  // The next frame, or nothing before all of it is there. Its views are good
  // until the next call of Append(). Once there is an error, there is no other
  // answer. Errors: InvalidArgument: which rule the frame breaks, and how.
  absl::StatusOr<std::optional<Frame>> Next();

  // What follows the last frame; the decoder is empty then.
  std::string TakeRest();

  // Bytes that are kept, of a frame that is not whole or was not asked for.
  size_t kept_bytes() const { return bytes_.size() - at_; }

 private:
  absl::StatusOr<std::optional<Frame>> Read();

  std::string bytes_;
  size_t at_ = 0;
  absl::Status broken_;
};

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_FRAME_H_
