#include "gpu_daemon/dispatch/chain.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/dispatch/make_launch.h"

namespace carillon::gpud {
namespace {

using shm::EventState;
using shm::EventStatus;

constexpr auto kNotTaken = static_cast<uint32_t>(EventStatus::kNotTaken);

// Of a follower that its chain has started. Returns whether this was its end, or
// it has been handed on in its turn.
bool EndAndWake(EventKernel& event, shm::Sequence sequence,
                const EventOutcome& outcome) {
  const bool ended = event.End(sequence, outcome);
  if (ended) event.memory().bell().Signal();
  event.NoteStopped();
  return ended ||
         (event.hands_to() != nullptr && outcome.state == EventState::kDone);
}

}  // namespace

absl::Status Chain::Connect(const EventKernel& source,
                            const EventKernel& follower,
                            std::vector<Step>* steps) {
  const simt::KernelInfo& from = *source.kmd().kernel;
  const simt::KernelInfo& to = *follower.kmd().kernel;
  std::vector<Step> found;
  for (const TakenBuffer& taken : follower.arguments().taken()) {
    const simt::ParamInfo& info = to.params[taken.parameter];
    const auto given =
        std::find_if(from.params.begin(), from.params.end(),
                     [&](const auto& p) { return p.name == taken.from; });
    const auto refuse = [&](std::string_view why) {
      return absl::FailedPreconditionError(fmt::format(
          "parameter '{}' of kernel '{}' cannot be parameter '{}' of kernel "
          "'{}' of device '{}': {}",
          info.name, to.name, taken.from, from.name, source.memory().name(),
          why));
    };
    if (given == from.params.end()) return refuse("it has none of that name");
    const ParameterBinding& binding =
        source.bindings()[given - from.params.begin()];
    if (!given->is_buffer() || binding.writable || !binding.taken.empty()) {
      return refuse("that is no buffer of fixed place");
    }
    if (given->element_size != info.element_size ||
        given->element_align < info.element_align) {
      return refuse("they have elements of other types");
    }
    found.push_back({info.offset, info.element_size, binding});
  }
  *steps = std::move(found);
  return absl::OkStatus();
}

absl::Status Chain::AddSource(const std::shared_ptr<EventKernel>& event) {
  MutexLock lock(mutex_);
  if (source_ != nullptr) {
    return absl::AlreadyExistsError(fmt::format(
        "event {} of device '{}' hands on to the same device; unregister that "
        "first",
        source_->event_id(), source_->memory().name()));
  }
  if (follower_ != nullptr) {
    RETURN_IF_ERROR(Connect(*event, *follower_, &steps_));
  }
  source_ = event;
  return absl::OkStatus();
}

absl::Status Chain::AddFollower(const std::shared_ptr<EventKernel>& event) {
  MutexLock lock(mutex_);
  if (follower_ != nullptr) {
    return absl::AlreadyExistsError(fmt::format(
        "event {} of device '{}' takes from the same device; unregister that "
        "first",
        follower_->event_id(), follower_->memory().name()));
  }
  if (source_ != nullptr) {
    RETURN_IF_ERROR(Connect(*source_, *event, &steps_));
  }
  follower_ = event;
  return absl::OkStatus();
}

void Chain::Leave(const EventKernel& event, bool stays) {
  std::deque<std::unique_ptr<KernelLaunch>> dropped;
  std::shared_ptr<EventKernel> gone;
  MutexLock lock(mutex_);
  if (source_.get() == &event) gone = std::move(source_);
  if (follower_.get() == &event) {
    gone = std::move(follower_);
    dropped = std::move(waiting_);
    waiting_.clear();
  }
  if (gone != nullptr) goes_down_ |= stays;
}

void Chain::Await(const std::shared_ptr<EventKernel>& event,
                  shm::Sequence sequence, const CheckedEntry& entry) {
  auto launch = MakeLaunch(event, sequence, entry);
  MutexLock lock(mutex_);
  if (follower_ == event) waiting_.push_back(std::move(launch));
}

bool Chain::GoesDown() {
  MutexLock lock(mutex_);
  return goes_down_;
}

bool Chain::HandOn(const EventKernel& event, shm::Sequence sequence,
                   const EventOutcome& outcome) {
  std::unique_ptr<KernelLaunch> launch;
  std::shared_ptr<EventKernel> source;
  std::vector<Step> steps;
  {
    MutexLock lock(mutex_);
    if (goes_down_) return true;
    if (source_.get() != &event || waiting_.empty()) return false;
    source = source_;
    launch = std::move(waiting_.front());
    waiting_.pop_front();
    launch->event->NoteStarted();
    steps = steps_;
  }
  return Start(std::move(launch), std::move(source), sequence, outcome, steps);
}

bool Chain::Start(std::unique_ptr<KernelLaunch> launch,
                  std::shared_ptr<EventKernel> source, shm::Sequence sequence,
                  const EventOutcome& outcome, const std::vector<Step>& steps) {
  const uint32_t slot = source->ring().layout().SlotOf(sequence);
  for (const Step& step : steps) {
    const simt::Span<const std::byte> span{
        step.binding.buffer.data + slot * step.binding.slot_stride,
        step.binding.buffer.bytes / step.element_bytes};
    std::memcpy(launch->args.get() + step.args_offset, &span, sizeof(span));
  }
  const KernelMetadata& kmd = launch->kmd;
  if (kmd.kernel->validate != nullptr &&
      kmd.kernel->validate({kmd.grid, kmd.block, kmd.total_shared()},
                           launch->args.get()) != nullptr) {
    EndAndWake(*launch->event, launch->sequence,
               {.state = EventState::kFailed,
                .status = static_cast<uint32_t>(EventStatus::kBadParameter)});
    return false;
  }
  const bool traced = outcome.life != nullptr;
  // The source has this chain.
  launch->on_end = [this, follower = launch->event, ends = launch->sequence,
                    its_life = launch->life, source = std::move(source),
                    sequence, traced,
                    life = traced ? *outcome.life : shm::EventLife{}](
                       const LaunchResult& result) mutable {
    its_life.dispatched_ns = result.dispatched_ns;
    its_life.finished_ns = result.finished_ns;
    // A follower that was aborted meanwhile has told nobody of this result.
    const bool arrived =
        EndAndWake(*follower, ends,
                   {.state = result.state,
                    .status = result.status,
                    .life = its_life.seen_ns != 0 ? &its_life : nullptr}) &&
        result.state == EventState::kDone;
    // How the source's event ends is its own session's to say.
    if (!arrived && GoesDown()) return;
    // Not EventKernel::End(): it has been handed on.
    if (source->ledger().Finish(sequence, {.state = EventState::kDone,
                                           .status = arrived ? 0 : kNotTaken,
                                           .life = traced ? &life : nullptr})) {
      source->memory().bell().Signal();
    }
  };
  submit_(std::move(launch));
  return true;
}

std::shared_ptr<Chain> ChainTable::Find(const std::string& source,
                                        const std::string& follower,
                                        const Chain::Submit& submit) {
  MutexLock lock(mutex_);
  std::erase_if(chains_, [](const auto& one) { return one.second.expired(); });
  std::weak_ptr<Chain>& place = chains_[{source, follower}];
  std::shared_ptr<Chain> chain = place.lock();
  if (chain == nullptr) place = chain = std::make_shared<Chain>(submit);
  return chain;
}

}  // namespace carillon::gpud
