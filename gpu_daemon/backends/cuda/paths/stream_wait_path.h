// Launch path `stream_wait`: kernels launched ahead (as GPUDirect Async does it).
// In the stream of each event kernel wait, for each of the next events of its
// ring,
//
//   a wait for the doorbell   cuStreamWaitValue32, cyclic >=, on the device's own
//                             word: no CPU between the ring and the launch
//   carillon_stage_entry      one warp: copies and checks the entry, builds the
//                             frame (stage_entry.h)
//   carillon_event_<name>     runs, and completes its event
//
// and a thread of the CPU arms events anew as others end: at most min(entries,
// kArmedAhead) ahead of the last that has ended, so that a slot is not taken
// before its last event has ended, whatever the doorbell says. That arming is
// what this path costs: three calls of the driver an event.
//
// Letting a stream go. A wait for a doorbell that will not ring can be ended in
// no way but by the doorbell, and while it waits the driver can free no memory.
// So gpud, which maps the submission aperture writable, moves the word on by
// 2^30, which every armed wait takes for rung, waits until the stream is idle,
// and moves it back.
//   No event is launched by it: before it, the ring's line of StreamWaitGates
//   is closed; carillon_stage_entry reads it after the wait, completes nothing
//   then and leaves a frame that runs nothing. Streams are in order: what was
//   staged before had been rung, and ends; of the events behind none is taken.
//   No ring is lost by it: the word is moved on by compare-and-swap, and back by
//   one too, unless the device has written its own count over it in between; a
//   device that adds to the word has added to what is moved back. Then it is
//   moved on again, as long as the stream is not idle; a device that keeps
//   writing until the limit costs the context, as a kernel that does not end.
//   Nobody takes the moved word for the doorbell's: gpud looks at it with the
//   path standing still only, and the device reads it once, when it makes its
//   end of the ring; a ring that has never rung is therefore not armed. Its
//   first event finds nothing armed and waits for the CPU's next look.
//
// A launch that the driver refuses is tried again at the next look. Meanwhile
// the ring stands still, and in the end the watchdog takes the context; the
// event then fails alone, as not launched, in the replay.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_STREAM_WAIT_PATH_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_STREAM_WAIT_PATH_H_

#include <memory>

#include "gpu_daemon/backends/cuda/edge/stage_entry.h"
#include "gpu_daemon/backends/cuda/paths/host_words.h"
#include "gpu_daemon/backends/cuda/paths/ring_path.h"

namespace carillon::gpud::cuda {

class StreamWaitPath : public RingPath {
 public:
  static constexpr uint32_t kArmedAhead = 64;

  // Errors: Unimplemented (a driver whose streams cannot wait for memory), those
  // of the driver.
  static absl::StatusOr<std::unique_ptr<StreamWaitPath>> Create(
      Gpu* gpu, Options options);
  ~StreamWaitPath() override;

 private:
  // What of an event's three calls comes next.
  enum class Step { kWait, kStage, kKernel };

  struct Armed : Ring {
    DeviceBytes entry;  // EdgeEntry
    CUfunction stage = nullptr;
    CUfunction kernel = nullptr;
    uint64_t through = 0;     // the last sequence armed
    Step step = Step::kWait;  // of event through + 1
    // What was added to the doorbell; 0: it is the device's own.
    uint32_t moved = 0;
  };

  // Host memory.
  struct StreamWaitGates {
    StageGate of[kMaxRings];
  };

  StreamWaitPath(Gpu* gpu, Options options);

  absl::Status CheckKernel(const EventKernel& event) const override;
  std::unique_ptr<Ring> NewRing() override;
  absl::Status Prepare() override;
  absl::Status PlaceRing(Ring& ring) override;
  absl::Status Begin(Ring& ring) override;
  void Tend(Ring& ring) override;
  void AskToEnd(Ring& ring) override;
  void KeepAsking(Ring& ring) override;
  void Ended(Ring& ring) override;
  void ShowTracing() override;
  void FreeShared() override;
  void AbandonShared() override;
  void AbandonRing(Ring& ring) override;

  // False: the driver refused; again later.
  bool ArmNext(Armed& ring);
  CUresult Enqueue(Armed& ring, uint64_t sequence);
  void MoveDoorbell(Armed& ring);
  void MoveDoorbellBack(Armed& ring);

  HostWords<StreamWaitGates> gates_;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_STREAM_WAIT_PATH_H_
