// Samples a testbed for all calls to Admin.StreamSnapshots.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_SNAPSHOT_SAMPLER_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_SNAPSHOT_SAMPLER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/control/rpc/snapshot_changes.h"
#include "gpu_daemon/control/sessions/drain.h"
#include "proto/admin.pb.h"

namespace carillon::gpud {

// One thread samples, only while somebody reads, whenever it is some reader's
// time; readers whose times are close share a sample. Each reader finds what has
// changed for it in a thread of its own, and nothing waits for it: one that comes
// late finds the newest sample only.
// Thread safe.
class SnapshotSampler {
 public:
  struct Intervals {
    Nanoseconds pictures_ns = 0;
    Nanoseconds histograms_ns = 0;
  };
  // Errors: InvalidArgument BAD_INTERVAL.
  static absl::StatusOr<Intervals> IntervalsOf(
      const v1::StreamSnapshotsRequest& request);

  // What the sampler asks for.
  struct Wanted {
    bool histograms = false;
    // Nobody has read before: the peaks are those of this moment.
    bool first = false;
  };
  // `last`: the newest one, whose messages it may share; empty if nobody has
  // read.
  using Take = std::function<Sample(const Wanted&, const Sample& last)>;

  // `take` is called by one thread at a time, and outlives this object.
  explicit SnapshotSampler(Take take) : take_(std::move(take)) {}
  ~SnapshotSampler() { Close(); }  // its readers must have gone

  // One call's. For one thread, but for what says otherwise.
  class Reader {
   public:
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    enum class Outcome { kSnapshot, kTimedOut, kClosed };
    // Waits until the reader's interval is over, and gives what has changed
    // since it gave something last.
    Outcome Next(std::chrono::milliseconds timeout, v1::Snapshot* message);

    // Since when the reader's last message has waited to be taken; 0: none
    // waits. Any thread.
    Nanoseconds writing_since_ns() const {
      return writing_since_ns_.load(std::memory_order_relaxed);
    }
    void SetWritingSince(Nanoseconds now) {
      writing_since_ns_.store(now, std::memory_order_relaxed);
    }

   private:
    friend class SnapshotSampler;
    Reader(SnapshotSampler* sampler, const Intervals& intervals)
        : sampler_(sampler), intervals_(intervals) {}

    SnapshotSampler* const sampler_;
    const Intervals intervals_;
    // The sampler's mutex guards these:
    // Since its last message, of the rings that there are.
    std::map<uint32_t, uint32_t> peaks_;
    // Samples before this one were there before the reader.
    uint64_t first_sample_ = 0;
    // When the next picture and the next histograms are for it; 0: the first
    // ones that come.
    Nanoseconds due_ns_ = 0;
    Nanoseconds histograms_due_ns_ = 0;
    // How many of its intervals have come.
    uint64_t number_ = 0;
    // One of them has come since it took the newest sample.
    bool ready_ = false;
    // The reader's own thread's:
    Sample sent_;
    // Writer: the reader's thread; reader: who looks for stuck calls. Relaxed:
    // it says nothing about other memory.
    std::atomic<Nanoseconds> writing_since_ns_{0};
  };
  // The first sample that the reader gets is younger than this call; beside other
  // readers, its histograms may be half a second older.
  std::unique_ptr<Reader> Subscribe(const Intervals& intervals);

  // All readers find the stream closed. Returns when no sample is being taken.
  void Close();

  // How many samples were taken.
  uint64_t samples() const;

 private:
  void Run();
  Nanoseconds NextSample() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HistogramsDue(Nanoseconds now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The newest sample has come, with histograms if they were wanted at `now`.
  void Offer(Reader& reader, const Wanted& wanted, Nanoseconds now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Take take_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::list<Reader*> readers_ ABSL_GUARDED_BY(mutex_);
  // Without peaks: those are with the readers. No picture: nobody reads.
  Sample newest_ ABSL_GUARDED_BY(mutex_);
  uint64_t samples_ ABSL_GUARDED_BY(mutex_) = 0;
  Nanoseconds sampled_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  Nanoseconds histograms_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  // Nobody has read at some time since a sample was begun.
  bool idle_ ABSL_GUARDED_BY(mutex_) = true;
  // A sample is being taken, without the mutex.
  bool sampling_ ABSL_GUARDED_BY(mutex_) = false;
  // A reader has come, which has no picture yet.
  bool awaited_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Once somebody has read.
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

// Serves one call: writes messages until `write` says that the reader has gone,
// the call is given up, or the sampler closes.
void StreamSnapshots(SnapshotSampler::Reader& reader,
                     const std::function<bool(const v1::Snapshot&)>& write,
                     const GivenUp& given_up);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_SNAPSHOT_SAMPLER_H_
