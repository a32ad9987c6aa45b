// The bare ring, measured: the yardstick of the project's figures. No gpud, no
// kernel: one event goes over and comes back.
#ifndef CARILLON_SHM_TESTING_RING_PINGPONG_H_
#define CARILLON_SHM_TESTING_RING_PINGPONG_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shm/device_ring.h"
#include "shm/histogram.h"
#include "shm/testing/ring_fixture.h"

namespace carillon::shm {

// The calling thread is the device; gpud's end is another process or thread,
// asleep between measurements, so that other benchmarks can interleave with
// this one. One thread at a time. Errors of every measurement: Internal, when
// the other end is gone.
class RingYardstick {
 public:
  struct Options {
    // gpud's end in a child process, as in a testbed; otherwise in a thread
    // (for a process that has initialized gRPC and so must not fork).
    bool child_process = true;
    uint32_t entries = 1024;
    uint32_t parameter_bytes = 32;  // with its header, an entry of 64 bytes
    // Cores to run on; -1: wherever the kernel likes. The device's thread is
    // pinned only while it measures.
    int device_core = -1;
    int gpud_core = -1;
  };

  // Errors: those of RingFixture::Make; ResourceExhausted (no process);
  // InvalidArgument (core).
  static absl::StatusOr<std::unique_ptr<RingYardstick>> Start(
      const Options& options);
  ~RingYardstick();
  RingYardstick(const RingYardstick&) = delete;
  RingYardstick& operator=(const RingYardstick&) = delete;

  // Nanoseconds from before Commit() to after Poll(), one event in flight, both
  // ends spinning. Each sample includes one reading of the clock.
  absl::StatusOr<HistogramSnapshot> RoundTrips(uint64_t count);

  // The same with both ends asleep whenever they wait: two wake-ups each.
  absl::StatusOr<HistogramSnapshot> SleepingRoundTrips(uint64_t count);

  // The same without a ring: two processes wake each other over two futexes.
  absl::StatusOr<HistogramSnapshot> FutexRoundTrips(uint64_t count);

  // Events a second with the pipeline full, the doorbell rung once for `batch`
  // of them (1..entries).
  absl::StatusOr<double> EventsPerSecond(uint64_t events, uint32_t batch);

 private:
  struct Shared;
  enum class Mode : uint32_t { kSpin, kSleep, kFutex, kStop };

  explicit RingYardstick(const Options& options) : options_(options) {}

  // gpud's end, until kStop.
  void Serve() const;
  void ServeSpinning(const GpuRing& ring, uint64_t first,
                     uint64_t events) const;
  void ServeSleeping(const GpuRing& ring, uint64_t first,
                     uint64_t events) const;
  void ServeFutex(uint64_t events) const;

  // The device's end.
  void Command(Mode mode, uint64_t events);
  void Commit(uint64_t parameter);
  bool OtherEndIsGone();
  // Spins for the next completion and consumes it.
  absl::Status AwaitCompletion();
  // The times of `count` calls of turn(), a Status.
  template <class Turn>
  absl::StatusOr<HistogramSnapshot> Measure(Mode mode, uint64_t count,
                                            Turn turn);

  const Options options_;
  std::unique_ptr<RingFixture> rings_;
  std::unique_ptr<DeviceRing> device_;
  Shared* shared_ = nullptr;
  pid_t child_ = -1;
  std::thread thread_;
};

}  // namespace carillon::shm

#endif  // CARILLON_SHM_TESTING_RING_PINGPONG_H_
