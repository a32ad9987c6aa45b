#include "shm/waiting.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/unique_fd.h"

namespace carillon::shm {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Longer than any test takes; a wait that should end and does not shows here.
constexpr nanoseconds kBound = std::chrono::seconds(30);

uint32_t Load(const uint32_t& word) {
  return std::atomic_ref<uint32_t>(const_cast<uint32_t&>(word)).load();
}

// One page of a memfd, mapped twice: read-write and read-only.
class SharedWords {
 public:
  SharedWords() : fd_(memfd_create("words", MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(fd_.get(), 4096), 0);
    writable_ = static_cast<uint32_t*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0));
    read_only_ = static_cast<const uint32_t*>(
        mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd_.get(), 0));
    EXPECT_NE(writable_, MAP_FAILED);
    EXPECT_NE(read_only_, MAP_FAILED);
  }
  ~SharedWords() {
    munmap(writable_, 4096);
    munmap(const_cast<uint32_t*>(read_only_), 4096);
  }
  uint32_t* writable() { return writable_; }
  const uint32_t* read_only() const { return read_only_; }

 private:
  UniqueFd fd_;
  uint32_t* writable_;
  const uint32_t* read_only_;
};

TEST(FutexTest, ThisKernelHasFutexWaitv) { EXPECT_TRUE(FutexWaitvSupported()); }

TEST(FutexTest, AValueThatHasChangedDoesNotSleep) {
  SharedWords words;
  words.writable()[0] = 5;
  const FutexWord word{words.read_only(), 4};
  EXPECT_EQ(FutexWait({&word, 1}, kBound), WaitResult::kWoken);
}

// The sleeper's mapping is read-only, the waker's is another one. The loop of
// ever new values makes both orders of wait and wake happen.
TEST(FutexTest, ASleeperOnAReadOnlyMappingIsWokenThroughAnother) {
  SharedWords words;
  constexpr uint32_t kRounds = 2000;
  std::atomic<uint32_t> reached{0};
  bool timed_out = false;
  std::thread sleeper([&] {
    for (uint32_t value = 0; value < kRounds; ++value) {
      reached.store(value);
      while (Load(words.read_only()[0]) == value && !timed_out) {
        const FutexWord word{words.read_only(), value};
        timed_out = FutexWait({&word, 1}, kBound) == WaitResult::kTimedOut;
      }
    }
  });
  for (uint32_t value = 0; value < kRounds; ++value) {
    while (reached.load() != value) sched_yield();
    BumpAndWake(words.writable());
  }
  sleeper.join();
  EXPECT_FALSE(timed_out);
}

TEST(FutexTest, AnyOfManyWordsWakes) {
  SharedWords words;
  std::vector<FutexWord> all;
  for (size_t i = 0; i < kMaxFutexWords; ++i) {
    all.push_back({words.read_only() + i, 0});
  }
  ASSERT_EQ(FutexWait(all, milliseconds(1)), WaitResult::kTimedOut)
      << "nothing to wake it";
  for (const size_t woken : {size_t{0}, size_t{63}, kMaxFutexWords - 1}) {
    std::atomic<bool> done{false};
    bool timed_out = false;
    std::thread sleeper([&] {
      timed_out = FutexWait(all, kBound) == WaitResult::kTimedOut;
      done = true;
    });
    BumpAndWake(words.writable() + woken);
    sleeper.join();
    EXPECT_FALSE(timed_out) << "word " << woken;
    words.writable()[woken] = 0;
  }
}

TEST(FutexTest, NoWordsOrTooManyNeverSleep) {
  SharedWords words;
  EXPECT_EQ(FutexWait({}, kBound), WaitResult::kWoken);
  const std::vector<FutexWord> all(kMaxFutexWords + 1,
                                   FutexWord{words.read_only(), 0});
  EXPECT_EQ(FutexWait(all, kBound), WaitResult::kWoken);
}

TEST(FutexTest, ATimeoutThatIsOverNeverSleeps) {
  SharedWords words;
  const FutexWord word{words.read_only(), 0};
  for (const nanoseconds timeout :
       {nanoseconds::min(), nanoseconds(-1), nanoseconds(0), nanoseconds(1)}) {
    EXPECT_EQ(FutexWait({&word, 1}, timeout), WaitResult::kTimedOut)
        << timeout.count();
  }
}

TEST(FutexTest, ATimeoutThatEndsInTheNextSecondIsValid) {
  SharedWords words;
  const FutexWord word{words.read_only(), 0};
  // Whatever the clock says now, some of these carry over.
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(FutexWait({&word, 1}, milliseconds(260)), WaitResult::kTimedOut);
  }
}

TEST(FutexTest, TheLongestTimeoutSleepsAndWakes) {
  SharedWords words;
  bool timed_out = false;
  std::thread sleeper([&] {
    while (Load(words.read_only()[0]) == 0 && !timed_out) {
      const FutexWord word{words.read_only(), 0};
      timed_out =
          FutexWait({&word, 1}, nanoseconds::max()) == WaitResult::kTimedOut;
    }
  });
  BumpAndWake(words.writable());
  sleeper.join();
  EXPECT_FALSE(timed_out);
}

TEST(FutexTest, ASignalEndsTheWaitWithoutACause) {
  SharedWords words;
  struct sigaction ignore_loudly {};
  ignore_loudly.sa_handler = [](int) {};
  struct sigaction before;
  ASSERT_EQ(sigaction(SIGUSR1, &ignore_loudly, &before), 0);
  std::atomic<bool> done{false};
  WaitResult result = WaitResult::kTimedOut;
  std::thread sleeper([&] {
    const FutexWord word{words.read_only(), 0};
    result = FutexWait({&word, 1}, kBound);
    done = true;
  });
  // One that comes before the sleep is lost: repeat.
  while (!done) {
    pthread_kill(sleeper.native_handle(), SIGUSR1);
    sched_yield();
  }
  sleeper.join();
  EXPECT_EQ(result, WaitResult::kWoken);
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(FutexTest, AWakeReachesEverySleeper) {
  SharedWords words;
  constexpr int kSleepers = 4;
  // In most rounds all of them sleep by the time of the wake.
  for (uint32_t round = 0; round < 100; ++round) {
    std::atomic<int> about_to_sleep{0};
    std::atomic<int> timed_out{0};
    std::vector<std::thread> sleepers;
    for (int i = 0; i < kSleepers; ++i) {
      sleepers.emplace_back([&] {
        const FutexWord word{words.read_only(), round};
        ++about_to_sleep;
        if (FutexWait({&word, 1}, kBound) == WaitResult::kTimedOut) {
          ++timed_out;
        }
      });
    }
    while (about_to_sleep != kSleepers) sched_yield();
    BumpAndWake(words.writable());
    for (auto& sleeper : sleepers) sleeper.join();
    ASSERT_EQ(timed_out, 0) << "round " << round;
  }
}

}  // namespace
}  // namespace carillon::shm
