#include "tools/bench/roles.h"

#include <gtest/gtest.h>

#include <deque>
#include <nlohmann/json.hpp>

namespace carillon::bench {
namespace {

using std::chrono::milliseconds;

// Answers with the request; from the `wrong_from`th on, its sequence is off by
// `offset`.
class FakeClient final : public Client {
 public:
  uint64_t wrong_from = UINT64_MAX;
  uint64_t most_in_flight = 0;
  uint64_t flushes = 0;

  absl::Status Send(const Message& request) override {
    in_flight_.push_back(request);
    most_in_flight = std::max<uint64_t>(most_in_flight, in_flight_.size());
    return absl::OkStatus();
  }
  absl::Status Flush() override {
    ++flushes;
    return absl::OkStatus();
  }
  absl::Status Receive(Message* reply) override {
    if (in_flight_.empty()) return absl::InternalError("nothing was asked");
    *reply = in_flight_.front();
    in_flight_.pop_front();
    if (answered_++ >= wrong_from) ++reply->sequence;
    return absl::OkStatus();
  }
  size_t unanswered() const { return in_flight_.size(); }

 private:
  std::deque<Message> in_flight_;
  uint64_t answered_ = 0;
};

ClientJob Job(uint64_t round_trips, milliseconds pipeline_time) {
  return {.round_trips = round_trips,
          .round_trip_time = milliseconds(10'000),
          .pipeline_time = pipeline_time,
          .window = 8};
}

TEST(RunJob, TakesAsManyRoundTripsAsAskedForAndTimesEach) {
  FakeClient client;
  const auto result = RunJob(&client, Job(500, milliseconds(0)));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->round_trips_ns.size(), 500u);
  EXPECT_EQ(result->pipelined, 0u);
  EXPECT_EQ(client.most_in_flight, 1u);
}

TEST(RunJob, KeepsTheWindowInFlightAndWaitsForEveryAnswer) {
  FakeClient client;
  const auto result = RunJob(&client, Job(0, milliseconds(2)));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(client.most_in_flight, 8u);
  EXPECT_EQ(client.unanswered(), 0u);
  EXPECT_GT(result->pipelined, 0u);
  // Half a window is sent at a time: one flush for every four messages.
  EXPECT_EQ(client.flushes, result->pipelined / 4);
}

TEST(RunJob, NoticesAReplyThatIsNotForItsRequest) {
  for (const auto& job :
       {Job(5000, milliseconds(0)), Job(0, milliseconds(5))}) {
    FakeClient client;
    client.wrong_from = 1;
    EXPECT_EQ(RunJob(&client, job).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

TEST(PlayRole, RefusesAWayToWaitThatDoesNotExist) {
  std::string words[] = {"bench", "--serve", "ring", "dozes", "/nonexistent"};
  char* server[] = {words[0].data(), words[1].data(), words[2].data(),
                    words[3].data(), words[4].data()};
  EXPECT_EQ(PlayRole(5, server), 1);
  std::vector<std::string> asked = ClientArguments({.transport = "ring"});
  Json job = Json::parse(asked[2]);
  job["wait"] = "dozes";
  asked[2] = job.dump();
  char* client[] = {asked[0].data(), asked[1].data(), asked[2].data()};
  EXPECT_EQ(PlayRole(3, client), 1);
}

TEST(ToJson, HasOnlyWhatWasMeasured) {
  ClientResult result{.round_trips_ns = {30, 10, 20}};
  const Json trips = ToJson(result);
  EXPECT_EQ(trips["round_trip_ns"]["p50"], 20);
  EXPECT_EQ(trips["round_trip_ns"]["samples"], 3);
  EXPECT_FALSE(trips.contains("pipelined"));
  const Json rate = ToJson({.pipelined = 100, .pipelined_seconds = 0.5});
  EXPECT_EQ(rate["pipelined"]["per_second"], 200);
  EXPECT_FALSE(rate.contains("round_trip_ns"));
  EXPECT_EQ(ToJson(ClientResult{}), Json::object());
}

}  // namespace
}  // namespace carillon::bench
