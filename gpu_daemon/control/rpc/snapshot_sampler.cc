#include "gpu_daemon/control/rpc/snapshot_sampler.h"

#include <pthread.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr uint32_t kLeastIntervalMs = 50;
constexpr uint32_t kMostIntervalMs = 3'600'000;
constexpr uint32_t kIntervalMs = 100;
constexpr uint32_t kLeastHistogramsMs = 500;
constexpr uint32_t kHistogramsMs = 1000;
// A sample that comes so much too early is on time: the sampler goes by another
// reader, and by a clock.
constexpr Nanoseconds kEarly = kLeastIntervalMs * kMillisecond / 2;
// How often a stream without news looks whether its caller is still there.
constexpr std::chrono::milliseconds kLookEvery{100};

absl::StatusOr<Nanoseconds> IntervalOf(uint32_t asked_ms, uint32_t least_ms,
                                       uint32_t default_ms,
                                       std::string_view field) {
  if (asked_ms == 0) return default_ms * kMillisecond;
  if (asked_ms < least_ms || asked_ms > kMostIntervalMs) {
    return Error(absl::StatusCode::kInvalidArgument,
                 fmt::format("{} {}: must be from {} to {}, or 0 for {}", field,
                             asked_ms, least_ms, kMostIntervalMs, default_ms),
                 reason::kBadInterval, field);
  }
  return asked_ms * kMillisecond;
}

// Forgets those of rings that have gone.
void ForgetGone(const PictureSample& picture,
                std::map<uint32_t, uint32_t>* peaks) {
  if (peaks->empty()) return;
  std::set<uint32_t> rings;
  for (const RingSample& ring : picture.rings) rings.insert(ring.generation());
  std::erase_if(*peaks, [&](const auto& ring_and_peak) {
    return !rings.contains(ring_and_peak.first);
  });
}

std::chrono::steady_clock::time_point TimePoint(Nanoseconds at) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(at));
}

}  // namespace

absl::StatusOr<SnapshotSampler::Intervals> SnapshotSampler::IntervalsOf(
    const v1::StreamSnapshotsRequest& request) {
  ASSIGN_OR_RETURN(const Nanoseconds pictures,
                   IntervalOf(request.interval_ms(), kLeastIntervalMs,
                              kIntervalMs, "interval_ms"));
  ASSIGN_OR_RETURN(const Nanoseconds histograms,
                   IntervalOf(request.histograms_ms(), kLeastHistogramsMs,
                              kHistogramsMs, "histograms_ms"));
  return Intervals{pictures, histograms};
}

std::unique_ptr<SnapshotSampler::Reader> SnapshotSampler::Subscribe(
    const Intervals& intervals) {
  std::unique_ptr<Reader> reader(new Reader(this, intervals));
  MutexLock lock(mutex_);
  readers_.push_back(reader.get());
  // One that is being taken may be older than this call.
  reader->first_sample_ = samples_ + (sampling_ ? 2 : 1);
  awaited_ = true;
  if (!thread_.joinable() && !closed_) thread_ = std::thread([this] { Run(); });
  changed_.NotifyAll();
  return reader;
}

SnapshotSampler::Reader::~Reader() {
  MutexLock lock(sampler_->mutex_);
  sampler_->readers_.remove(this);
  if (!sampler_->readers_.empty()) return;
  sampler_->newest_ = {};
  sampler_->idle_ = true;
}

void SnapshotSampler::Close() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    thread = std::move(thread_);
    changed_.NotifyAll();
  }
  if (thread.joinable()) thread.join();
}

uint64_t SnapshotSampler::samples() const {
  MutexLock lock(mutex_);
  return samples_;
}

Nanoseconds SnapshotSampler::NextSample() const {
  // Readers that come and go by the dozen do not hurry it further.
  if (awaited_) return sampled_ns_ + kLeastIntervalMs * kMillisecond;
  Nanoseconds due = std::numeric_limits<Nanoseconds>::max() / 2;
  for (const Reader* reader : readers_) due = std::min(due, reader->due_ns_);
  return std::max(due, sampled_ns_ + kEarly);
}

