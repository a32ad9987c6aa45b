#include "shm/faults/fault.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace carillon::faults {
namespace {

struct ActionInfo {
  std::string_view name;
  std::string_view summary;
};
constexpr std::array<ActionInfo, kActions> kActionInfos{{
    {"kill", "SIGKILL to the process"},
    {"stop", "SIGSTOP to the process; SIGCONT after `for`, if that is given"},
    {"delay", "the thread waits for `for`, +- `jitter`"},
    {"lose", "it does not happen"},
    {"double", "it happens twice"},
    {"storm", "it happens `count` times more"},
    {"reorder", "it happens after the next one"},
    {"corrupt",
     "bytes from `offset` on become `bytes`, or are XORed with `mask`; without "
     "either one bit flips"},
    {"tear", "bytes from `count` on are zeros"},
    {"stale", "it carries the generation before its own"},
    {"refuse", "it is refused, as if there were no room"},
    {"fail", "it fails with `code`, or as a kernel that the GPU stops"},
    {"hang", "it never ends"},
    {"abort", "the call ends with the gRPC code `code`"},
    {"limit", "at most `count` bytes a second pass"},
    {"full", "it is full, and is answered as the real thing answers"},
    {"reset", "the connection is reset"},
    {"short", "`count` bytes pass, and the rest after them"},
}};

constexpr std::array<std::string_view, kStates> kStateNames = {
    "none", "started", "attached", "ready"};

constexpr uint32_t Bit(Action action) {
  return 1u << static_cast<uint32_t>(action);
}
constexpr uint32_t kEverywhere =
    Bit(Action::kKill) | Bit(Action::kStop) | Bit(Action::kDelay);
constexpr uint32_t kPacket = Bit(Action::kLose) | Bit(Action::kDouble) |
                             Bit(Action::kReorder) | Bit(Action::kCorrupt) |
                             Bit(Action::kLimit);
constexpr uint32_t kStream = Bit(Action::kReset) | Bit(Action::kShort);

constexpr std::array<PointInfo, kPoints> kPointInfos{{
    {Point::kNone, "none", "no point: at a time", 0, false},
    {Point::kDeviceAttach, "device.attach", "before it attaches", 0, false},
    {Point::kDeviceAttached, "device.attached", "attached, nothing registered",
     0, false},
    {Point::kDeviceRegister, "device.register",
     "before it registers an event kernel", 0, false},
    {Point::kDeviceRegistered, "device.registered", "after that", 0, true},
    {Point::kDeviceSlots, "device.slots",
     "it asks how many slots of a ring with events in flight are free",
     Bit(Action::kFull), true},
    {Point::kDeviceCommit, "device.commit",
     "an ESQ entry is written, not yet rung",
     Bit(Action::kCorrupt) | Bit(Action::kTear) | Bit(Action::kStale), true},
    {Point::kDeviceRing, "device.ring", "before the doorbell rings",
     Bit(Action::kLose) | Bit(Action::kDouble) | Bit(Action::kStorm), true},
    {Point::kDeviceRung, "device.rung", "after that", 0, true},
    {Point::kDeviceTake, "device.take",
     "a completion is there, and not yet consumed", 0, true},
    {Point::kDeviceTaken, "device.taken", "after it was consumed", 0, true},
    {Point::kDeviceLease, "device.lease", "the device renews its lease",
     Bit(Action::kLose), false},
    {Point::kGpudAttach, "gpud.attach", "in an Attach call",
     Bit(Action::kRefuse), false},
    {Point::kGpudHandover, "gpud.handover",
     "before the apertures are handed over", Bit(Action::kLose), false},
    {Point::kGpudAllocate, "gpud.allocate", "before a buffer is placed",
     Bit(Action::kRefuse), false},
    {Point::kGpudRegister, "gpud.register",
     "before an event kernel is placed in the EKT",
     Bit(Action::kRefuse) | Bit(Action::kFull), false},
    {Point::kGpudLaunch, "gpud.launch",
     "a ring is seen, its event not yet launched", 0, true},
    {Point::kGpudKernel, "gpud.kernel", "before an event kernel runs",
     Bit(Action::kFail) | Bit(Action::kHang), true},
    {Point::kGpudOutput, "gpud.output",
     "a kernel has written its output in the completion aperture",
     Bit(Action::kCorrupt), true},
    {Point::kGpudComplete, "gpud.complete",
     "a kernel has run, its completion is not yet stored",
     Bit(Action::kLose) | Bit(Action::kDouble) | Bit(Action::kReorder) |
         Bit(Action::kCorrupt),
     true},
    {Point::kGpudCompleted, "gpud.completed", "after that", 0, true},
    {Point::kGpudLease, "gpud.lease", "gpud renews its lease",
     Bit(Action::kLose), false},
    {Point::kGpudRpc, "gpud.rpc", "a call of the control plane arrives",
     Bit(Action::kAbort), false},
    {Point::kNicReceive, "nic.receive", "a datagram has arrived", kPacket,
     false},
    {Point::kNicSend, "nic.send", "a reply is about to leave", kPacket, false},
    {Point::kNicStreamReceive, "nic.stream_receive",
     "a TCP connection has bytes to read", kStream, false},
    {Point::kNicStreamSend, "nic.stream_send",
     "bytes are about to leave by a TCP connection", kStream, false},
}};

bool IsNameLetter(char c) {
  return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_' ||
         c == '-';
}

bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= Fault::kMaxName &&
         std::all_of(name.begin(), name.end(), IsNameLetter);
}

