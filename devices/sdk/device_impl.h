// The state of an attached device: its session, its apertures and its queues.
#ifndef CARILLON_DEVICES_SDK_DEVICE_IMPL_H_
#define CARILLON_DEVICES_SDK_DEVICE_IMPL_H_

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "devices/sdk/control_client.h"
#include "devices/sdk/edge.h"
#include "devices/sdk/peer_watch.h"
#include "shm/handover.h"
#include "shm/recorder/flight_recorder.h"

namespace carillon::edge {

class Device::Impl {
 public:
  // `options` with nothing left to the environment. Errors: as Device::Attach.
  static absl::StatusOr<std::unique_ptr<Impl>> Attach(AttachOptions options);
  // Does the work of Device::Resume().
  absl::Status Resume(std::chrono::milliseconds timeout,
                      const std::function<absl::Status()>& prepare);

  // Does the work of Device::WaitForCompletion() in simulated time.
  bool WaitInTurns(const std::function<bool()>& ready,
                   std::chrono::nanoseconds timeout);
  // Waits until this device has the next turn. Returns false if the session has
  // ended.
  bool WaitForTurn();

  // Calls `method` of the control plane with the session filled in. The
  // session's end wins over whatever gRPC says of a broken connection.
  template <class Stub, class Request, class Response>
  absl::StatusOr<Response> Call(
      grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                   Response*),
      Request request, std::chrono::milliseconds timeout) const {
    RETURN_IF_ERROR(status());
    request.set_session(session);
    auto response = control->Call(method, request, timeout);
    if (MayBeTheEnd(response.status()) &&
        watch->WaitForEnd(kEndAfterFailedCall)) {
      RETURN_IF_ERROR(status());
    }
    if (absl::IsDeadlineExceeded(response.status())) {
      return absl::DeadlineExceededError(
          std::string(response.status().message()) + watch->SilenceOfGpud());
    }
    return response;
  }
  template <class Stub, class Request, class Response>
  absl::StatusOr<Response> Call(
      grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                   Response*),
      Request request) const {
    return Call(method, std::move(request), control->timeout());
  }

  // Returns Device::status(), with the last completed sequence of every event
  // kernel.
  absl::Status status() const;
  // Returns the same with the sequence of one ring.
  absl::Status status(const shm::RingLayout& ring) const;
  // Do the work of Device::status(buffer) and Device::gpud_restarts().
  absl::Status status(const Buffer& buffer) const;
  bool gpud_restarts() const;

  absl::StatusOr<Buffer> AllocateBuffer(Place place, uint64_t bytes);
  absl::Status FreeBuffer(const Buffer& buffer);
  absl::Status ReportReady(const std::string& note);
  // Does the work of edgeRegisterEvent.
  absl::StatusOr<EventQueue*> Register(Device* device, const EventSpec& spec);
  // Does the work of edgeUnregisterEvent.
  absl::Status Unregister(const EventQueue* queue);
  static shm::DeviceRing& RingOf(EventQueue& queue) { return queue.ring_; }

  // Names the ring in the flight recorder, if there is one.
  void NameRing(const EventSpec& spec, const shm::RingLayout& ring) const {
    if (recorder == nullptr) return;
    recorder->NameRing(ring.doorbell.value(), ring.generation, options.name,
                       spec.kernel, spec.label);
  }
  // Writes into the flight recorder, if there is one.
  void Record(shm::Step step, const shm::RingLayout& ring, uint64_t sequence,
              uint32_t status = 0) const {
    if (recorder == nullptr) return;
    recorder->Record(step, ring.doorbell.value(), ring.generation, sequence,
                     EventState::kNone, status);
  }
  // Records the ends that lie in the queue's memory and were not taken.
  void RecordFound(const EventQueue& queue) const;
  // Does the work of Device::Detach() and DetachAsLinkLost().
  void Detach(bool link_lost);

  const AttachOptions options;
  // These change when another gpud takes over. The apertures stay where they
  // are in memory.
  uint32_t device_id = 0;
  shm::Generation generation;
  std::string session;
  std::string catalogue;
  std::unique_ptr<ControlClient> control;
  shm::Aperture submission;
  shm::Aperture completion;
  UniqueFd completion_event;
  UniqueFd connection;
  std::unique_ptr<shm::FlightRecorder> recorder;  // null: off
  std::unique_ptr<PeerWatch> watch;               // after all that it looks at
  std::unique_ptr<shm::CompletionWaiter> waiter;
  std::unique_ptr<shm::TurnTaker> time;  // null: wall time
  bool detached = false;                 // Device::Detach() was called

 private:
  // How long after a broken call the end of the session may take to be noticed.
  static constexpr std::chrono::milliseconds kEndAfterFailedCall{500};

  // Whether a call may have failed because the session has ended, which the
  // watch may not know yet.
  static bool MayBeTheEnd(const absl::Status& failed) {
    return absl::IsUnavailable(failed) ||
           ErrorReason(failed) == "SESSION_ENDED";
  }

  // A session that a gpud has opened, not in use yet.
  struct Session {
    // Ends a session that turned out to be of no use.
    void Detach() const;

    std::unique_ptr<ControlClient> control;
    v1::AttachResponse attached;
    shm::HandedOver handed;
    shm::Aperture submission;
    shm::Aperture completion;
  };
  // A buffer that gpud has placed; the next gpud must place it there again.
  struct PlacedBuffer {
    Place place = Place::kInput;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    // A durable one's, from its gpud's end until the next has them.
    std::vector<std::byte> kept = {};
    // Another gpud has it, without what was in it.
    bool lost = false;
  };

  explicit Impl(AttachOptions given) : options(std::move(given)) {}
  // FailedPrecondition: gpud has answered what cannot be.
  static absl::Status Contradiction(std::string_view what);
  static absl::StatusOr<Session> Open(const AttachOptions& options);
  absl::Status Use(Session opened);
  // Events whose ends lie in the queues' memory and were not taken.
  uint64_t CountEnded() const;
  // How far rings and buffers reach into the heap of an aperture.
  uint64_t UsedHeap(shm::RegionKind kind) const;
  absl::Status Replace(Session opened);
  // Reads the tables without the lock, because Call() may take it. That is
  // safe: no other thread may use the device during Resume().
  absl::Status PlaceAgain(const std::function<absl::Status()>& prepare)
      ABSL_NO_THREAD_SAFETY_ANALYSIS;
  absl::Status Refill(uint32_t buffer_id, std::span<const std::byte> bytes)
      ABSL_NO_THREAD_SAFETY_ANALYSIS;
  absl::Status RegisterAgain(EventQueue& queue);
  void Abandon();
  // Records that this device has ended its session, and whether gpud confirms.
  void RecordEnd(bool confirmed) const;
  // Takes a queue out; null if it is not this device's.
  std::unique_ptr<EventQueue> TakeQueue(const EventQueue* queue);
  void RecordUnregistered(const EventQueue& queue, shm::LetGo how) const;
  absl::Status GrowScratch(uint64_t bytes);

  absl::StatusOr<v1::RegisterEventRequest> RequestFor(
      const EventSpec& spec) const;
  // Makes the queue that gpud's answer describes. Errors: FailedPrecondition if
  // it says what cannot be.
  absl::StatusOr<EventQueue*> AddQueue(Device* device, const EventSpec& spec,
                                       const v1::RegisterEventResponse& answer);
  absl::StatusOr<shm::RingLayout> CheckAnswer(
      const EventSpec& spec, const v1::RegisterEventResponse& answer) const;
  shm::Sequence LastCompleted(const shm::RingLayout& ring) const;

  // Held while gpud places a ring or a buffer, and until a ring that it took back
  // has been looked at for the last time: the next one may lie there.
  Mutex placing_;
  mutable Mutex mutex_;
  // By event id.
  std::map<uint32_t, std::unique_ptr<EventQueue>> queues_
      ABSL_GUARDED_BY(mutex_);
  // By buffer id.
  std::map<uint32_t, PlacedBuffer> buffers_ ABSL_GUARDED_BY(mutex_);
  Mutex growing_;   // held by whoever allocates a durable buffer
  Buffer scratch_;  // input room
  // Another gpud has our apertures, and not all that was in them: what it says
  // has ended counts for nothing.
  bool replacing_ = false;
  std::optional<std::string> ready_note_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace carillon::edge

#endif  // CARILLON_DEVICES_SDK_DEVICE_IMPL_H_
