#include "shm/testing/ring_pingpong.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "shm/load_shared.h"
#include "shm/waiting.h"

namespace carillon::shm {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kBound = std::chrono::seconds(10);
// Fruitless turns after which a spinning end lets others run, and looks whether
// the other end still is.
constexpr uint32_t kYieldTurns = 1024;

// Runs the calling thread on one core for as long as it lives.
class Pinned {
 public:
  explicit Pinned(int core) : pinned_(core >= 0) {
    if (!pinned_) return;
    sched_getaffinity(0, sizeof(before_), &before_);
    Pin(core);
  }
  ~Pinned() {
    if (pinned_) sched_setaffinity(0, sizeof(before_), &before_);
  }
  static bool Pin(int core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    return sched_setaffinity(0, sizeof(one), &one) == 0;
  }

 private:
  const bool pinned_;
  cpu_set_t before_;
};

absl::Status CheckCore(int core) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof(allowed), &allowed);
  if (core < -1 || core >= CPU_SETSIZE ||
      (core >= 0 && !CPU_ISSET(core, &allowed))) {
    return absl::InvalidArgumentError(
        fmt::format("core {}: this process may run on {} cores, and that is "
                    "none of them",
                    core, CPU_COUNT(&allowed)));
  }
  return absl::OkStatus();
}

absl::Status Gone() {
  return absl::InternalError("the yardstick's other end is gone");
}

// Sleeps while the word holds `value`; false when the bound has passed.
bool SleepWhile(const uint32_t& word, uint32_t value) {
  const FutexWord futex{&word, value};
  while (LoadShared(word, std::memory_order_seq_cst) == value) {
    if (FutexWait({&futex, 1}, kBound) == WaitResult::kTimedOut) return false;
  }
  return true;
}

}  // namespace

struct RingYardstick::Shared {
  // Futex word: counts commands. Writer: the device.
  alignas(128) uint32_t commands = 0;
  Mode mode = Mode::kStop;
  uint64_t events = 0;
  // FutexRoundTrips: each end bumps its own.
  alignas(128) uint32_t ping = 0;
  alignas(128) uint32_t pong = 0;
};

absl::StatusOr<std::unique_ptr<RingYardstick>> RingYardstick::Start(
    const Options& options) {
  for (const int core : {options.device_core, options.gpud_core}) {
    RETURN_IF_ERROR(CheckCore(core));
  }
  ASSIGN_OR_RETURN(
      auto rings,
      RingFixture::Make({.entries = options.entries,
                         .parameter_bytes = options.parameter_bytes,
                         .output_bytes_per_slot = 0,
                         // Of two threads, TSan must see one address.
                         .one_mapping = !options.child_process}));
  std::unique_ptr<RingYardstick> yardstick(new RingYardstick(options));
  yardstick->rings_ = std::move(rings);
  yardstick->device_ =
      std::make_unique<DeviceRing>(yardstick->rings_->device_ring(0));
  void* page = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot map a page: {}", std::strerror(errno)));
  }
  yardstick->shared_ = new (page) Shared;
  if (!options.child_process) {
    yardstick->thread_ = std::thread([end = yardstick.get()] { end->Serve(); });
    return yardstick;
  }
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot start a process: {}", std::strerror(errno)));
  }
  if (child == 0) {
    // No end outlives the other.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) yardstick->Serve();
    _exit(0);
  }
  yardstick->child_ = child;
  return yardstick;
}

RingYardstick::~RingYardstick() {
  if (shared_ == nullptr) return;
  Command(Mode::kStop, 0);
  if (thread_.joinable()) thread_.join();
  if (child_ > 0) waitpid(child_, nullptr, 0);
  munmap(shared_, sizeof(Shared));
}

void RingYardstick::Serve() const {
  const Pinned pinned(options_.gpud_core);
  const GpuRing ring = rings_->gpu_ring(0);
  uint64_t served = 0;
  for (uint32_t command = 0;; ++command) {
    while (!SleepWhile(shared_->commands, command)) {
    }
    const uint64_t events = shared_->events;
    switch (shared_->mode) {
      case Mode::kSpin:
        ServeSpinning(ring, served + 1, events);
        served += events;
        break;
      case Mode::kSleep:
        ServeSleeping(ring, served + 1, events);
        served += events;
        break;
      case Mode::kFutex:
        ServeFutex(events);
        break;
      case Mode::kStop:
        return;
    }
  }
}

void RingYardstick::ServeSpinning(const GpuRing& ring, uint64_t first,
                                  uint64_t events) const {
  std::array<std::byte, 64> entry;
  uint64_t next = first;
  for (uint32_t idle = 1; next != first + events; ++idle) {
    const uint32_t doorbell = ring.LoadDoorbell();
    if (doorbell == static_cast<uint32_t>(next - 1)) {
      CpuRelax();
      if (idle % kYieldTurns == 0) sched_yield();
      continue;
    }
    idle = 0;
    for (; static_cast<uint32_t>(next - 1) != doorbell; ++next) {
      ring.CopyEntry(Sequence(next), entry.data(), entry.size());
      ring.Complete(Sequence(next), EventState::kDone, 0);
    }
  }
}

