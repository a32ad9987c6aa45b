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
constexpr uint32_t kSlots = 256;
constexpr char kUpPurpose[] = "steps";
constexpr char kDownPurpose[] = "steps back";

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

// --- The near end.

absl::StatusOr<std::unique_ptr<NearStepLink>> NearStepLink::Start(
    const TlsNearLink::Settings& settings, std::function<void()> on_news) {
  std::unique_ptr<NearStepLink> steps(new NearStepLink(std::move(on_news)));
  ASSIGN_OR_RETURN(steps->link_, TlsNearLink::Start(settings, steps.get()));
  absl::Status status;
  steps->link_->With([&](NearEnd& near) {
    status = near.AddRing(kUp, {kSlots, kMaxEventBytes, 0, kUpPurpose},
                          Sequence(0), Sequence(0));
    if (!status.ok()) return;
    status = near.AddRing(kDown, {kSlots, 0, kMaxEventBytes, kDownPurpose},
                          Sequence(0), Sequence(kSlots));
  });
  RETURN_IF_ERROR(status);
  return steps;
}

void NearStepLink::Send(const v1::SessionStep& step) {
  {
    MutexLock lock(mutex_);
    out_.push_back(step.SerializeAsString());
  }
  RingAll();
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
  *to += out_[number.value() - stored_ - 1];
}

bool NearStepLink::TakeEnd(RingId ring, Sequence, const End& end) {
  MutexLock lock(mutex_);
  if (ring == kUp) {
    out_.pop_front();
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
    const TlsFarLink::Settings& settings, std::function<void()> on_news) {
  std::unique_ptr<FarStepLink> steps(new FarStepLink(std::move(on_news)));
  ASSIGN_OR_RETURN(steps->link_, TlsFarLink::Start(settings, steps.get()));
  return steps;
}

void FarStepLink::Send(const v1::SessionStep& step) {
  {
    MutexLock lock(mutex_);
    if (down_ == RingSerial()) return;  // nobody is there any more
    out_.push_back(step.SerializeAsString());
  }
  SayDone();
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
  const bool up = ring == kUp && limits.purpose == kUpPurpose;
  if (!up && (ring != kDown || limits.purpose != kDownPurpose)) {
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
    out_.clear();
    freed_ = asked_ = 0;
  }
  return absl::OkStatus();
}

void FarStepLink::Run(RingId ring, Sequence number, std::string_view event) {
  MutexLock lock(mutex_);
  if (ring == kUp) {
    in_.emplace_back(event);
  } else {
    asked_ = number.value();
  }
}

End FarStepLink::ReadEnd(RingId ring, Sequence number, std::string* output) {
  MutexLock lock(mutex_);
  if (ring == kDown) *output += out_[number.value() - freed_ - 1];
  return {shm::EventState::kDone, 0, {}};
}

void FarStepLink::Free(RingId ring, Sequence last) {
  if (ring != kDown) return;
  MutexLock lock(mutex_);
  while (freed_ < last.value()) {
    out_.pop_front();
    ++freed_;
  }
}

void FarStepLink::DropRing(RingId ring, GoneReason) {
  {
    MutexLock lock(mutex_);
    lost_ = true;
    (ring == kUp ? up_ : down_) = RingSerial();
    if (ring == kUp) in_.clear();
  }
  on_news_();
}

}  // namespace carillon::mesh