absl::Status Invalid(std::string_view field, std::string message) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", field, message));
}

absl::Status CheckGlob(std::string_view field, const std::string& glob) {
  if (!glob.empty() && glob.size() <= Fault::kMaxGlob) {
    if (glob.find('\0') == std::string::npos) return absl::OkStatus();
  }
  return Invalid(field, fmt::format("is 1 to {} characters, as \"nic*\"",
                                    Fault::kMaxGlob));
}

absl::Status CheckTarget(const Fault& fault) {
  RETURN_IF_ERROR(CheckGlob("process", fault.process));
  RETURN_IF_ERROR(CheckGlob("device", fault.device));
  RETURN_IF_ERROR(CheckGlob("method", fault.method));
  const PointInfo& point = InfoOf(fault.point);
  if (fault.device != "*" && fault.point == Point::kNone) {
    return Invalid("device", "selects at a point; select the process instead");
  }
  if (fault.device != "*" && point.name.starts_with("nic.")) {
    return Invalid("device", "is the process here; select that");
  }
  if (fault.method != "*" && fault.point != Point::kGpudRpc) {
    return Invalid("method", "selects at gpud.rpc only");
  }
  if (fault.event_id != kAnyEvent && !point.of_event) {
    return Invalid("event",
                   fmt::format("{} is not about one event kernel", point.name));
  }
  return absl::OkStatus();
}

absl::Status CheckTime(const Fault& fault) {
  if (fault.point == Point::kNone) {
    if (fault.nth != 1 || fault.every != 1 || fault.probability != 1) {
      return Invalid(
          "point", "is missing: nth, every and probability count its passages");
    }
    if (fault.times != 1 && fault.every_ns == 0) {
      return Invalid("every", "is missing: the time from one to the next");
    }
  } else if (fault.every_ns != 0) {
    return Invalid("every", "is a number of passages where there is a point");
  }
  if (fault.nth == 0) return Invalid("nth", "counts from 1");
  if (fault.every == 0) return Invalid("every", "is at least 1");
  // Written so that a NaN is refused.
  if (!(fault.probability > 0 && fault.probability <= 1)) {
    return Invalid("probability", "is above 0 and at most 1");
  }
  if (!fault.after_fault.empty() && !IsName(fault.after_fault)) {
    return Invalid("after_fault", "is the name of another fault");
  }
  if (fault.after_fault == fault.name) {
    return Invalid("after_fault", "is the fault itself");
  }
  if (fault.after_state == State::kNone) {
    return fault.after_process.empty() && fault.after_count == 1
               ? absl::OkStatus()
               : Invalid("after_state", "is missing: which state?");
  }
  if (static_cast<size_t>(fault.after_state) >= kStates) {
    return Invalid("after_state", "is no state");
  }
  if (fault.after_count == 0) return Invalid("after_state", "counts from 1");
  return CheckGlob("after_state", fault.after_process);
}

