// The first GPU, and gpud's context on it: its SMs, its streams, its stacks.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_CONTEXT_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_CONTEXT_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cuda/driver/driver.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/event/gpu_model.h"

namespace carillon::gpud::cuda {

// Whose SMs. Where some are reserved (Gpu::Options::reserved_sms), those of launch
// path edge and those of everything else; where none are, both are all SMs. And
// the two parts of policy reservation, once they are there (Context::Divide()):
// those that only events use, and the others.
enum class SmSet : uint8_t { kEdge, kRest, kEvents, kBackground };

// How many SMs the parts have.
struct SmParts {
  uint32_t events = 0;
  uint32_t background = 0;
};

// Made, lost and made anew by one thread while nobody else calls; everything else
// from any thread.
class Context {
 public:
  // A GPU has 32 hardware queues, one of them for the default stream. Streams
  // that share one wait for each other: behind a kernel that stays, or a wait for
  // memory, for ever. So a gpud has so many streams.
  static constexpr uint32_t kMaxStreams = 31;

  // `reserved_sms` are reserved as two green contexts; the GPU may round up.
  Context(const Driver* driver, uint32_t reserved_sms)
      : driver_(*driver), reserve_(reserved_sms) {}

  // Finds the GPU. Errors: Unimplemented (it lacks what gpud needs).
  absl::Status Describe();
  // With none reserved it is divided again where it was before. Errors: see
  // Divide().
  absl::Status Make();
  // Makes the parts, if they are not there: those that reserved_sms() made, or
  // halves. Errors: InvalidArgument (it cannot reserve so many), Unimplemented (the
  // driver has no green contexts).
  absl::Status Divide();
  // The other way round, where Divide() made them. No stream is on them.
  void Undivide();
  // It cannot be used any more, nor what is there.
  void Lose();
  // All that was made in it is freed.
  void Release();
  bool exists() const { return context_ != nullptr; }
  // Has this thread's calls of the driver go to it. Nothing is done for the same
  // thread and context again.
  void MakeCurrent() const;

  CUdevice device() const { return device_; }
  const GpuModel& model() const { return model_; }
  // "NVIDIA H200 (132 SMs), driver 13.0".
  const std::string& description() const { return description_; }
  uint32_t reserved_sms() const { return reserved() ? parts().events : 0; }
  // Both 0: it is not divided.
  SmParts parts() const {
    return divided_.load(std::memory_order_acquire) ? part_sizes_ : SmParts();
  }

  // While it lives, what this thread makes or changes of graphs belongs to these
  // SMs: a driver takes a change of a kernel's node in the node's own context only.
  // Nothing is done where they are no part. Others wait, for a green context is
  // current to one thread at a time.
  class OnSms {
   public:
    OnSms(Context* context, SmSet sms);
    ~OnSms();
    OnSms(const OnSms&) = delete;
    OnSms& operator=(const OnSms&) = delete;

   private:
    Context* const context_;
    std::unique_lock<std::mutex> lock_;  // held: the part is current
  };

  // CUDA's priority for one of ours.
  int NativePriority(uint32_t priority) const;
  // A stream on these SMs, which there are; of our priorities (kPriorities). Errors:
  // ResourceExhausted, there are kMaxStreams.
  absl::StatusOr<Stream> MakeStream(SmSet sms, uint32_t priority);
  // Gpud's own, on all SMs.
  absl::StatusOr<Stream> MakeOwnStream();

  // Memory for the stacks of kernels with such frames, taken by a launch of
  // `function` (carillon_take_stack). Quiet: later a launch that needs more of it
  // would wait for an idle GPU.
  absl::Status TakeStack(uint32_t frame_bytes, CUfunction function,
                         CUstream stream);

 private:
  bool reserved() const { return reserve_ != 0; }
  // To be held by a stream. Errors: see MakeStream().
  absl::StatusOr<std::shared_ptr<const void>> TakeStreamPlace();
  absl::Status Split(uint32_t wanted);
  struct Part {
    GreenContext green;
    CUcontext context = nullptr;  // the same
  };
  absl::StatusOr<Part> MakePart(CUdevResource sms) const;
  const Part& PartOf(SmSet sms) const;

  const Driver& driver_;
  const uint32_t reserve_;  // SMs; 0: none
  CUdevice device_ = 0;
  GpuModel model_;
  std::string description_;
  // Writer: whoever divides, release; readers: any thread, acquire. What is divided
  // is so in a new context, too.
  std::atomic<bool> divided_{false};
  SmParts part_sizes_;  // those of the first division are all others', too
  int least_priority_ = 0;
  int greatest_priority_ = 0;
  CUcontext context_ = nullptr;
  uint64_t epoch_ = 0;  // of all contexts of this process, from 1
  // The events' and the others'; not contexts while it is not divided.
  std::array<Part, 2> parts_;
  // Whoever waits for on_sms_ has this one: who takes that again and again lets
  // him in.
  std::mutex next_on_sms_;
  std::mutex on_sms_;         // of the one thread that a part is current to
  uint32_t stack_bytes_ = 0;  // of each thread, that there is memory for
  // Writers: whoever makes or destroys one. Relaxed: a number that stands for
  // itself. Outlives the streams.
  std::atomic<uint32_t> streams_{0};
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_CONTEXT_H_