bool SnapshotSampler::HistogramsDue(Nanoseconds now) const {
  if (newest_.histograms == nullptr) return true;
  if (now + kEarly < histograms_ns_ + kLeastHistogramsMs * kMillisecond) {
    return false;
  }
  for (const Reader* reader : readers_) {
    if (now + kEarly >= reader->histograms_due_ns_) return true;
  }
  return false;
}

void SnapshotSampler::Offer(Reader& reader, const Wanted& wanted,
                            Nanoseconds now) {
  if (samples_ < reader.first_sample_) return;
  const bool first = reader.due_ns_ == 0;
  if (first ||
      (wanted.histograms && now + kEarly >= reader.histograms_due_ns_)) {
    reader.histograms_due_ns_ =
        histograms_ns_ + reader.intervals_.histograms_ns;
  }
  const Nanoseconds taken = newest_.picture->common.monotonic_ns();
  if (taken + kEarly < reader.due_ns_) return;
  const Nanoseconds interval = reader.intervals_.pictures_ns;
  reader.number_ +=
      first ? 1 : 1 + (taken + kEarly - reader.due_ns_) / interval;
  // What comes early does not make the next one early.
  reader.due_ns_ = std::max(taken, reader.due_ns_) + interval;
  reader.ready_ = true;
}

void SnapshotSampler::Run() {
  pthread_setname_np(pthread_self(), "gpud-snapshots");
  MutexLock lock(mutex_);
  while (!closed_) {
    if (readers_.empty()) {
      newest_ = {};
      changed_.Wait(mutex_);
      continue;
    }
    const Nanoseconds now = NowNs();
    if (const Nanoseconds next = NextSample(); now < next) {
      changed_.WaitUntil(mutex_, TimePoint(next));
      continue;
    }
    const Wanted wanted = {.histograms = HistogramsDue(now),
                           .first = std::exchange(idle_, false)};
    awaited_ = false;
    sampled_ns_ = now;
    if (wanted.histograms) histograms_ns_ = now;
    sampling_ = true;
    const Sample last = newest_;
    lock.Unlock();
    Sample sample = take_(wanted, last);
    lock.Lock();
    sampling_ = false;
    newest_.picture = std::move(sample.picture);
    if (wanted.histograms) newest_.histograms = std::move(sample.histograms);
    ++samples_;
    for (Reader* reader : readers_) {
      ForgetGone(*newest_.picture, &reader->peaks_);
      for (const auto& [ring, peak] : sample.peaks) {
        uint32_t& most = reader->peaks_[ring];
        most = std::max(most, peak);
      }
      Offer(*reader, wanted, now);
    }
    changed_.NotifyAll();
  }
}

SnapshotSampler::Reader::Outcome SnapshotSampler::Reader::Next(
    std::chrono::milliseconds timeout, v1::Snapshot* message) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  Sample next;
  uint64_t number = 0;
  {
    MutexLock lock(sampler_->mutex_);
    while (!sampler_->closed_ && !ready_) {
      if (!sampler_->changed_.WaitUntil(sampler_->mutex_, deadline)) {
        return Outcome::kTimedOut;
      }
    }
    if (sampler_->closed_) return Outcome::kClosed;
    ready_ = false;
    number = number_;
    next = sampler_->newest_;
    next.peaks = std::exchange(peaks_, {});
  }
  if (sent_.histograms != nullptr &&
      next.histograms->taken_ns + kEarly <
          sent_.histograms->taken_ns + intervals_.histograms_ns) {
    next.histograms = sent_.histograms;
  }
  *message = ChangesBetween(sent_, next);
  message->set_number(number);
  sent_ = std::move(next);
  return Outcome::kSnapshot;
}

void StreamSnapshots(SnapshotSampler::Reader& reader,
                     const std::function<bool(const v1::Snapshot&)>& write,
                     const GivenUp& given_up) {
  v1::Snapshot message;
  while (!given_up()) {
    switch (reader.Next(kLookEvery, &message)) {
      case SnapshotSampler::Reader::Outcome::kSnapshot: {
        reader.SetWritingSince(NowNs());
        const bool written = write(message);
        reader.SetWritingSince(0);
        if (!written) return;
        break;
      }
      case SnapshotSampler::Reader::Outcome::kTimedOut:
        break;
      case SnapshotSampler::Reader::Outcome::kClosed:
        return;
    }
  }
}

}  // namespace carillon::gpud
