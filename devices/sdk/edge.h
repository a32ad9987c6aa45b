// The EDGE API for devices (EDGE Table I, thesis Table 5.1): attach to a
// testbed, register event kernels, and launch them by ringing doorbells. This
// header is all that a device needs. In short, without a look at errors:
//
//   namespace edge = carillon::edge;
//   auto device = *edge::Device::Attach({.name = "dev0", .kind = "echoer"});
//   auto in = *device->AllocateBuffer(edge::Place::kInput, 64 * 256);
//   auto out = *device->AllocateBuffer(edge::Place::kOutput, 64 * 256);
//   auto* queue = *edgeRegisterEvent(
//       *device,
//       {.kernel = "echo",
//        .max_in_flight = 64,
//        .parameters = {
//            edge::WritableBuffer("in", in),
//            edge::Fixed("out", out, {.length = 256, .slot_stride = 256})}});
//   const uint32_t place = *queue->ParameterOffset("in");
//   while (device->status().ok()) {                  // EDGE Fig. 8c
//     if (queue->free_slots() > 0) {                 // check free
//       const uint64_t offset = queue->next_slot() * 256;
//       queue->Set(place, carillon::shm::BufferRef{offset, 256});  // arguments
//       queue->RingDoorbell();                       // mark busy, ring
//     }
//     if (auto done = queue->Poll()) {               // poll completion
//       // out.bytes.subspan(queue->SlotOf(done->sequence) * 256, 256) holds it
//       queue->Free();                               // free
//     }
//   }
#ifndef CARILLON_DEVICES_SDK_EDGE_H_
#define CARILLON_DEVICES_SDK_EDGE_H_

#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "shm/aperture.h"
#include "shm/device_ring.h"
#include "shm/faults/point.h"
#include "shm/histogram.h"
#include "shm/layout.h"
#include "shm/simulated_time.h"
#include "shm/wakeups.h"

namespace carillon::shm {
class FlightRecorder;
}  // namespace carillon::shm

namespace carillon::edge {

using shm::Completion;
using shm::EventLife;
using shm::EventState;
using shm::EventStatus;
using shm::KmdOverride;

struct Dim3 {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
};

// Where a buffer lives.
enum class Place {
  kInput,      // submission aperture: the device writes, kernels read
  kOutput,     // completion aperture: kernels write, the device reads
  kGpuMemory,  // only kernels reach it; starts as zeros
  kDurable,    // as kOutput, and another gpud gets its bytes again: Resume()
};

struct Buffer {
  uint32_t id = 0;
  Place place = Place::kInput;
  // Empty for kGpuMemory. The bytes of a kOutput or kDurable buffer are mapped
  // read-only: writing faults.
  std::span<std::byte> bytes;
};

// How one parameter of an event kernel is bound, by the parameter's name in the
// kernel's signature (`carillon kernels` lists them). The helpers below make
// them.
struct Parameter {
  enum class Kind {
    kUnsigned,
    kSigned,
    kFloat,
    kBuffer,
    kWritableValue,
    kWritableBuffer,
    kTaken
  };
  std::string name;
  Kind kind = Kind::kUnsigned;
  uint64_t unsigned_value = 0;
  int64_t signed_value = 0;
  double float_value = 0;
  uint32_t buffer_id = 0;
  uint64_t offset = 0;
  uint64_t length = 0;       // 0: to the buffer's end
  uint64_t slot_stride = 0;  // slot i of the ring sees offset + i * slot_stride
  std::string taken = {};    // kTaken: the other event kernel's parameter
};

struct BufferPart {
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t slot_stride = 0;
};

Parameter Constant(std::string name, uint64_t value);
Parameter ConstantSigned(std::string name, int64_t value);
Parameter ConstantFloat(std::string name, double value);
Parameter Fixed(std::string name, const Buffer& buffer, BufferPart part = {});
// Filled in by the device for every event: a value of the kernel's type, or
// (WritableBuffer) a shm::BufferRef inside `buffer`.
Parameter Writable(std::string name);
Parameter WritableBuffer(std::string name, const Buffer& buffer);
// With EventSpec::takes_from: a buffer that the kernel reads is, for each event,
// the one that the other device's event had as its parameter `from`.
Parameter Taken(std::string name, std::string from);

struct EventSpec {
  std::string kernel;
  Dim3 grid;
  Dim3 block = {32, 1, 1};
  uint32_t shared_bytes = 0;
  uint32_t max_in_flight = 32;  // ring entries: a power of two
  uint32_t priority = 0;        // 0 lowest .. 7 highest
  bool modifyable = false;
  std::string label;
  // How a ring becomes a launch (docs/launch_paths.md); empty: the back-end's
  // default, or the first after it that can serve this event kernel.
  std::string launch_path;
  std::vector<Parameter> parameters;
  // A chain: an event of this event kernel that is done is handed on to device
  // `hands_to`, and completes when the kernel that it started there has ended:
  // with kOk, or with kNotTaken where no event took it to its end.
  std::string hands_to = {};
  // The other end: each event waits, once it was rung, for one of device
  // `takes_from`, and runs with its buffers.
  std::string takes_from = {};
};

// What a writable parameter holds in an entry; its type is the kernel's.
enum class ValueType { kU32, kI32, kU64, kI64, kF32, kF64, kBuffer };

struct WritableParameter {
  std::string name;
  ValueType type = ValueType::kU32;
  uint32_t offset = 0;  // in the entry
  uint32_t bytes = 0;
};

class Device;

// A registered event kernel: its ESQ, ECQ and doorbell. One thread at a time.
class EventQueue {
 public:
  uint32_t event_id() const { return ring_.layout().doorbell.value(); }
  const std::string& kernel() const { return spec_.kernel; }
  // The one that serves it, whether it was asked for or not.
  const std::string& launch_path() const { return launch_path_; }

