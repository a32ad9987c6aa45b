// Copies between the host's memory and the GPU's, beside the queue of kernels
// (GPES IV-B): one is cut into chunks, and where a chunk ends, the copy of the
// highest priority goes on, whosever it is (CopyTurns). Two chunks are under way at once, so
// that the GPU has another one when one ends: with a thread's way between them,
// chunks of 512 KB took twice as long as one of all (H200).
#ifndef CARILLON_GPU_DAEMON_DISPATCH_COPY_QUEUE_H_
#define CARILLON_GPU_DAEMON_DISPATCH_COPY_QUEUE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "gpu_daemon/event/kernel_memory.h"
#include "gpu_daemon/event/launch_filter.h"
#include "gpu_daemon/event/memory_copy.h"

namespace carillon::gpud {

// Thread safe. Its threads start with the first copy.
class CopyQueue {
 public:
  // `memory` must outlive it.
  CopyQueue(KernelMemory* memory, CopyChunks chunks)
      : memory_(memory), chunks_(chunks) {}
  ~CopyQueue();

  // It ends exactly once; after Stop(), at once, as aborted with kShutdown.
  void Submit(std::unique_ptr<MemoryCopy> copy);
  // Those that `which` names end as aborted: a chunk that is under way ends
  // first, and may do so after this has returned.
  void Cancel(const LaunchFilter& which, shm::EventStatus why);
  // The most urgent first, then the oldest.
  std::vector<CopyProgress> copies() const;
  bool idle() const;

  // Cancels all with kShutdown, and takes no more.
  void Stop();

 private:
  // The most urgent first, then the oldest.
  using Place = std::pair<uint32_t, uint64_t>;
  using Copies = std::map<Place, std::unique_ptr<MemoryCopy>>;
  static constexpr size_t kLanes = 2;

  void Run();
  // One of which nothing is under way, and nothing is to follow; end(): there is
  // none.
  Copies::iterator FindEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whose chunk is next; nullptr: nobody's.
  MemoryCopy* Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelLocked(const LaunchFilter& which, shm::EventStatus why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CopyChunk(MemoryCopy& copy) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  KernelMemory* const memory_;
  const CopyChunks chunks_;
  mutable Mutex mutex_;
  CondVar changed_;
  Copies copies_ ABSL_GUARDED_BY(mutex_);
  CopyTurns turns_ ABSL_GUARDED_BY(mutex_);
  uint64_t arrivals_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_COPY_QUEUE_H_
