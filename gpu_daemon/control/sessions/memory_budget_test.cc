#include "gpu_daemon/control/sessions/memory_budget.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

TEST(MemoryBudget, WhatIsReservedIsGivenBackOnce) {
  MemoryBudget budget(100);
  {
    auto first = budget.Reserve(60, "a test");
    ASSERT_TRUE(first.ok());
    MemoryBudget::Reservation moved = *std::move(first);
    EXPECT_EQ(budget.used(), 60u);
    MemoryBudget::Reservation assigned;
    assigned = std::move(moved);
    EXPECT_EQ(assigned.bytes(), 60u);
    EXPECT_EQ(budget.used(), 60u);
  }
  EXPECT_EQ(budget.used(), 0u);
}

TEST(MemoryBudget, TooMuchNamesWhatWasAskedAndWhatIsLeft) {
  MemoryBudget budget(100);
  auto taken = budget.Reserve(60, "a test");
  auto refused = budget.Reserve(41, "the second");
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  const std::string message(refused.status().message());
  EXPECT_NE(message.find("the second needs 41 bytes"), std::string::npos);
  EXPECT_NE(message.find("40 of the testbed's 100"), std::string::npos);
  EXPECT_EQ(DetailOf(refused.status()).reason(), reason::kMemoryBudget);
  EXPECT_EQ(budget.used(), 60u);
  EXPECT_TRUE(budget.Reserve(40, "the third").ok());
}

TEST(MemoryBudget, AReservationTakesOverAnotherAndIsReduced) {
  MemoryBudget budget(100);
  {
    MemoryBudget::Reservation both;
    both.Add(*budget.Reserve(40, "a test"));
    both.Add(*budget.Reserve(20, "a test"));
    EXPECT_EQ(both.bytes(), 60u);
    EXPECT_EQ(budget.used(), 60u);
    both.ReduceTo(70);
    EXPECT_EQ(budget.used(), 60u);
    both.ReduceTo(10);
    EXPECT_EQ(both.bytes(), 10u);
    EXPECT_EQ(budget.used(), 10u);
  }
  EXPECT_EQ(budget.used(), 0u);
}

TEST(MemoryBudget, AHugeRequestDoesNotWrapAround) {
  MemoryBudget budget(100);
  auto taken = budget.Reserve(60, "a test");
  EXPECT_FALSE(budget.Reserve(~uint64_t{0}, "everything").ok());
}

TEST(MemoryBudget, TheDefaultIsPositiveAndAtMostFourGiB) {
  EXPECT_GT(DefaultMemoryBudget(), uint64_t{1} << 20);
  EXPECT_LE(DefaultMemoryBudget(), uint64_t{4} << 30);
}

}  // namespace
}  // namespace carillon::gpud
