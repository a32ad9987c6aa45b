// Two processes on one ring; one of them is killed at a random moment, and a
// new one takes its place on the next generation.
#include <errno.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <thread>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "shm/testing/event_pattern.h"
#include "shm/testing/ring_fixture.h"

namespace carillon::shm {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds kBound = std::chrono::seconds(30);
constexpr int kBoundMs = static_cast<int>(kBound / milliseconds(1));

enum Role { kDevice = 0, kGpud = 1 };
constexpr Role Other(Role role) { return role == kDevice ? kGpud : kDevice; }

// How a process ends; anything but kFine fails the test.
enum ExitCode {
  kFine = 0,
  kTornEntry = 10,
  kTornCompletion = 11,
  kNeverWoken = 12,
  kDoorbellJump = 13,
  kPeerDiedTwice = 14,
  kNoPeer = 15,
};

const char* ExplainExit(int code) {
  switch (code) {
    case kFine:
      return "fine";
    case kTornEntry:
      return "gpud found a torn entry";
    case kTornCompletion:
      return "the device found a torn or misplaced completion";
    case kNeverWoken:
      return "a sleeper was not woken";
    case kDoorbellJump:
      return "the doorbell rang more often than the ring has slots";
    case kPeerDiedTwice:
      return "the second peer seemed to die as well";
    case kNoPeer:
      return "no second peer came";
  }
  return "killed, or an unknown code";
}

// How the device and gpud wait in a trial.
struct Policy {
  uint32_t entries;
  bool epoll;  // the device sleeps in poll() instead of a futex
  nanoseconds spin;
};

// What the processes of a trial share beside the rings.
struct Blackboard {
  std::atomic<pid_t> pid[2][2];     // by life and role; 0: not yet there
  std::atomic<uint64_t> events[2];  // done, by role; first life only
};

// One end of one ring in a process of its own.
class Worker {
 public:
  Worker(const RingFixture& rings, const Policy& policy,
         std::atomic<uint64_t>* progress, pid_t peer)
      : rings_(rings),
        policy_(policy),
        progress_(progress),
        peer_(static_cast<int>(syscall(SYS_pidfd_open, peer, 0))) {
    if (!peer_) _exit(kNoPeer);
    watcher_ = std::thread([this] {
      pollfd waiter{.fd = peer_.get(), .events = POLLIN, .revents = 0};
      while (poll(&waiter, 1, -1) < 0 && errno == EINTR) {
      }
      closed_.Close();
    });
  }

  // Returns true when `events` have passed, false when the peer died first.
  bool Run(Role role, uint64_t events) {
    return role == kDevice ? RunDevice(events) : RunGpud(events);
  }
  // After Run() returned false.
  void Join() { watcher_.join(); }
  // Before the process ends with its peer alive or not: a watcher that ended
  // and was never joined is a leak to TSan.
  void Detach() { watcher_.detach(); }

 private:
  bool RunDevice(uint64_t events) {
    DeviceRing ring = rings_.device_ring(0);
    uint64_t rung = 0;
    while (ring.last_consumed() < Sequence(events)) {
      while (ring.free_slots() > 0 && rung < events) {
        ++rung;
        EventPattern::FillParameters(ring.parameters(), rung);
        ring.Commit();
        if (rung % 3 != 0) ring.RingDoorbell();
      }
      ring.RingDoorbell();
      if (!WaitForCompletion(ring)) {
        // What was published before the death is whole.
        Consume(ring);
        return false;
      }
      Consume(ring);
    }
    return true;
  }

