#include "sim/exec/heap.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace carillon::sim {
namespace {

TEST(HeapTest, PiecesNeverOverlapAndAreKept) {
  Heap heap(1 << 16);
  std::mt19937 random(5);
  struct Piece {
    uint64_t bytes = 0;
    uint8_t value = 0;
  };
  std::map<uint64_t, Piece> pieces;
  uint64_t used = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 5 < 3) {
      const uint64_t bytes = random() % 600 + 1;
      const uint64_t align = uint64_t{16} << random() % 5;
      const uint64_t at = heap.Allocate(bytes, align);
      if (at == 0) continue;
      ASSERT_EQ(at % align, 0u);
      const auto after = pieces.upper_bound(at);
      ASSERT_TRUE(after == pieces.end() || at + bytes <= after->first);
      if (after != pieces.begin()) {
        const auto before = std::prev(after);
        ASSERT_LE(before->first + before->second.bytes, at);
      }
      ASSERT_NE(heap.Find(at, bytes), nullptr);
      ASSERT_EQ(heap.Find(at, bytes + 1), nullptr);
      pieces[at] = {bytes, static_cast<uint8_t>(step)};
      std::memset(heap.Find(at, bytes), pieces[at].value, bytes);
      used += (bytes + 15) / 16 * 16;
    } else if (!pieces.empty()) {
      auto piece = pieces.lower_bound(kHeapBegin + random() % (1 << 16));
      if (piece == pieces.end()) piece = pieces.begin();
      const auto [at, had] = *piece;
      for (uint64_t i = 0; i < had.bytes; ++i) {
        ASSERT_EQ(heap.Find(at + i, 1)[0], std::byte{had.value});
      }
      ASSERT_EQ(heap.Free(at), "");
      ASSERT_NE(heap.Free(at).find("freed already"), std::string::npos);
      ASSERT_EQ(heap.Find(at, 1), nullptr);
      used -= (had.bytes + 15) / 16 * 16;
      pieces.erase(piece);
    }
    ASSERT_EQ(heap.used(), used);
  }
  EXPECT_GT(heap.failures(), 0u);
  for (const auto& [at, piece] : pieces) EXPECT_EQ(heap.Free(at), "");
  // All of it is one range again.
  EXPECT_NE(heap.Allocate(1 << 16, 16), 0u);
}

TEST(HeapTest, WhatWasFreedIsGivenOutLate) {
  Heap heap(1 << 12);
  const uint64_t first = heap.Allocate(32, 16);
  EXPECT_EQ(heap.Free(first), "");
  for (int i = 0; i < (1 << 12) / 32 - 1; ++i) {
    EXPECT_NE(heap.Allocate(32, 16), first) << i;
  }
  EXPECT_EQ(heap.Allocate(32, 16), first);
  EXPECT_EQ(heap.Allocate(32, 16), 0u);
}

TEST(HeapTest, AHeapOfNothingGivesNothing) {
  Heap heap(0);
  EXPECT_EQ(heap.Allocate(1, 16), 0u);
  EXPECT_EQ(heap.Find(kHeapBegin, 1), nullptr);
  EXPECT_FALSE(heap.Holds(kHeapBegin));
  EXPECT_EQ(heap.Free(0), "");
  Heap other(64);
  EXPECT_EQ(other.Allocate(0, 16), 0u);
  EXPECT_EQ(other.Allocate(~uint64_t{0}, 16), 0u);
  EXPECT_EQ(other.Allocate(16, uint64_t{1} << 63), 0u);
}

}  // namespace
}  // namespace carillon::sim