std::string ActionsOf(const PointInfo& point) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < kActions; ++i) {
    if (Allows(point.point, Action(i))) names.push_back(kActionInfos[i].name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

absl::Status CheckAction(const Fault& fault) {
  if (static_cast<size_t>(fault.action) >= kActions) {
    return Invalid("do", "is no action");
  }
  const PointInfo& point = InfoOf(fault.point);
  const std::string_view name = ActionName(fault.action);
  if (!Allows(fault.point, fault.action)) {
    if (fault.point == Point::kNone) {
      return Invalid("do", fmt::format("{} needs a point; without one there "
                                       "are kill and stop",
                                       name));
    }
    return Invalid("do", fmt::format("{} has no meaning at {}; there are {}",
                                     name, point.name, ActionsOf(point)));
  }
  const auto needs = [&](bool there, std::string_view field) {
    return there ? absl::OkStatus()
                 : Invalid(field, fmt::format("is missing: {} needs it", name));
  };
  switch (fault.action) {
    case Action::kDelay:
      if (fault.jitter_ns > fault.duration_ns) {
        return Invalid("jitter", "is at most the delay");
      }
      return needs(fault.duration_ns > 0, "for");
    case Action::kStorm:
    case Action::kLimit:
    case Action::kShort:
    case Action::kTear:
      return needs(fault.count > 0, "count");
    case Action::kAbort:
      if (fault.code > 16) return Invalid("code", "is a gRPC code, 1 to 16");
      return needs(fault.code > 0, "code");
    case Action::kCorrupt:
      if (fault.bytes.size() > kMaxBytes || fault.mask.size() > kMaxBytes) {
        return Invalid("bytes", fmt::format("are {} at most", kMaxBytes));
      }
      if (!fault.bytes.empty() && !fault.mask.empty()) {
        return Invalid("mask", "and bytes exclude each other");
      }
      return absl::OkStatus();
    default:
      return absl::OkStatus();
  }
}

}  // namespace

std::string_view ActionName(Action action) {
  return kActionInfos[static_cast<size_t>(action)].name;
}

std::string_view ActionSummary(Action action) {
  return kActionInfos[static_cast<size_t>(action)].summary;
}

std::optional<Action> ActionOf(std::string_view name) {
  for (size_t i = 0; i < kActions; ++i) {
    if (kActionInfos[i].name == name) return Action(i);
  }
  return std::nullopt;
}

std::string_view StateName(State state) {
  return kStateNames[static_cast<size_t>(state)];
}

std::optional<State> StateOf(std::string_view name) {
  for (size_t i = 1; i < kStates; ++i) {
    if (kStateNames[i] == name) return State(i);
  }
  return std::nullopt;
}

std::span<const PointInfo, kPoints> Points() { return kPointInfos; }

const PointInfo& InfoOf(Point point) {
  const auto index = static_cast<size_t>(point);
  return kPointInfos[index < kPoints ? index : 0];
}

std::optional<Point> PointOf(std::string_view name) {
  for (const PointInfo& info : kPointInfos) {
    if (info.name == name && info.point != Point::kNone) return info.point;
  }
  return std::nullopt;
}

bool Allows(Point point, Action action) {
  if (point == Point::kNone) {
    return action == Action::kKill || action == Action::kStop;
  }
  return ((InfoOf(point).actions | kEverywhere) & Bit(action)) != 0;
}

absl::Status Check(const Fault& fault) {
  if (!IsName(fault.name)) {
    return Invalid("name", fmt::format("is 1 to {} of a-z, 0-9, _ and -",
                                       Fault::kMaxName));
  }
  if (static_cast<size_t>(fault.point) >= kPoints) {
    return Invalid("point", "is no point");
  }
  RETURN_IF_ERROR(CheckTarget(fault));
  RETURN_IF_ERROR(CheckTime(fault));
  return CheckAction(fault);
}

std::string Describe(const Fault& fault) {
  std::string text =
      fmt::format("{} {}", ActionName(fault.action), fault.process);
  if (fault.duration_ns > 0) {
    text += fmt::format(" for {} ms", fault.duration_ns / 1e6);
  }
  if (fault.point != Point::kNone) {
    text += fmt::format(" at {}", InfoOf(fault.point).name);
    if (fault.device != "*") text += fmt::format(" of {}", fault.device);
    if (fault.method != "*") text += fmt::format(" {}", fault.method);
    if (fault.event_id != kAnyEvent) {
      text += fmt::format(" of event {}", fault.event_id);
    }
    text += fmt::format(", passage {}", fault.nth);
    if (fault.times != 1 && fault.every != 1) {
      text += fmt::format(" and each {}th", fault.every);
    }
    if (fault.probability != 1) {
      text += fmt::format(", with probability {}", fault.probability);
    }
  }
  if (fault.after_ns > 0) {
    text += fmt::format(", after {} s", fault.after_ns / 1e9);
  }
  if (!fault.after_fault.empty()) {
    text += fmt::format(", after {} has struck", fault.after_fault);
  }
  if (fault.after_state != State::kNone) {
    text += fmt::format(", once {} {} {}", fault.after_process,
                        fault.after_state == State::kReady ? "is" : "has",
                        StateName(fault.after_state));
    if (fault.after_count > 1)
      text += fmt::format(" {} times", fault.after_count);
  }
  if (fault.window_ns > 0) {
    text += fmt::format(", within {} s", fault.window_ns / 1e9);
  }
  if (fault.times == 0) text += ", again and again";
  if (fault.times > 1) text += fmt::format(", {} times", fault.times);
  return text;
}

}  // namespace carillon::faults
