#include "gpu_daemon/backends/remote/remote_link.h"

#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_replace.h"
#include "base/clock.h"
#include "base/incarnation/incarnation.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/remote/remote_ring.h"
#include "gpu_daemon/event/refusal.h"
#include "kernels/catalogue.h"

namespace carillon::gpud {
namespace {

using mesh::RingId;
using shm::Sequence;
using std::chrono::milliseconds;

// A registration: how long the other host may take, whose first one may start a
// launch path; and how long there may be no link. A device's call has 5 s.
constexpr milliseconds kAnswerWithin{4000};
constexpr milliseconds kLinkWithin{1000};
constexpr milliseconds kLook{5};
constexpr milliseconds kNewLinkPause{500};
constexpr milliseconds kAgainPause{100};
constexpr milliseconds kStatusLook{500};
constexpr Nanoseconds kSecond = 1'000'000'000;

// gpud takes its signals once it serves.
bool IsToldToEnd() {
  sigset_t pending;
  if (sigpending(&pending) != 0) return false;
  return std::ranges::any_of(
      std::array{SIGTERM, SIGINT, SIGUSR1},
      [&](int signal) { return sigismember(&pending, signal) == 1; });
}

}  // namespace

absl::StatusOr<std::unique_ptr<RemoteLink>> RemoteLink::Start(
    const RemoteOptions& options, OnLost on_lost) {
  std::unique_ptr<RemoteLink> remote(
      new RemoteLink(options, std::move(on_lost)));
  ASSIGN_OR_RETURN(remote->incarnation_,
                   NextIncarnation(options.incarnation_file));
  RETURN_IF_ERROR(remote->Connect());
  const Nanoseconds began = NowNs();
  bool told = false;
  for (;;) {
    const mesh::LinkStatus status = remote->status();
    if (status.up) break;
    const Nanoseconds waited = NowNs() - began;
    const bool is_final =
        status.lost || (!status.refusal.empty() && options.RefusalIsFinal());
    const std::string why = mesh::NoLinkTo(options.peer, status);
    if (is_final || waited >= options.StartWait()) {
      return absl::UnavailableError("--link: " + why);
    }
    if (IsToldToEnd()) return absl::CancelledError("told to end");
    if (options.restarted && !told && waited > kSecond) {
      spdlog::warn("{}; waits up to {} s for it", why,
                   options.StartWait() / kSecond);
      told = true;
    }
    std::this_thread::sleep_for(kLook);
  }
  remote->keeper_ = std::thread([self = remote.get()] { self->Keep(); });
  return remote;
}

RemoteLink::RemoteLink(const RemoteOptions& options, OnLost on_lost)
    : options_(options), on_lost_(std::move(on_lost)) {}

RemoteLink::~RemoteLink() {
  std::shared_ptr<mesh::NearLink> link;
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  if (keeper_.joinable()) keeper_.join();
  MutexLock lock(mutex_);
  link = std::move(link_);
  lock.Unlock();
  link.reset();  // its thread may be in a function of ours
  lock.Lock();
}

absl::Status RemoteLink::Connect() {
  const auto before = this->link();
  const mesh::NearLink::Settings settings{
      .tls = options_.tls,
      .address = options_.address,
      .link = {.self = {.testbed = options_.testbed,
                        .host = options_.host,
                        .build = mesh::OwnBuild(),
                        .catalogue = simt::OwnCatalogue(),
                        .incarnation = incarnation_++},
               .peer = options_.peer,
               .times = {.timeout = options_.timeout, .lease = options_.lease}},
      .engine = options_.engine.engine(),
      .history = before ? before->history() : mesh::LinkHistory()};
  auto link = mesh::NearLink::Start(settings, this);
  if (!link.ok()) {
    // The files are called --link-cert and so on here.
    return absl::Status(
        link.status().code(),
        fmt::format("--link: {}",
                    absl::StrReplaceAll(link.status().message(),
                                        {{"--tls-", "--link-"}})));
  }
  std::shared_ptr<mesh::NearLink> old = *std::move(link);
  MutexLock lock(mutex_);
  std::swap(old, link_);
  lock.Unlock();
  old.reset();  // its thread may be in a function of ours
  lock.Lock();
  return absl::OkStatus();
}

std::shared_ptr<mesh::NearLink> RemoteLink::link() const {
  MutexLock lock(mutex_);
  return link_;
}

RemoteLink::CarriedRing* RemoteLink::Find(RingId ring) {
  const auto found = rings_.find(ring);
  return found == rings_.end() ? nullptr : &found->second;
}

absl::Status RemoteLink::Add(EventKernel& event) {
  const auto link = this->link();
  const mesh::LinkStatus now = link->status();
  absl::Status status;
  {
    MutexLock lock(mutex_);
    const auto found = ids_.find(&event);
    if (found == ids_.end()) {
      lock.Unlock();
      return Begin(event);
    }
    const CarriedRing& ring = rings_.at(found->second);
    if (ring.held) return absl::OkStatus();
    const std::chrono::nanoseconds within =
        now.up ? kAnswerWithin : kLinkWithin;
    const bool late =
        NowNs() - ring.asked_ns > static_cast<Nanoseconds>(within.count());
    if (ring.refused) {
      status = ring.passing ? absl::UnavailableError(*ring.refused)
                            : absl::FailedPreconditionError(*ring.refused);
    } else if (late) {
      status = absl::UnavailableError(fmt::format(
          "host '{}' does not answer: {}", options_.peer,
          now.up || now.error.empty() ? "the link is slow" : now.error));
    } else {
      return NotYet();
    }
  }
  Remove(event);
  return status;
}

absl::Status RemoteLink::Begin(EventKernel& event) {
  ASSIGN_OR_RETURN(const mesh::RingLimits limits, DescribeRing(event));
  const auto link = this->link();
  if (const mesh::LinkStatus now = link->status(); now.lost) {
    return absl::UnavailableError(fmt::format(
        "the link to host '{}' is lost: {}", options_.peer, now.error));
  }
  RingId id;
  {
    MutexLock lock(mutex_);
    for (const auto& [other_id, other] : rings_) {
      if (&other.event->memory() != &event.memory() ||
          !ShareOutput(event, *other.event)) {
        continue;
      }
      return absl::UnimplementedError(fmt::format(
          "event kernels '{}' and '{}' write to one buffer: the remote "
          "back-end needs one for each",
          other.event->kmd().kernel->name, event.kmd().kernel->name));
    }
    id = ++last_id_;
    ids_[&event] = id;
    rings_[id] = CarriedRing(&event, limits.slots, NowNs());
  }
  absl::Status status;
  link->With([&](mesh::NearEnd& near) {
    status = near.AddRing(id, limits, Sequence(0), Sequence(0));
  });
  if (status.ok()) return NotYet();
  Remove(event);
  return status;
}

void RemoteLink::Remove(const EventKernel& event) {
  RingId id;
  std::shared_ptr<mesh::NearLink> link;
  {
    MutexLock lock(mutex_);
    const auto found = ids_.find(&event);
    if (found == ids_.end()) return;
    id = found->second;
    ids_.erase(found);
    rings_.erase(id);
    link = link_;
  }
  link->With([&](mesh::NearEnd& near) { near.RemoveRing(id); });
}

void RemoteLink::Batch::Add(const std::shared_ptr<EventKernel>& event,
                            Sequence sequence, const CheckedEntry& entry) {
  events_.push_back({event, sequence, entry.life, args_.size()});
  const std::byte* const args = entry.args.data();
  args_.insert(args_.end(), args, args + event->kmd().kernel->args_size);
}

RemoteLink::CarriedRing::CarriedRing(EventKernel* event, uint32_t slots,
                                     Nanoseconds asked_ns)
    : event(event),
      slots(slots),
      args_stride(shm::AlignUp(event->kmd().kernel->args_size,
                               alignof(std::max_align_t))),
      args(args_stride * slots),
      asked_ns(asked_ns) {}

void RemoteLink::Ring(Batch& batch) {
  // Few rings, and events of one mostly follow each other.
  std::vector<std::pair<RingId, CarriedRing*>> rung;
  std::vector<std::pair<RingId, Sequence>> last;
  std::shared_ptr<mesh::NearLink> link;
  {
    MutexLock lock(mutex_);
    for (Batch::Event& event : batch.events_) {
      const EventKernel* const kernel = event.kernel.get();
      auto at = std::find_if(rung.rbegin(), rung.rend(), [&](const auto& one) {
        return one.second->event == kernel;
      });
      if (at == rung.rend()) {
        const auto id = ids_.find(kernel);
        if (id == ids_.end()) continue;  // it is being removed
        rung.emplace_back(id->second, &rings_.at(id->second));
        at = rung.rbegin();
      }
      CarriedRing& ring = *at->second;
      const uint64_t number = ++ring.rung;
      std::memcpy(ring.ArgsOf(number), batch.args_.data() + event.args,
                  kernel->kmd().kernel->args_size);
      ring.SlotOf(number) = {std::move(event.kernel), event.sequence,
                             event.life};
    }
    for (const auto& [id, ring] : rung) {
      last.emplace_back(id, Sequence(ring->rung));
    }
    link = link_;
  }
  batch.events_.clear();
  batch.args_.clear();
  if (last.empty()) return;
  link->With([&](mesh::NearEnd& near) {
    for (const auto& [id, number] : last) near.Rang(id, number);
  });
}

mesh::LinkStatus RemoteLink::status() const { return link()->status(); }

std::string RemoteLink::ToString() const {
  const mesh::LinkStatus now = status();
  std::string waits;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, ring] : rings_) {
      if (ring.refused_ns == 0 || !ring.refused) continue;
      waits = fmt::format(", but device '{}' waits: {}",
                          ring.event->memory().name(), *ring.refused);
      break;
    }
  }
  return fmt::format(
      "{} ({}), now {}", options_.peer, options_.address,
      now.up ? "up" + waits
             : fmt::format("down: {}",
                           now.error.empty() ? "no answer" : now.error));
}