  // In the kernel's order.
  std::span<const WritableParameter> writable() const { return writable_; }
  // A writable parameter's place in the entry. NotFound, naming those that
  // there are.
  absl::StatusOr<uint32_t> ParameterOffset(std::string_view name) const;
  // How many bytes of the entry it takes. Errors as there.
  absl::StatusOr<uint32_t> ParameterBytes(std::string_view name) const;

  uint32_t free_slots() const {
    if (faults::Armed(faults::Point::kDeviceSlots)) [[unlikely]]
      return FreeSlotsThroughFaults();
    return ring_.free_slots();
  }
  uint32_t in_flight() const { return ring_.in_flight(); }
  // Ring slot of the entry that is being written now: finds its per-slot
  // buffers.
  uint32_t next_slot() const { return ring_.next_slot(); }
  uint32_t SlotOf(shm::Sequence sequence) const {
    return ring_.layout().SlotOf(sequence);
  }

  // Writes an argument of the next event. T must be the parameter's type
  // (shm::BufferRef for buffers), `offset` from ParameterOffset(). Requires
  // free_slots() > 0.
  template <class T>
  void Set(uint32_t offset, const T& value) {
    SetBytes(offset, std::as_bytes(std::span(&value, 1)));
  }
  void SetBytes(uint32_t offset, std::span<const std::byte> value) {
    std::memcpy(ring_.parameters() + offset, value.data(), value.size());
  }

  // Ends the entry without ringing: several events can be rung at once.
  // Requires free_slots() > 0. `kmd`: this launch's own dimensions (modifyable
  // event kernels).
  shm::Sequence Commit(const KmdOverride* kmd = nullptr) {
    const shm::Sequence sequence = ring_.Commit(kmd, RungNs());
    if (faults::Armed(faults::Point::kDeviceCommit)) [[unlikely]]
      PassCommit();
    return sequence;
  }
  // Rings the doorbell for everything committed.
  void RingCommitted() {
    if (faults::AnyArmed(faults::Point::kDeviceRing,
                         faults::Point::kDeviceRung)) [[unlikely]] {
      return RingThroughFaults();
    }
    if (recorder_ != nullptr) [[unlikely]]
      RecordRing();
    ring_.RingDoorbell();
  }
  // Commit() and RingCommitted().
  shm::Sequence RingDoorbell(const KmdOverride* kmd = nullptr) {
    const shm::Sequence sequence = Commit(kmd);
    RingCommitted();
    return sequence;
  }

