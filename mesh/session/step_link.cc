#include "mesh/session/step_link.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace carillon::mesh {
namespace {

using shm::Sequence;

constexpr RingId kUp(1);
constexpr RingId kDown(2);
// Times kMaxStepBytes: what may have come that nobody has taken.
constexpr uint32_t kSlots = 64;
constexpr size_t kMaxWaitingBytes = size_t{1} << 20;
constexpr char kUpPurpose[] = "steps";
constexpr char kDownPurpose[] = "steps back";

// Of the same build, as HELLO has told, the other end wants these and no others.
RingLimits UpLimits() { return {kSlots, kMaxStepBytes, 0, kUpPurpose}; }
RingLimits DownLimits() { return {kSlots, 0, kMaxStepBytes, kDownPurpose}; }

// What a step has that cannot be read, is of a broken peer: it says nothing.
std::vector<v1::SessionStep> Read(const std::vector<std::string>& texts) {
  std::vector<v1::SessionStep> steps(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!steps[i].ParseFromString(texts[i])) steps[i].Clear();
  }
  return steps;
}

}  // namespace

std::string SimulatedCatalogue(std::string_view catalogue,
                               std::string_view simulation) {
  return fmt::format("{}, simulated {}", catalogue, simulation);
}

void StepQueue::Push(const v1::SessionStep& step) {
  steps_.push_back(step.SerializeAsString());
  bytes_ += sizeof(std::string) + steps_.back().size();
}

void StepQueue::Pop() {
  bytes_ -= sizeof(std::string) + steps_.front().size();
  steps_.pop_front();
}

void StepQueue::Clear() {
  steps_.clear();
  bytes_ = 0;
}

bool StepQueue::is_full() const { return bytes_ > kMaxWaitingBytes; }

// --- The near end.

absl::StatusOr<std::unique_ptr<NearStepLink>> NearStepLink::Start(
    const NearLink::Settings& settings, std::function<void()> on_news) {
  std::unique_ptr<NearStepLink> steps(new NearStepLink(std::move(on_news)));
  ASSIGN_OR_RETURN(steps->link_, NearLink::Start(settings, steps.get()));
  absl::Status status;
  steps->link_->With([&](NearEnd& near) {
    status = near.AddRing(kUp, UpLimits(), Sequence(0), Sequence(0));
    if (!status.ok()) return;
    status = near.AddRing(kDown, DownLimits(), Sequence(0), Sequence(kSlots));
  });
  RETURN_IF_ERROR(status);
  return steps;
}

void NearStepLink::Send(const v1::SessionStep& step) {
  {
    MutexLock lock(mutex_);
    out_.Push(step);
  }
  RingAll();
}

bool NearStepLink::is_full() const {
  MutexLock lock(mutex_);
  return out_.is_full();
}

StepNews NearStepLink::Take() {
  StepNews news;
  std::vector<std::string> texts;
  {
    MutexLock lock(mutex_);
    texts = std::exchange(in_, {});
    taken_ += texts.size();
    news.lost = lost_;
  }
  if (!news.lost) RingAll();
  news.steps = Read(texts);
  return news;
}

void NearStepLink::RingAll() {
  link_->With([&](NearEnd& near) {
    MutexLock lock(mutex_);
    if (lost_) return;
    const uint64_t up = stored_ + std::min<uint64_t>(out_.size(), kSlots);
    const uint64_t down = taken_ + kSlots;
    lock.Unlock();
    near.Rang(kUp, Sequence(up));
    near.Rang(kDown, Sequence(down));
    lock.Lock();
  });
}

void NearStepLink::ReadEvent(RingId ring, Sequence number, std::string* to) {
  if (ring != kUp) return;
  MutexLock lock(mutex_);
  *to += out_.at(number.value() - stored_ - 1);
}

bool NearStepLink::TakeEnd(RingId ring, Sequence, const End& end) {
  MutexLock lock(mutex_);
  if (ring == kUp) {
    out_.Pop();
    ++stored_;
  } else {
    in_.emplace_back(end.output);
  }
  return true;
}

