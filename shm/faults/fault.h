// Faults that a user injects on purpose: where, when and what. The words of
// plans (docs/faults.md), of `carillon fault` and of the Faults service.
#ifndef CARILLON_SHM_FAULTS_FAULT_H_
#define CARILLON_SHM_FAULTS_FAULT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/clock.h"

namespace carillon::faults {

// The effect of a fault. The first three work at every point and without one;
// the others work at the points that say so.
enum class Action : uint8_t {
  kKill,    // SIGKILL to the process
  kStop,    // SIGSTOP, and SIGCONT after `duration`; 0: somebody else's SIGCONT
  kDelay,   // the thread waits for `duration`, +- `jitter`
  kLose,    // what the point would do does not happen
  kDouble,  // it happens twice
  kStorm,   // it happens `count` times more
  kReorder,  // it happens after the next one
  kCorrupt,  // bytes from `offset` on become `bytes`, or are XORed with `mask`;
             // without either, one bit flips
  kTear,     // only the first `count` bytes are written
  kStale,    // it carries the generation before its own
  kRefuse,   // there is no room
  kFail,     // it fails with `code`; 0: as a kernel that the GPU stops
  kHang,     // it never ends
  kAbort,    // the call ends with the gRPC code `code`
  kLimit,    // bytes a second: `count`
  kFull,     // what takes it is full, and says so in its own words
  kReset,    // the connection is reset
  kShort,    // only `count` bytes pass; the rest comes after
};
inline constexpr size_t kActions = 18;
std::string_view ActionName(Action action);  // "kill"
std::string_view ActionSummary(Action action);
std::optional<Action> ActionOf(std::string_view name);

// The named points of the code where a fault can strike.
enum class Point : uint8_t {
  kNone,  // none: at a time
  // In a device's process (devices/sdk). `device`: the device.
  kDeviceAttach,      // before it attaches
  kDeviceAttached,    // attached; nothing registered
  kDeviceRegister,    // before a registration
  kDeviceRegistered,  // after it
  kDeviceSlots,       // it asks how many slots of a ring in use are free
  kDeviceCommit,      // an ESQ entry is written, not yet rung
  kDeviceRing,        // before the doorbell
  kDeviceRung,        // after it
  kDeviceTake,        // a completion is there, and not yet consumed
  kDeviceTaken,       // consumed
  kDeviceLease,       // the device's lease is renewed
  // In gpud's. `device`: whose session, ring or call it is.
  kGpudAttach,     // in an Attach call, before the session is made
  kGpudHandover,   // before the apertures are handed over
  kGpudAllocate,   // before a buffer is placed
  kGpudRegister,   // before an event kernel is placed in the EKT
  kGpudLaunch,     // a ring is seen, before the event is launched
  kGpudKernel,     // before an event kernel runs
  kGpudOutput,     // it has run, and has written its output
  kGpudComplete,   // before its completion is stored
  kGpudCompleted,  // after that
  kGpudLease,      // gpud's lease is renewed
  kGpudRpc,        // a call of the control plane arrives; `method`: its name
  // In the NIC's.
  kNicReceive,        // a datagram has arrived
  kNicSend,           // a reply is about to leave
  kNicStreamReceive,  // a TCP connection has bytes to read
  kNicStreamSend,     // bytes are about to leave by one
};
inline constexpr size_t kPoints = 27;

struct PointInfo {
  Point point;
  std::string_view name;     // "device.ring"
  std::string_view summary;  // for the list of points
  uint32_t actions;          // 1 << Action, beside those for every point
  bool of_event;             // it is about one ring: `event_id` selects
};
std::span<const PointInfo, kPoints> Points();  // by Point
const PointInfo& InfoOf(Point point);
std::optional<Point> PointOf(std::string_view name);
bool Allows(Point point, Action action);

// What a process of the testbed reaches once in each of its lives.
enum class State : uint8_t {
  kNone,
  kStarted,   // it is on the board
  kAttached,  // a device has its session, or another gpud goes on with it
  kReady,     // a device serves; gpud serves
};
inline constexpr size_t kStates = 4;
std::string_view StateName(State state);  // "started"
std::optional<State> StateOf(std::string_view name);

inline constexpr uint32_t kAnyEvent = 0xffff'ffff;
inline constexpr size_t kMaxBytes = 16;

struct Fault {
  static constexpr size_t kMaxName = 32;  // [a-z0-9_-]
  static constexpr size_t kMaxGlob = 47;

  std::string name;
  // Whom it strikes; globs as in fnmatch(3).
  std::string process = "*";  // "gpud", or the device's name
  std::string device = "*";
  std::string method = "*";  // gpud.rpc: "RegisterEvent"
  uint32_t event_id = kAnyEvent;
  // When. Passages of the point that the selectors match are counted from 1, on
  // the testbed's board: those of all processes together, restarts included.
  Point point = Point::kNone;
  uint64_t nth = 1;        // the first passage that may be struck
  uint64_t every = 1;      // from there on: each, each second, ...
  double probability = 1;  // of each of these; its own stream of `seed`
  // Not before, and for how long from there; since the injection.
  Nanoseconds after_ns = 0;
  Nanoseconds window_ns = 0;  // 0: for ever
  // Without a point: from one to the next, when `times` is more than 1.
  Nanoseconds every_ns = 0;
  std::string after_fault;  // not before that one has struck
  // Not before processes of that name (a glob) have reached the state so often;
  // since the injection, all lives together.
  std::string after_process;
  State after_state = State::kNone;
  uint64_t after_count = 1;
  uint64_t times = 1;  // 0: no limit
  uint64_t seed = 0;
  // What.
  Action action = Action::kKill;
  Nanoseconds duration_ns = 0;
  Nanoseconds jitter_ns = 0;
  uint64_t count = 0;
  uint32_t code = 0;
  uint32_t offset = 0;
  std::string bytes;  // at most kMaxBytes
  std::string mask;   // at most kMaxBytes

  bool operator==(const Fault&) const = default;
};

// InvalidArgument, with the field and what it may be.
absl::Status Check(const Fault& fault);

// "kill nic0 at device.ring, passage 1000".
std::string Describe(const Fault& fault);

}  // namespace carillon::faults

#endif  // CARILLON_SHM_FAULTS_FAULT_H_