  bool WaitForCompletion(DeviceRing& ring) {
    const auto ready = [&] { return ring.Poll().has_value(); };
    CompletionWaiter waiter = rings_.waiter(&closed_);
    if (!policy_.epoll) {
      const Nanoseconds start = NowNs();
      const bool found = waiter.WaitUntil(ready, kBound, policy_.spin);
      if (NowNs() - start >= Nanoseconds(kBound.count())) _exit(kNeverWoken);
      return found;
    }
    while (!ready()) {
      waiter.ArmCompletionEvent();
      std::array<pollfd, 2> fds = {
          pollfd{.fd = rings_.event().reader.get(),
                 .events = POLLIN,
                 .revents = 0},
          pollfd{.fd = peer_.get(), .events = POLLIN, .revents = 0}};
      if (!ready() && poll(fds.data(), fds.size(), kBoundMs) == 0) {
        _exit(kNeverWoken);
      }
      DrainCompletionEvent(rings_.event().reader.get());
      waiter.DisarmCompletionEvent();
      if ((fds[1].revents & POLLIN) != 0) return ready();
    }
    return true;
  }

  void Consume(DeviceRing& ring) {
    while (const auto completion = ring.Poll()) {
      const uint64_t sequence = completion->sequence.value();
      const uint32_t slot = rings_.layout(0).SlotOf(completion->sequence);
      if (completion->state != EventState::kDone ||
          completion->status != EventPattern::Status(sequence) ||
          !EventPattern::OutputMatches(rings_.device_output(0, slot),
                                       sequence)) {
        _exit(kTornCompletion);
      }
      ring.Consume();
      progress_->store(sequence, std::memory_order_relaxed);
    }
  }

  bool RunGpud(uint64_t events) {
    const GpuRing ring = rings_.gpu_ring(0);
    const CompletionBell bell = rings_.bell();
    DoorbellWaiter waiter = rings_.doorbell_waiter();
    uint32_t seen = 0;
    uint64_t done = 0;
    bool alive = true;
    while (done < events && alive) {
      alive = WaitForDoorbell(
          waiter, closed_, [&] { return ring.LoadDoorbell() != seen; }, kBound,
          policy_.spin);
      if (!alive && !closed_.closed()) _exit(kNeverWoken);
      // What was rung before the death is whole, too.
      const uint32_t doorbell = ring.LoadDoorbell();
      if (doorbell - seen > policy_.entries) _exit(kDoorbellJump);
      for (; seen != doorbell; ++seen) {
        ++done;
        EventPattern::Entry entry;
        ring.CopyEntry(Sequence(done), &entry, sizeof(entry));
        if (!EventPattern::Matches(entry, done)) _exit(kTornEntry);
        EventPattern::FillOutput(
            rings_.gpud_output(0, rings_.layout(0).SlotOf(Sequence(done))),
            done);
        ring.Complete(Sequence(done), EventState::kDone,
                      EventPattern::Status(done));
        if (done % 2 == 0) bell.Signal();
        progress_->store(done, std::memory_order_relaxed);
      }
      bell.Signal();
    }
    return alive;
  }