void NearStepLink::LoseRing(RingId, const std::string& why, bool) {
  LoseLink(why);
}

void NearStepLink::LoseLink(const std::string& why) {
  {
    MutexLock lock(mutex_);
    if (!lost_) lost_ = why;
  }
  on_news_();
}

// --- The far end.

absl::StatusOr<std::unique_ptr<FarStepLink>> FarStepLink::Start(
    const FarLink::Settings& settings, std::function<void()> on_news) {
  std::unique_ptr<FarStepLink> steps(new FarStepLink(std::move(on_news)));
  ASSIGN_OR_RETURN(steps->link_, FarLink::Start(settings, steps.get()));
  return steps;
}

void FarStepLink::Send(const v1::SessionStep& step) {
  {
    MutexLock lock(mutex_);
    if (down_ == RingSerial()) return;  // nobody is there any more
    out_.Push(step);
  }
  SayDone();
}

bool FarStepLink::is_full() const {
  MutexLock lock(mutex_);
  return !lost_ && out_.is_full();
}

StepNews FarStepLink::Take() {
  StepNews news;
  std::vector<std::string> texts;
  {
    MutexLock lock(mutex_);
    texts = std::exchange(in_, {});
    taken_ += texts.size();
    if (std::exchange(lost_, false)) news.lost = "";
  }
  SayDone();
  news.steps = Read(texts);
  return news;
}

void FarStepLink::SayDone() {
  link_->With([&](FarEnd& far) {
    MutexLock lock(mutex_);
    const RingSerial up = up_;
    const RingSerial down = down_;
    const uint64_t taken = taken_;
    const uint64_t said = std::min<uint64_t>(asked_, freed_ + out_.size());
    lock.Unlock();
    if (up != RingSerial()) far.Done(kUp, up, Sequence(taken));
    if (down != RingSerial()) far.Done(kDown, down, Sequence(said));
    lock.Lock();
  });
}

std::optional<absl::Status> FarStepLink::MakeRing(RingId ring,
                                                  RingSerial serial,
                                                  const RingLimits& limits,
                                                  Sequence last) {
  const bool up = ring == kUp && limits == UpLimits();
  if (!up && (ring != kDown || limits != DownLimits())) {
    return absl::InvalidArgumentError(
        "in simulated time a link carries sessions alone");
  }
  if (last != Sequence(0)) {
    return absl::FailedPreconditionError(
        "linkd has been started again, and simulated time does not go back: "
        "bring all hosts down, and up again");
  }
  MutexLock lock(mutex_);
  if (up) {
    up_ = serial;
    in_.clear();
    taken_ = 0;
  } else {
    down_ = serial;
    out_.Clear();
    freed_ = asked_ = 0;
  }
  return absl::OkStatus();
}

void FarStepLink::RunEvent(RingId ring, Sequence number,
                           std::string_view event) {
  MutexLock lock(mutex_);
  if (ring == kUp) {
    in_.emplace_back(event);
  } else {
    asked_ = number.value();
  }
}

End FarStepLink::ReadEnd(RingId ring, Sequence number, std::string* output) {
  MutexLock lock(mutex_);
  if (ring == kDown) *output += out_.at(number.value() - freed_ - 1);
  return {shm::EventState::kDone, 0, {}};
}

void FarStepLink::Free(RingId ring, Sequence last) {
  if (ring != kDown) return;
  bool has_room = false;
  {
    MutexLock lock(mutex_);
    const bool was_full = out_.is_full();
    while (freed_ < last.value()) {
      out_.Pop();
      ++freed_;
    }
    has_room = was_full && !out_.is_full();
  }
  if (has_room) on_news_();
}

void FarStepLink::DropRing(RingId ring, GoneReason) {
  {
    MutexLock lock(mutex_);
    lost_ = true;
    if (ring == kUp) {
      up_ = RingSerial();
      in_.clear();
    } else {
      down_ = RingSerial();
      out_.Clear();
    }
  }
  on_news_();
}

}  // namespace carillon::mesh