void RingYardstick::ServeSleeping(const GpuRing& ring, uint64_t first,
                                  uint64_t events) const {
  const ClosedWord never;
  const CompletionBell bell = rings_->bell();
  DoorbellWaiter waiter = rings_->doorbell_waiter();
  std::array<std::byte, 64> entry;
  for (uint64_t next = first; next != first + events; ++next) {
    const auto rung = [&] {
      return ring.LoadDoorbell() != static_cast<uint32_t>(next - 1);
    };
    while (!WaitForDoorbell(waiter, never, rung, kBound, nanoseconds(0))) {
    }
    ring.CopyEntry(Sequence(next), entry.data(), entry.size());
    ring.Complete(Sequence(next), EventState::kDone, 0);
    bell.Signal();
  }
}

void RingYardstick::ServeFutex(uint64_t events) const {
  for (uint64_t i = 0; i < events; ++i) {
    // ping is one ahead of pong while it is our turn.
    while (!SleepWhile(shared_->ping, shared_->pong)) {
    }
    BumpAndWake(&shared_->pong);
  }
}

void RingYardstick::Command(Mode mode, uint64_t events) {
  shared_->mode = mode;
  shared_->events = events;
  BumpAndWake(&shared_->commands);
}

void RingYardstick::Commit(uint64_t parameter) {
  std::memcpy(device_->parameters(), &parameter, sizeof(parameter));
  device_->Commit();
}

bool RingYardstick::OtherEndIsGone() {
  if (child_ > 0 && waitpid(child_, nullptr, WNOHANG) == child_) child_ = 0;
  return child_ == 0;
}

absl::Status RingYardstick::AwaitCompletion() {
  for (uint32_t idle = 1; !device_->Poll().has_value(); ++idle) {
    CpuRelax();
    if (idle % kYieldTurns != 0) continue;
    sched_yield();
    if (idle % (kYieldTurns * 1024) == 0 && OtherEndIsGone()) {
      return Gone();
    }
  }
  device_->Consume();
  return absl::OkStatus();
}

template <class Turn>
absl::StatusOr<HistogramSnapshot> RingYardstick::Measure(Mode mode,
                                                         uint64_t count,
                                                         Turn turn) {
  const Pinned pinned(options_.device_core);
  HistogramSnapshot times;
  Command(mode, count);
  Nanoseconds before = NowNs();
  for (uint64_t i = 0; i < count; ++i) {
    RETURN_IF_ERROR(turn(i));
    const Nanoseconds after = NowNs();
    times.AddBucket(HistogramBucket(after - before), 1);
    before = after;
  }
  return times;
}

absl::StatusOr<HistogramSnapshot> RingYardstick::RoundTrips(uint64_t count) {
  return Measure(Mode::kSpin, count, [&](uint64_t i) {
    Commit(i);
    device_->RingDoorbell();
    return AwaitCompletion();
  });
}

absl::StatusOr<HistogramSnapshot> RingYardstick::SleepingRoundTrips(
    uint64_t count) {
  const ClosedWord never;
  CompletionWaiter waiter = rings_->waiter(&never);
  const auto ready = [&] { return device_->Poll().has_value(); };
  return Measure(Mode::kSleep, count, [&](uint64_t i) {
    Commit(i);
    device_->RingDoorbell();
    while (!waiter.WaitUntil(ready, kBound, nanoseconds(0))) {
      if (OtherEndIsGone()) return Gone();
    }
    device_->Consume();
    return absl::OkStatus();
  });
}

absl::StatusOr<HistogramSnapshot> RingYardstick::FutexRoundTrips(
    uint64_t count) {
  uint32_t pong = shared_->pong;
  return Measure(Mode::kFutex, count, [&](uint64_t) {
    BumpAndWake(&shared_->ping);
    while (!SleepWhile(shared_->pong, pong)) {
      if (OtherEndIsGone()) return Gone();
    }
    ++pong;
    return absl::OkStatus();
  });
}

absl::StatusOr<double> RingYardstick::EventsPerSecond(uint64_t events,
                                                      uint32_t batch) {
  if (batch == 0 || batch > options_.entries) {
    return absl::InvalidArgumentError(fmt::format(
        "batch {}: must be 1 to {}, the ring's size", batch, options_.entries));
  }
  const Pinned pinned(options_.device_core);
  Command(Mode::kSpin, events);
  const Nanoseconds before = NowNs();
  uint64_t rung = 0;
  for (uint64_t consumed = 0; consumed < events;) {
    while (rung < events && device_->free_slots() >= batch) {
      for (uint32_t i = 0; i < batch && rung < events; ++i, ++rung) {
        Commit(rung);
      }
      device_->RingDoorbell();
      for (; device_->Poll().has_value(); ++consumed) device_->Consume();
    }
    if (consumed == events) break;
    RETURN_IF_ERROR(AwaitCompletion());
    ++consumed;
    for (; device_->Poll().has_value(); ++consumed) device_->Consume();
  }
  return static_cast<double>(events) * 1e9 /
         static_cast<double>(NowNs() - before);
}

}  // namespace carillon::shm
