#include "mesh/send.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <string_view>

namespace carillon::mesh {
namespace {

// Has frames of any size to say, some of them of a connection that has ended.
class Speaker {
 public:
  Speaker(std::mt19937* random, size_t frames, size_t largest) {
    for (size_t i = 0; i < frames; ++i) {
      const bool stale = (*random)() % 8 == 0;
      const size_t bytes = 1 + (*random)() % largest;
      frames_.push_back({Epoch(stale ? 1 : 2),
                         std::string(bytes, static_cast<char>('a' + i % 26))});
      largest_ = std::max(largest_, bytes);
      if (!stale) all_ += frames_.back().bytes;
    }
  }
  std::optional<Out> Poll(Nanoseconds) {
    if (frames_.empty()) return std::nullopt;
    Out next = frames_.front();
    frames_.pop_front();
    return next;
  }
  bool IsCurrent(Epoch epoch) const { return epoch == Epoch(2); }

  const std::string& all() const { return all_; }
  size_t largest() const { return largest_; }

 private:
  std::deque<Out> frames_;
  std::string all_;
  size_t largest_ = 0;
};

// Takes as many bytes as it has room for.
class Wire {
 public:
  absl::StatusOr<size_t> Write(std::string_view bytes) {
    const size_t put = std::min({bytes.size(), room_, size_t{16} << 10});
    taken_ += bytes.substr(0, put);
    room_ -= put;
    return put;
  }
  void MakeRoom(size_t bytes) { room_ = bytes; }
  const std::string& taken() const { return taken_; }

 private:
  size_t room_ = 0;
  std::string taken_;
};

// By a seed: a backlog of any length, and a connection that takes any part.
TEST(SendSome, ABacklogGoesInPartsAndWholeAndInOrder) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    Speaker speaker(&random, 1 + random() % 100,
                    seed % 2 == 0 ? 300 : kWriteBytes);
    Wire wire;
    std::string out;
    size_t turns = 0;
    for (Sent sent = Sent::kMore; sent != Sent::kAll; ++turns) {
      wire.MakeRoom(random() % 3 == 0 ? random() % (2 * kWriteBytes)
                                      : size_t{1} << 30);
      const size_t before = wire.taken().size();
      const auto said = SendSome(speaker, wire, 0, out);
      ASSERT_TRUE(said.ok());
      sent = *said;
      // Others have the lock after so much.
      ASSERT_LE(wire.taken().size() - before, kWriteBytes + speaker.largest())
          << "seed " << seed;
      ASSERT_EQ(sent == Sent::kBlocked, !out.empty()) << "seed " << seed;
    }
    EXPECT_EQ(wire.taken(), speaker.all()) << "seed " << seed;
    EXPECT_GE(turns, speaker.all().size() / (kWriteBytes + speaker.largest()))
        << "seed " << seed;
  }
}

TEST(SendSome, ItsConnectionsEndIsTold) {
  std::mt19937 random(1);
  Speaker speaker(&random, 9, 100);
  struct {
    absl::StatusOr<size_t> Write(std::string_view) {
      return absl::UnavailableError("it has ended");
    }
  } wire;
  std::string out;
  EXPECT_EQ(SendSome(speaker, wire, 0, out).status(),
            absl::UnavailableError("it has ended"));
}

}  // namespace
}  // namespace carillon::mesh