uint64_t RemoteLink::in_flight() const {
  MutexLock lock(mutex_);
  uint64_t events = 0;
  for (const auto& [id, ring] : rings_) events += ring.rung - ring.ended;
  return events;
}

void RemoteLink::ReadEvent(RingId id, Sequence number, std::string* to) {
  MutexLock lock(mutex_);
  CarriedRing* const ring = Find(id);
  if (ring == nullptr) return;  // it is being removed
  CarriedRing::Slot& slot = ring->SlotOf(number.value());
  if (slot.life.seen_ns != 0) slot.life.dispatched_ns = NowNs();
  AppendEvent(*ring->event, ring->ArgsOf(number.value()), to);
}

bool RemoteLink::TakeEnd(RingId id, Sequence number, const mesh::End& end) {
  MutexLock lock(mutex_);
  CarriedRing* const ring = Find(id);
  if (ring == nullptr) return true;
  CarriedRing::Slot& slot = ring->SlotOf(number.value());
  EventOutcome outcome{.state = end.state, .status = end.status};
  if (mesh::HasOutput(end.state, end.status) &&
      !StoreOutput(*ring->event, ring->ArgsOf(number.value()), end.output)) {
    spdlog::error("host '{}' sends {} bytes as the output of event {} of '{}'",
                  options_.peer, end.output.size(), slot.sequence.value(),
                  ring->event->memory().name());
    outcome = {.state = shm::EventState::kFailed,
               .status = static_cast<uint32_t>(shm::EventStatus::kKernelFault)};
  }
  if (slot.life.seen_ns != 0) {
    slot.life.finished_ns = NowNs();
    outcome.life = &slot.life;
  }
  ring->ended = number.value();
  ended_last_ = std::move(slot.event);
  if (!ended_last_->End(slot.sequence, outcome))
    late_ends_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// A frame is of one ring.
void RemoteLink::FlushEnds() {
  if (ended_last_ != nullptr) ended_last_->memory().bell().Signal();
  ended_last_.reset();
}

void RemoteLink::HoldRing(RingId id) {
  MutexLock lock(mutex_);
  if (CarriedRing* const ring = Find(id)) {
    ring->held = true;
    ring->refused.reset();
    ring->refused_ns = 0;
  }
  changed_.NotifyAll();
}

void RemoteLink::LoseRing(RingId id, const std::string& why, bool passing) {
  MutexLock lock(mutex_);
  CarriedRing* const ring = Find(id);
  if (ring == nullptr) return;
  ring->refused = why;
  ring->passing = passing;
  if (ring->held && passing) {
    if (ring->refused_ns == 0) {
      ring->refused_ns = NowNs();
      spdlog::warn("device '{}': {}; its events wait",
                   ring->event->memory().name(), why);
    }
    ring->again = true;
  } else if (ring->held) {
    lost_devices_[ring->event->shared_memory()] = why;
  }
  changed_.NotifyAll();
}

void RemoteLink::LoseLink(const std::string& why) {
  MutexLock lock(mutex_);
  link_lost_ = true;
  for (auto& [id, ring] : rings_) {
    ring.refused = why;
    ring.passing = true;
    ring.again = false;
    if (ring.held) lost_devices_[ring.event->shared_memory()] = why;
  }
  changed_.NotifyAll();
}

bool RemoteLink::MustAddAgain() const {
  return std::any_of(rings_.begin(), rings_.end(),
                     [](const auto& entry) { return entry.second.again; });
}

void RemoteLink::AddAgain() {
  const auto link = this->link();
  // What is rung meanwhile is in the ring that is added, or is rung after that.
  link->With([&](mesh::NearEnd& near) {
    MutexLock lock(mutex_);
    std::vector<RingId> ids;
    for (auto& [id, ring] : rings_) {
      if (!ring.again) continue;
      if (NowNs() - ring.refused_ns <= options_.lease) {
        ids.push_back(id);
        continue;
      }
      ring.again = false;
      lost_devices_[ring.event->shared_memory()] =
          fmt::format("{}, for longer than the lease of {}", *ring.refused,
                      FormatExactDuration(options_.lease));
    }
    for (const RingId id : ids) {
      CarriedRing& ring = rings_.at(id);
      const auto limits = DescribeRing(*ring.event);
      const RingId next(last_id_.value() + 1);
      if (!limits.ok() || !near.AddRing(next, *limits, Sequence(ring.ended),
                                        Sequence(ring.rung))
                               .ok()) {
        continue;
      }
      last_id_ = next;
      ring.again = false;
      ids_[ring.event] = next;
      auto node = rings_.extract(id);
      node.key() = next;
      rings_.insert(std::move(node));
    }
  });
}

void RemoteLink::SayRefusal(const mesh::LinkStatus& status) {
  // A new link has had none.
  if (status.refusal.empty() || status.refusal == said_refusal_) return;
  said_refusal_ = status.refusal;
  spdlog::warn("link to {}: {}", options_.address, said_refusal_);
}

void RemoteLink::SayOutage(const mesh::LinkStatus& status) {
  const Nanoseconds now = NowNs();
  if (!status.up || status.downs == said_downs_ ||
      now - said_down_at_ns_ < kSecond) {
    return;
  }
  said_down_at_ns_ = now;
  const uint64_t downs =
      status.downs - std::exchange(said_downs_, status.downs);
  const Nanoseconds down = status.down - std::exchange(said_down_, status.down);
  spdlog::warn("link to {} was down for {}{}: {}; up again", options_.peer,
               FormatNanoseconds(down),
               downs == 1 ? "" : fmt::format(", {} times", downs),
               status.error.empty() ? "it was lost" : status.error);
}

void RemoteLink::NoteClock(const mesh::LinkStatus& status) {
  if (options_.recorder_directory.empty()) return;
  const auto clock = status.clock;
  if (!clock) return;
  shm::PeerClock now{options_.host, options_.peer, clock->offset, clock->error};
  if (now == noted_) return;
  noted_ = std::move(now);
  // What cannot be written is missed by `postmortem` alone, which says so.
  shm::WritePeerClock(options_.recorder_directory, noted_).IgnoreError();
}

void RemoteLink::Keep() {
  pthread_setname_np(pthread_self(), "gpud-link-keep");
  Nanoseconds next_link_ns = 0;
  MutexLock lock(mutex_);
  while (!stop_) {
    if (lost_devices_.empty() && !link_lost_) {
      if (!MustAddAgain()) {
        changed_.WaitFor(mutex_, kStatusLook);
        lock.Unlock();
        const mesh::LinkStatus now = status();
        SayRefusal(now);
        SayOutage(now);
        NoteClock(now);
        lock.Lock();
        continue;
      }
      // Other rings' news do not make it shorter.
      const auto until = std::chrono::steady_clock::now() + kAgainPause;
      while (!stop_ && lost_devices_.empty() && !link_lost_ &&
             changed_.WaitUntil(mutex_, until)) {
      }
      lock.Unlock();
      AddAgain();
      lock.Lock();
      continue;
    }
    const auto devices = std::exchange(lost_devices_, {});
    lock.Unlock();
    for (const auto& [device, why] : devices) on_lost_(device, why);
    lock.Lock();
    if (!link_lost_) continue;
    if (const Nanoseconds now = NowNs(); now < next_link_ns) {
      changed_.WaitFor(mutex_, std::chrono::nanoseconds(next_link_ns - now));
      continue;
    }
    link_lost_ = false;
    lock.Unlock();
    absl::Status status;
    if (this->status().fenced) {
      spdlog::error("{}: this gpud has no link any more", this->status().error);
    } else {
      status = Connect();
      next_link_ns = NowNs() + std::chrono::nanoseconds(kNewLinkPause).count();
    }
    if (!status.ok()) spdlog::error("{}", std::string(status.message()));
    lock.Lock();
    if (!status.ok()) link_lost_ = true;
  }
}

}  // namespace carillon::gpud
