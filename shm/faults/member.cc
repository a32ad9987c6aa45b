#include <fnmatch.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "shm/faults/board.h"
#include "shm/faults/board_layout.h"
#include "shm/faults/point.h"
#include "shm/load_shared.h"
#include "shm/waiting.h"

namespace carillon::faults {
namespace {

// SplitMix64: the n-th number of a stream.
uint64_t Draw(uint64_t seed, uint64_t n) {
  uint64_t z = seed + n * 0x9e37'79b9'7f4a'7c15;
  z = (z ^ z >> 30) * 0xbf58'476d'1ce4'e5b9;
  z = (z ^ z >> 27) * 0x94d0'49bb'1331'11eb;
  return z ^ z >> 31;
}

// [0, 1).
double Unit(uint64_t random) {
  return static_cast<double>(random >> 11) * 0x1p-53;
}

bool Matches(const std::string& glob, std::string_view text) {
  return glob == "*" ||
         fnmatch(glob.c_str(), std::string(text).c_str(), 0) == 0;
}

// Nothing of this process runs between its SIGSTOP and its SIGCONT, but the
// kernel's timer does.
void StopSelf(Nanoseconds duration) {
  timer_t timer{};
  bool armed = false;
  if (duration > 0) {
    struct sigevent event {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGCONT;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return;
    armed = true;
    struct itimerspec in {};
    in.it_value.tv_sec = static_cast<time_t>(duration / 1'000'000'000);
    in.it_value.tv_nsec = static_cast<long>(duration % 1'000'000'000);
    timer_settime(timer, 0, &in, nullptr);
  }
  raise(SIGSTOP);
  if (armed) timer_delete(timer);
}

void Delay(Nanoseconds duration) {
  struct timespec left {};
  left.tv_sec = static_cast<time_t>(duration / 1'000'000'000);
  left.tv_nsec = static_cast<long>(duration % 1'000'000'000);
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
  }
}

uint64_t StrikesOf(const FaultSlot& slot) {
  return shm::LoadShared(slot.counters.struck, std::memory_order_relaxed);
}

bool IsSpent(const Fault& fault, uint64_t struck) {
  return fault.times != 0 && struck >= fault.times;
}

// A fault that may strike this process.
struct Watched {
  uint32_t id = 0;
  Fault fault;
  Nanoseconds injected_ns = 0;
  FaultSlot* slot = nullptr;
  FaultSlot* after = nullptr;  // what must have struck before
  uint32_t after_id = 0;
  // kLimit: until when what has passed takes. Writers and readers: the threads
  // that pass. Relaxed: it stands for itself.
  mutable std::atomic<Nanoseconds> busy_until_ns{0};

  // Without a point: the time of the next strike, if there were `strikes`.
  Nanoseconds TimeOfNext(uint64_t strikes) const {
    return injected_ns + fault.after_ns + strikes * fault.every_ns;
  }
};

}  // namespace

class Member::Impl {
 public:
  Impl(std::unique_ptr<Board> board, size_t place, std::string name)
      : board_(std::move(board)), place_(place), name_(std::move(name)) {
    Look();
    thread_ = std::thread([this] { Run(); });
  }
  ~Impl() {
    stop_.store(true, std::memory_order_relaxed);
    LookSoon();  // its release orders stop_ before it
    thread_.join();
    armed_points.store(0, std::memory_order_relaxed);
    std::atomic_ref<uint32_t>(self().pid).store(0, std::memory_order_release);
  }

  static absl::StatusOr<std::unique_ptr<Impl>> Join(const std::string& path,
                                                    std::string_view name);
  std::optional<Struck> Pass(Point point, const Subject& subject);
  void Reached(State state) { board_->CountState(name_, state); }

 private:
  using List = std::vector<std::unique_ptr<Watched>>;

  BoardLayout& layout() const { return *board_->layout_; }
  MemberSlot& self() const { return layout().members[place_]; }
  bool IsOn(const FaultSlot& slot, uint32_t id) const {
    return shm::LoadShared(slot.words.id, std::memory_order_acquire) == id;
  }

  void Look();
  void Run();
  bool IsDue(const Watched& watched, Nanoseconds now) const;
  bool TakeStrike(const Watched& watched, uint64_t passage);
  // Has the thread look at the board: a fault is spent, and its point free.
  void LookSoon();
  void StrikeInTime(Nanoseconds now);
  Nanoseconds NextTime(Nanoseconds now) const;
  std::shared_ptr<const List> list() const {
    MutexLock lock(mutex_);
    return list_;
  }

  const std::unique_ptr<Board> board_;
  const size_t place_;
  const std::string name_;
  mutable Mutex mutex_;
  std::shared_ptr<const List> list_
      ABSL_GUARDED_BY(mutex_);  // those of this process
  // Writer: the destructor, before it bumps `changes`; reader: the thread.
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Reads the board anew.
void Member::Impl::Look() {
  const uint32_t changes =
      shm::LoadShared(self().changes, std::memory_order_acquire);
  const std::vector<Injected> all = board_->List();
  const auto slot_of = [&](uint32_t id) -> FaultSlot* {
    for (FaultSlot& slot : layout().faults) {
      if (IsOn(slot, id)) return &slot;
    }
    return nullptr;
  };
  auto list = std::make_shared<List>();
  uint32_t armed = 0;
  for (const Injected& injected : all) {
    if (!Matches(injected.fault.process, name_)) continue;
    auto watched = std::make_unique<Watched>();
    watched->id = injected.id;
    watched->fault = injected.fault;
    watched->injected_ns = injected.injected_ns;
    watched->slot = slot_of(injected.id);
    for (const Injected& other : all) {
      if (other.fault.name != injected.fault.after_fault) continue;
      watched->after = slot_of(other.id);
      watched->after_id = other.id;
    }
    if (watched->slot == nullptr) continue;
    if (!injected.spent) {
      armed |= 1u << static_cast<uint32_t>(injected.fault.point);
    }
    list->push_back(std::move(watched));
  }
  {
    MutexLock lock(mutex_);
    list_ = std::move(list);
  }
  armed_points.store(armed, std::memory_order_relaxed);
  std::atomic_ref<uint32_t>(self().seen)
      .store(changes, std::memory_order_release);
  shm::FutexWakeAll(&self().seen);
}

void Member::Impl::Run() {
  sigset_t all;  // signals are for the process's own threads
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  while (!stop_.load(std::memory_order_relaxed)) {
    const uint32_t changes =
        shm::LoadShared(self().changes, std::memory_order_acquire);
    const uint32_t strikes =
        shm::LoadShared(layout().strike_word, std::memory_order_acquire);
    if (changes != self().seen) {
      Look();
      continue;
    }
    const Nanoseconds now = NowNs();
    StrikeInTime(now);
    const Nanoseconds next = NextTime(now);
    // Strikes matter to those that come after another one.
    const std::array<shm::FutexWord, 2> words{
        {{&self().changes, changes}, {&layout().strike_word, strikes}}};
    shm::FutexWait(words, std::chrono::nanoseconds(next - now));
  }
}

bool Member::Impl::IsDue(const Watched& watched, Nanoseconds now) const {
  const Fault& fault = watched.fault;
  const Nanoseconds from = watched.injected_ns + fault.after_ns;
  if (now < from || !IsOn(*watched.slot, watched.id)) return false;
  if (fault.window_ns != 0 && now > from + fault.window_ns) return false;
  if (fault.after_state != State::kNone &&
      shm::LoadShared(watched.slot->counters.reached,
                      std::memory_order_relaxed) < fault.after_count) {
    return false;
  }
  return fault.after_fault.empty() ||
         (watched.after != nullptr && StrikesOf(*watched.after) > 0);
}

// True: this passage has one of the fault's strikes, and the board says so.
bool Member::Impl::TakeStrike(const Watched& watched, uint64_t passage) {
  std::atomic_ref<uint64_t> struck(watched.slot->counters.struck);
  uint64_t before = struck.load(std::memory_order_relaxed);
  do {
    if (IsSpent(watched.fault, before)) {
      LookSoon();
      return false;
    }
  } while (!struck.compare_exchange_weak(before, before + 1,
                                         std::memory_order_relaxed));
  // Release: whoever sees the number of strikes sees that one struck.
  const uint64_t place = std::atomic_ref<uint64_t>(layout().next_strike)
                             .fetch_add(1, std::memory_order_acq_rel);
  Strike& strike = layout().strikes[place % kMaxStrikes];
  std::atomic_ref(strike.fault_id).store(watched.id, std::memory_order_relaxed);
  std::atomic_ref(strike.pid)
      .store(static_cast<uint32_t>(getpid()), std::memory_order_relaxed);
  std::atomic_ref(strike.passage).store(passage, std::memory_order_relaxed);
  std::atomic_ref(strike.time_ns).store(NowNs(), std::memory_order_release);
  shm::BumpAndWake(&layout().strike_word);
  if (before + 1 == watched.fault.times) LookSoon();
  return true;
}

void Member::Impl::LookSoon() {
  uint32_t& changes = self().changes;
  std::atomic_ref<uint32_t>(changes).fetch_add(1, std::memory_order_acq_rel);
  shm::FutexWakeAll(&changes);
}

// Faults without a point.
void Member::Impl::StrikeInTime(Nanoseconds now) {
  for (const auto& watched : *list()) {
    const Fault& fault = watched->fault;
    if (fault.point != Point::kNone || !IsDue(*watched, now)) continue;
    const uint64_t struck = StrikesOf(*watched->slot);
    // One that is spent has no next strike, and to take it would be to look again.
    if (IsSpent(fault, struck) || now < watched->TimeOfNext(struck)) continue;
    if (!TakeStrike(*watched, 0)) continue;
    if (fault.action == Action::kKill) raise(SIGKILL);
    StopSelf(fault.duration_ns);
  }
}

// When to look at the clock again.
Nanoseconds Member::Impl::NextTime(Nanoseconds now) const {
  Nanoseconds next = now + 3'600'000'000'000;
  for (const auto& watched : *list()) {
    const Fault& fault = watched->fault;
    if (fault.point != Point::kNone) continue;
    const uint64_t struck = StrikesOf(*watched->slot);
    if (IsSpent(fault, struck)) continue;
    const Nanoseconds due = watched->TimeOfNext(struck);
    if (due > now) next = std::min(next, due);
  }
  return next;
}

std::optional<Struck> Member::Impl::Pass(Point point, const Subject& subject) {
  std::optional<Struck> result;
  const auto all = list();
  for (const auto& watched : *all) {
    const Fault& fault = watched->fault;
    if (fault.point != point) continue;
    if (fault.event_id != kAnyEvent && fault.event_id != subject.event_id) {
      continue;
    }
    if (!Matches(fault.device, subject.device) ||
        !Matches(fault.method, subject.method) || !IsDue(*watched, NowNs())) {
      continue;
    }
    const uint64_t passage =
        std::atomic_ref<uint64_t>(watched->slot->counters.passages)
            .fetch_add(1, std::memory_order_relaxed) +
        1;
    if (passage < fault.nth || (passage - fault.nth) % fault.every != 0) {
      continue;
    }
    const uint64_t random = Draw(fault.seed, 2 * passage);
    if (fault.probability < 1 && Unit(random) >= fault.probability) continue;
    if (!TakeStrike(*watched, passage)) continue;
    const uint64_t second = Draw(fault.seed, 2 * passage + 1);
    switch (fault.action) {
      case Action::kKill:
        raise(SIGKILL);
        break;
      case Action::kStop:
        StopSelf(fault.duration_ns);
        break;
      case Action::kDelay: {
        const double jitter =
            static_cast<double>(fault.jitter_ns) * (2 * Unit(second) - 1);
        Delay(fault.duration_ns + static_cast<int64_t>(jitter));
        break;
      }
      case Action::kLimit: {
        const Nanoseconds takes = subject.bytes * 1'000'000'000 / fault.count;
        const Nanoseconds now = NowNs();
        Nanoseconds busy =
            watched->busy_until_ns.load(std::memory_order_relaxed);
        while (!watched->busy_until_ns.compare_exchange_weak(
            busy, std::max(busy, now) + takes, std::memory_order_relaxed)) {
        }
        if (busy > now) Delay(busy - now);
        break;
      }
      default:
        if (result.has_value()) break;
        result = Struck{.action = fault.action,
                        .count = fault.count,
                        .code = fault.code,
                        .duration_ns = fault.duration_ns,
                        .random = second,
                        .offset = fault.offset,
                        .bytes_size = static_cast<uint8_t>(fault.bytes.size()),
                        .mask_size = static_cast<uint8_t>(fault.mask.size())};
        std::memcpy(result->bytes.data(), fault.bytes.data(),
                    fault.bytes.size());
        std::memcpy(result->mask.data(), fault.mask.data(), fault.mask.size());
    }
  }
  return result;
}

absl::StatusOr<std::unique_ptr<Member::Impl>> Member::Impl::Join(
    const std::string& path, std::string_view name) {
  ASSIGN_OR_RETURN(auto board, Board::Open(path));
  ASSIGN_OR_RETURN(auto place, board->TakePlace(name));
  return std::make_unique<Impl>(std::move(board), place, std::string(name));
}

namespace {

// The member of this process. Writer: Join() and ~Member(); readers: Pass().
// Release, acquire: what it leads to.
std::atomic<Member::Impl*> member_of_process{nullptr};

}  // namespace

Member::Member(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Member::~Member() {
  armed_points.store(0, std::memory_order_relaxed);
  member_of_process.store(nullptr, std::memory_order_release);
}

absl::StatusOr<std::unique_ptr<Member>> Member::Join(const std::string& path,
                                                     std::string_view name) {
  // One at a time.
  static Mutex joining;
  MutexLock lock(joining);
  if (member_of_process.load(std::memory_order_acquire) != nullptr) {
    return absl::FailedPreconditionError(
        "this process is on a board of faults already");
  }
  ASSIGN_OR_RETURN(auto impl, Impl::Join(path, name));
  member_of_process.store(impl.get(), std::memory_order_release);
  impl->Reached(State::kStarted);
  return std::unique_ptr<Member>(new Member(std::move(impl)));
}

absl::Status Member::JoinForGood(const std::string& path,
                                 std::string_view name) {
  if (member_of_process.load(std::memory_order_acquire) != nullptr) {
    return absl::OkStatus();
  }
  auto member = Join(path, name);
  if (member.ok()) {
    // For the life of the process: nobody may be at a point when it goes.
    [[gnu::used]] static Member* const forever = member->release();
    return absl::OkStatus();
  }
  const bool none_for_us = absl::IsNotFound(member.status()) ||
                           absl::IsPermissionDenied(member.status());
  return none_for_us ? absl::OkStatus() : member.status();
}

std::optional<Struck> Pass(Point point, const Subject& subject) {
  Member::Impl* const member =
      member_of_process.load(std::memory_order_acquire);
  if (member == nullptr) return std::nullopt;
  return member->Pass(point, subject);
}

void Reached(State state) {
  Member::Impl* const member =
      member_of_process.load(std::memory_order_acquire);
  if (member != nullptr) member->Reached(state);
}

void Struck::Corrupt(std::span<std::byte> data) const {
  if (data.empty()) return;
  if (bytes_size == 0 && mask_size == 0) {
    data[random / 8 % data.size()] ^= std::byte(1u << random % 8);
    return;
  }
  const size_t size = std::max(bytes_size, mask_size);
  for (size_t i = 0; i < size && offset + i < data.size(); ++i) {
    if (bytes_size > 0) data[offset + i] = std::byte(bytes[i]);
    if (mask_size > 0) data[offset + i] ^= std::byte(mask[i]);
  }
}

}  // namespace carillon::faults