  const RingFixture& rings_;
  const Policy policy_;
  std::atomic<uint64_t>* const progress_;
  const UniqueFd peer_;
  ClosedWord closed_;
  std::thread watcher_;
};

class Trial {
 public:
  explicit Trial(uint64_t seed) : random_(seed) {
    const uint32_t sizes[] = {1, 2, 64};
    // The last one never sleeps: rare, since two such processes starve the
    // parent.
    const nanoseconds spins[] = {nanoseconds(0), nanoseconds(2'000),
                                 nanoseconds(50'000), kBound};
    policy_ = {.entries = sizes[random_() % 3],
               .epoll = random_() % 3 == 0,
               .spin = spins[random_() % 16 == 0 ? 3 : random_() % 3]};
    victim_ = static_cast<Role>(random_() % 2);
    for (uint32_t life = 0; life < 2; ++life) {
      auto rings = RingFixture::Make(
          {.entries = policy_.entries, .generation = Generation(life + 1)});
      EXPECT_TRUE(rings.ok()) << rings.status();
      rings_[life] = *std::move(rings);
    }
    void* page = mmap(nullptr, sizeof(Blackboard), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(page, MAP_FAILED);
    board_ = new (page) Blackboard{};
  }
  ~Trial() { munmap(board_, sizeof(Blackboard)); }

  // False ends the test.
  bool Run() {
    const pid_t killed = Start(victim_, 0);
    const pid_t survivor = Start(Other(victim_), 0);
    AwaitRandomMoment();
    kill(killed, SIGKILL);
    const pid_t newcomer = Start(victim_, 1);
    // The survivor's own pid is its pid in both lives.
    board_->pid[1][Other(victim_)] = survivor;
    const bool fine =
        Ended(survivor, "the survivor") && Ended(newcomer, "the newcomer");
    // Not before: until then its pid stays its own.
    waitpid(killed, nullptr, 0);
    return fine;
  }

  std::string Describe() const {
    return std::string(victim_ == kDevice ? "device" : "gpud") +
           " killed, ring of " + std::to_string(policy_.entries) +
           (policy_.epoll ? ", epoll" : ", futex") + ", spin " +
           std::to_string(policy_.spin.count()) + " ns";
  }

 private:
  pid_t Start(Role role, uint32_t life) {
    const pid_t pid = fork();
    if (pid == 0) Live(role, life);
    EXPECT_GT(pid, 0);
    board_->pid[life][role] = pid;
    return pid;
  }

  // A process: from its first life to the end of its second. Never returns.
  void Live(Role role, uint32_t life) {
    constexpr uint64_t kSecondLifeEvents = 100;
    if (life == 0) {
      Worker first(*rings_[0], policy_, &board_->events[role],
                   AwaitPeer(role, 0));
      if (first.Run(role, ~uint64_t{0})) _exit(kNeverWoken);
      first.Join();
    }
    std::atomic<uint64_t> unused{0};
    Worker second(*rings_[1], policy_, &unused, AwaitPeer(role, 1));
    const bool served = second.Run(role, kSecondLifeEvents);
    second.Detach();
    _exit(served ? kFine : kPeerDiedTwice);
  }

  pid_t AwaitPeer(Role role, uint32_t life) {
    const Nanoseconds start = NowNs();
    pid_t pid;
    while ((pid = board_->pid[life][Other(role)]) == 0) {
      if (NowNs() - start > Nanoseconds(kBound.count())) _exit(kNoPeer);
      sched_yield();
    }
    return pid;
  }

  // Anywhere from the first breath to some thousand events, and not at an
  // event's end.
  void AwaitRandomMoment() {
    const uint64_t events = random_() % 4 == 0 ? 0 : random_() % 3000;
    const Nanoseconds start = NowNs();
    while (board_->events[kDevice] < events &&
           NowNs() - start < Nanoseconds(kBound.count())) {
      sched_yield();
    }
    const Nanoseconds more = random_() % 30'000;
    for (const Nanoseconds from = NowNs(); NowNs() - from < more;) CpuRelax();
  }

  bool Ended(pid_t pid, const char* who) {
    const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    pollfd waiter{.fd = process.get(), .events = POLLIN, .revents = 0};
    const bool ended = poll(&waiter, 1, 2 * kBoundMs) == 1;
    if (!ended) kill(pid, SIGKILL);
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_TRUE(ended) << who << " hangs: " << Describe();
    EXPECT_EQ(status, 0) << who << ": " << ExplainExit(WEXITSTATUS(status))
                         << ", " << Describe();
    return ended && status == 0;
  }

  std::mt19937_64 random_;
  Policy policy_;
  Role victim_;
  std::unique_ptr<RingFixture> rings_[2];
  Blackboard* board_;
};

TEST(RingKillTest, TheSurvivorAlwaysEndsFindsNothingTornAndServesTheNext) {
  const uint64_t seed = std::random_device()();
  constexpr int kTrials = 400;
  const Nanoseconds start = NowNs();
  int trials = 0;
  // A slow machine does fewer.
  while (trials < kTrials && NowNs() - start < 10'000'000'000) {
    SCOPED_TRACE("seed " + std::to_string(seed + trials));
    ++trials;
    Trial trial(seed + trials - 1);
    if (!trial.Run()) break;
  }
  printf("%d kills, seeds from %lu\n", trials, seed);
}

}  // namespace
}  // namespace carillon::shm
