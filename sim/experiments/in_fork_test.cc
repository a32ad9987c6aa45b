#include "sim/experiments/in_fork.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <nlohmann/json.hpp>

namespace carillon::sim::figures {
namespace {

using testing::HasSubstr;

TEST(InFork, WhatHappensThereDoesNotHappenHere) {
  int here = 1;
  const auto result = InFork({}, [&]() -> absl::StatusOr<Json> {
    here += 1;
    return Json{{"there", here}};
  });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result, Json({{"there", 2}}));
  EXPECT_EQ(here, 1);
}

TEST(InFork, ForksMayFork) {
  const auto result = InFork({}, []() -> absl::StatusOr<Json> {
    Json all = Json::array();
    for (int i = 0; i < 3; ++i) {
      all.push_back(
          *InFork({}, [&]() -> absl::StatusOr<Json> { return Json(i); }));
    }
    return all;
  });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result, Json({0, 1, 2}));
}

TEST(InFork, ErrorsComeBackAsTheyAre) {
  const auto result = InFork({}, []() -> absl::StatusOr<Json> {
    return absl::NotFoundError("no such kernel");
  });
  EXPECT_EQ(result.status(), absl::NotFoundError("no such kernel"));
}

TEST(InFork, ADeathIsAnError) {
  const auto result = InFork({}, []() -> absl::StatusOr<Json> {
    kill(getpid(), SIGKILL);
    return Json();
  });
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(result.status().message(), HasSubstr("Killed"));
}

TEST(InFork, CancelsWhatWouldGoOnForEver) {
  const std::atomic<bool> cancelled = true;
  const auto result =
      InFork({.cancelled = &cancelled}, []() -> absl::StatusOr<Json> {
        while (true) pause();
      });
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled);
}

TEST(InFork, CountsTheProcessorsTime) {
  double seconds = 0;
  const auto result =
      InFork({.child_seconds = &seconds}, []() -> absl::StatusOr<Json> {
        const auto spent = [] {
          timespec time{};
          clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
          return time.tv_sec * 1'000'000'000 + time.tv_nsec;
        };
        while (spent() < 50'000'000) {
        }
        return Json();
      });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GE(seconds, 0.04);
}

}  // namespace
}  // namespace carillon::sim::figures