  // The oldest event in flight, if it has ended. Stays until Free().
  std::optional<Completion> Poll() const { return ring_.Poll(); }
  // The end of any event that was committed and not freed, if it has one.
  std::optional<Completion> EndOf(shm::Sequence sequence) const {
    return ring_.EndOf(sequence);
  }
  shm::Sequence last_committed() const { return ring_.last_committed(); }
  // The stages of the event that Poll() returned; zeros when tracing is off.
  EventLife life() const { return ring_.life(); }
  // Frees the event that Poll() returned: its slot and output buffers may be
  // used again.
  void Free() {
    if (faults::AnyArmed(faults::Point::kDeviceTake,
                         faults::Point::kDeviceTaken)) [[unlikely]] {
      return FreeThroughFaults();
    }
    if (recorder_ != nullptr) [[unlikely]]
      RecordTaken();
    ring_.Consume();
  }

  // Notes that the event that Poll() returned has an output that its input does
  // not make: the flight recorder's checker reports it as wrong.
  void NoteMismatch();
  // Notes that the next completion was waited for so long in vain: if it was
  // there, the checker reports it as lost. For devices that wait in another way
  // than by Wait(), which notes it from 100 ms on.
  void NoteMissed(std::chrono::nanoseconds waited);

  // Poll(), waiting for at most `timeout`: spins for `spin` first. Errors:
  // DeadlineExceeded; Unavailable when the testbed closed the device or gpud is
  // gone (PEER_DEAD, with pid and the last completed sequence).
  absl::StatusOr<Completion> Wait(
      std::chrono::nanoseconds timeout,
      std::chrono::nanoseconds spin = std::chrono::microseconds(20));

  bool tracing() const;

 private:
  friend class Device;
  absl::StatusOr<const WritableParameter*> FindWritable(
      std::string_view name) const;
  EventQueue(Device* device, EventSpec spec, std::string launch_path,
             const shm::RingLayout& layout,
             std::vector<WritableParameter> writable);
  Nanoseconds RungNs() const {
    if (time_ != nullptr) return time_->now();
    return tracing() ? NowNs() : 0;
  }
  // What is about to be rung, and to be freed.
  void RecordRing();
  void RecordTaken();
  // With the points of faults.
  uint32_t FreeSlotsThroughFaults() const;
  void PassCommit();
  void RingThroughFaults();
  void FreeThroughFaults();

