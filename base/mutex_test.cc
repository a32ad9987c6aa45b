#include "base/mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace carillon {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct Counter {
  Mutex mutex;
  CondVar changed;
  uint64_t value ABSL_GUARDED_BY(mutex) = 0;
};

TEST(MutexTest, OneThreadAtATimeIsInside) {
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kRounds = 20'000;
  Counter counter;
  std::vector<std::jthread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (uint64_t round = 0; round < kRounds; ++round) {
        MutexLock lock(counter.mutex);
        ++counter.value;
      }
    });
  }
  threads.clear();
  MutexLock lock(counter.mutex);
  EXPECT_EQ(counter.value, kThreads * kRounds);
}

TEST(MutexTest, WhatStandsBetweenUnlockAndLockLetsOthersIn) {
  Counter counter;
  MutexLock lock(counter.mutex);
  lock.Unlock();
  std::jthread([&] {
    MutexLock inside(counter.mutex);
    counter.value = 7;
  }).join();
  lock.Lock();
  EXPECT_EQ(counter.value, 7u);
}

TEST(MutexTest, ALockThatWasLetGoIsNotLetGoAgain) {
  Counter counter;
  MutexLock outer(counter.mutex);
  outer.Unlock();
  {
    MutexLock lock(counter.mutex);
    lock.Unlock();
  }
  // Would not return if the scope had left the mutex in a wrong state.
  outer.Lock();
  EXPECT_EQ(counter.value, 0u);
}

TEST(CondVarTest, AWaiterSeesWhatItWasNotifiedOf) {
  Counter counter;
  std::jthread giver([&] {
    MutexLock lock(counter.mutex);
    counter.value = 1;
    counter.changed.NotifyAll();
  });
  MutexLock lock(counter.mutex);
  while (counter.value == 0) counter.changed.Wait(counter.mutex);
  EXPECT_EQ(counter.value, 1u);
}

TEST(CondVarTest, AWaitHoldsTheMutexAgainWhenItsTimeIsOver) {
  Counter counter;
  MutexLock lock(counter.mutex);
  const auto start = steady_clock::now();
  while (counter.changed.WaitFor(counter.mutex, milliseconds(10))) continue;
  EXPECT_GE(steady_clock::now() - start, milliseconds(10));
  EXPECT_FALSE(counter.changed.WaitUntil(counter.mutex, start));
  counter.value = 1;
}

}  // namespace
}  // namespace carillon