  Device* const device_;
  const EventSpec spec_;
  std::string launch_path_;
  const std::vector<WritableParameter> writable_;
  shm::DeviceRing ring_;
  shm::FlightRecorder* const recorder_;  // null: off
  const shm::TurnTaker* const time_;     // null: wall time
};

// What `carillon kernels` shows of a kernel; see proto/events.proto.
struct KernelDescription {
  std::string name;
  std::string summary;
};

struct AttachOptions {
  // The testbed's directory; empty: $CARILLON_TESTBED_DIR.
  std::string testbed_directory;
  // Unique in the testbed, [a-z0-9_-]{1,32}; empty: $CARILLON_DEVICE_NAME, as
  // `carillon up` sets it.
  std::string name;
  std::string kind;
  // Room for this device's rings and buffers, taken at once. An aperture grows
  // beyond it when something needs more, up to 256 MiB (docs/limits.md); a
  // device that knows what it needs asks for it here, so that it is refused now
  // and not later.
  uint64_t submission_bytes = 1 << 20;
  uint64_t completion_bytes = 1 << 20;
  std::vector<std::string> counter_names;  // at most shm::kMaxTelemetryCounters
  // At most shm::kMaxTelemetryHistograms.
  std::vector<std::string> histogram_names;
  std::chrono::milliseconds timeout{5000};
  // The device can live in simulated time (docs/simulated_time.md): it takes its
  // time from Device::Now(), and waits by this library only, in one thread. In a
  // testbed that lives in simulated time other devices are refused.
  bool takes_simulated_time = false;
};

// A device's session with gpud. Control-plane calls (everything that returns a
// Status) are thread safe, take a bounded time, and fail with Unavailable once
// gpud is gone. Detaches when destroyed. Never fork() in a process that has
// attached: gRPC does not survive it.
class Device {
 public:
  // Errors: Unavailable (no gpud), AlreadyExists (name), InvalidArgument (name,
  // directory, names of counters), PermissionDenied (other user),
  // ResourceExhausted (no memory), FailedPrecondition (other layout version,
  // simulated time).
  static absl::StatusOr<std::unique_ptr<Device>> Attach(
      const AttachOptions& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Ends the session now. All memory stays mapped until the destructor: buffers
  // keep the bytes that they had. After it only status() and the destructor may be
  // called, and waits of other threads end with Unavailable.
  void Detach();
  // The same for a device that stands for one of another host, when the link to
  // that is lost: what has not ended is aborted as kLinkLost.
  void DetachAsLinkLost();

  const std::string& name() const;
  uint32_t device_id() const;
  // What tells gpud's own catalogue of kernels from that of another build:
  // "63 kernels, 1f0c9a52b7e83d46".
  const std::string& catalogue() const;
  shm::Generation generation() const;

  // kDurable also takes input room, once: as much as its largest buffer has, but
  // at most 64 KiB. Errors: ResourceExhausted, naming the room that is left.
  absl::StatusOr<Buffer> AllocateBuffer(Place place, uint64_t bytes);
  absl::Status FreeBuffer(const Buffer& buffer);
  absl::StatusOr<std::vector<KernelDescription>> ListKernels();

  // Tells `carillon up` that the device serves; `note` says where ("udp
  // 127.0.0.1:11211").
  absl::Status ReportReady(const std::string& note);

  // A background kernel, as a CPU host launches it: returns when it has ended.
  struct LaunchSpec {
    std::string kernel;
    Dim3 grid;
    Dim3 block;
    uint32_t shared_bytes = 0;
    uint32_t priority = 0;
    std::vector<Parameter> parameters;  // none writable
    std::chrono::milliseconds timeout{60'000};
  };
  struct LaunchTimes {
    uint64_t dispatched_ns = 0;  // from the launch to its first thread block
    uint64_t finished_ns = 0;    // from the launch to its end
  };
  // In simulated time its `timeout` does not count.
  // Errors: as edgeRegisterEvent; Aborted when it was cut short; Internal with
  // the kernel's own failure code.
  absl::StatusOr<LaunchTimes> LaunchKernel(const LaunchSpec& spec);

  // A copy from a buffer of kInput to one of kGpuMemory, or from there to one of
  // kOutput or kDurable: returns when it has ended. gpud cuts it into chunks. Where
  // one ends, the copy of the highest priority goes on, whosever it is. When 32
  // chunks in a row have overtaken the oldest copy it has the next one, so nobody
  // waits for ever.
  struct CopySpec {
    Buffer from;
    uint64_t from_offset = 0;
    Buffer to;
    uint64_t to_offset = 0;
    uint64_t bytes = 0;
    uint32_t priority = 0;
    std::chrono::milliseconds timeout{60'000};
  };
  struct CopyTimes {
    uint64_t started_ns = 0;   // from the call to its first chunk
    uint64_t finished_ns = 0;  // from the call to its end
  };
  // In simulated time its `timeout` does not count.
  // Errors: InvalidArgument (other places, 0 bytes), OutOfRange (past a buffer's
  // end), NotFound (no buffer of this device's), ResourceExhausted (too many at
  // once), Aborted (cut short), DataLoss (the GPU was lost meanwhile).
  absl::StatusOr<CopyTimes> Copy(const CopySpec& spec);

  // Telemetry (writer: this process): shown by `carillon devices NAME` and the
  // demo's report.
  void SetCounter(uint32_t index, uint64_t value);
  void AddToCounter(uint32_t index, uint64_t delta);
  shm::HistogramWriter histogram(uint32_t index);

  // The testbed's time: CLOCK_MONOTONIC, or the simulated time, which passes
  // while the device waits and at no other time.
  Nanoseconds Now() const;
  bool in_simulated_time() const;

  // Waits, for at most `timeout`, until `ready()` is true after some completion
  // of any queue. False: timed out or closed; ask status().
  template <class Ready>
  bool WaitForCompletion(
      Ready ready, std::chrono::nanoseconds timeout,
      std::chrono::nanoseconds spin = std::chrono::microseconds(20)) {
    if (in_simulated_time()) return WaitInTurns(ready, timeout);
    return waiter().WaitUntil(ready, timeout, spin);
  }
  // For devices that sleep in epoll/poll: arm, look at the queues once more,
  // sleep on completion_fd() and on connection_fd(), then disarm (which also
  // drains the fd). It may turn readable once more after that: drain it then
  // too, by disarming. Not in simulated time.
  void ArmCompletionFd();
  void DisarmCompletionFd();
  int completion_fd() const;
  // Becomes readable (end-of-file) when gpud is gone or has closed the session.
  int connection_fd() const;

  // OK while attached; otherwise why not: Unavailable with PEER_DEAD, pid and
  // signal when known, or what gpud gave as its reason (evicted, shut down,
  // restarting).
  absl::Status status() const;
  // Waits, for at most `timeout`, until the session has ended; then status().
  // For devices that see connection_fd() end: the reason may be a moment
  // behind.
  absl::Status WaitForEnd(std::chrono::milliseconds timeout) const;
  // Whether a buffer still has what kernels wrote to it. Errors: DataLoss (it
  // has begun anew as zeros, because the last Resume() could not bring its bytes
  // back), NotFound (it is none of this device's).
  absl::Status status(const Buffer& buffer) const;
  bool tracing() const;

  // True: gpud is gone, and has given no reason (PEER_DEAD), or has made way for
  // another one (RESTARTING, as `carillon restart gpud` has it).
  bool may_resume() const;
  // The latter, or it was killed when it did not make way in time: another one
  // is on its way.
  bool gpud_restarts() const;
  // After that: waits, for at most `timeout`, until there is another gpud in
  // the testbed, and goes on with it. Buffers and queues stay what they are, with
  // their addresses, ids and telemetry; what was committed or rung and has not
  // ended is launched, perhaps once more, and completes once. What kernels wrote
  // to kOutput and kGpuMemory is lost, as status(buffer) says. kDurable buffers have the
  // bytes that they had when gpud ended, before the first event is launched; a
  // kernel that gpud's end interrupted may have written some of its own.
  // Descriptors keep their numbers, and must be added to an epoll again.
  //
  // Requires: no thread uses the device meanwhile, nor between a call that was
  // Unavailable and the next, and Poll() of no queue has anything left. Errors: FailedPrecondition (Poll() has; or the testbed lived
  // in simulated time, which ends with its gpud), Unavailable (no gpud so far: it
  // may be called again; or the session ended in another way than
  // may_resume() tells: see status()), and what the new gpud refuses, as Attach() and
  // edgeRegisterEvent: then the session is detached.
  // `prepare`, if given, is called when the buffers are there again and before any
  // event is launched: it may LaunchKernel(), and nothing else. Its error ends the
  // attempt; it is called again if that was Unavailable and Resume() is.
  absl::Status Resume(std::chrono::milliseconds timeout,
                      const std::function<absl::Status()>& prepare = {});

 private:
  friend class EventQueue;
  friend absl::StatusOr<EventQueue*> edgeRegisterEvent(Device&,
                                                       const EventSpec&);
  friend absl::Status edgeUnregisterEvent(Device&, EventQueue*);
  friend absl::Status edgeScheduleEvent(Device&, EventQueue*);
  friend absl::Status edgeReleaseBarrier(Device&, EventQueue*);
  class Impl;

  explicit Device(std::unique_ptr<Impl> impl);
  shm::CompletionWaiter& waiter();
  bool WaitInTurns(const std::function<bool()>& ready,
                   std::chrono::nanoseconds timeout);

  std::unique_ptr<Impl> impl_;
};

// --- The EDGE API by its paper names.

// edgeRegisterEvent (EDGE Table I): stores the event kernel in the EKT and
// allocates its ESQ; the queue's event_id() is the doorbell. The queue belongs
// to the device and lives until edgeUnregisterEvent. On an error nothing has
// changed: NotFound (kernel, buffer), InvalidArgument (dimensions, parameters,
// ring size), ResourceExhausted (EKT full, no memory for the ESQ).
absl::StatusOr<EventQueue*> edgeRegisterEvent(Device& device,
                                              const EventSpec& spec);

// Waits for the events in flight for at most a second, aborts the rest, frees
// ring and entry. `queue` is gone afterwards.
absl::Status edgeUnregisterEvent(Device& device, EventQueue* queue);

// Launches the committed entries through the control plane instead of the
// doorbell.
absl::Status edgeScheduleEvent(Device& device, EventQueue* queue);

// Releases the threads of the event kernel that wait in a wait-release barrier.
// Unimplemented on back-ends without one.
absl::Status edgeReleaseBarrier(Device& device, EventQueue* queue);

}  // namespace carillon::edge

#endif  // CARILLON_DEVICES_SDK_EDGE_H_
