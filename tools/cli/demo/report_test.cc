#include "tools/cli/demo/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

namespace carillon::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void SetCounter(v1::Device& device, const std::string& name, uint64_t value) {
  for (v1::Counter& counter : *device.mutable_counters()) {
    if (counter.name() == name) counter.set_value(value);
  }
  if (CounterOf(device, name) == value) return;
  v1::Counter* const counter = device.add_counters();
  counter->set_name(name);
  counter->set_value(value);
}

DemoFigures GoodFigures() {
  DemoFigures figures;
  figures.client = {.gets = 900, .sets = 100, .operations = 1000, .seconds = 2};
  figures.nic.set_name("nic0");
  figures.fpga.set_name("fpga0");
  figures.host.set_name("host0");
  SetCounter(figures.fpga, "frames_done", 50);
  SetCounter(figures.host, "launches", 20);
  figures.ledger.set_rung(500);
  figures.ledger.set_done(500);
  figures.kernel_time_alone.AddBucket(shm::HistogramBucket(1'000'000), 10);
  figures.kernel_time_loaded.AddBucket(shm::HistogramBucket(2'000'000), 10);
  figures.stages = {{"rung_to_seen", {}}};
  figures.policies = {{.policy = "priority", .seconds = 1, .requests = 300},
                      {.policy = "p2", .seconds = 2, .requests = 700}};
  figures.policies[0].event_latency.AddBucket(shm::HistogramBucket(50'000), 9);
  figures.policies[1].event_latency.AddBucket(shm::HistogramBucket(20'000), 9);
  return figures;
}

TEST(DemoVerdict, IsGoodWhenEverythingHolds) {
  std::vector<std::string> complaints;
  EXPECT_TRUE(Judge(GoodFigures(), &complaints).ok());
  EXPECT_THAT(complaints, IsEmpty());
}

struct Fault {
  const char* what;
  std::function<void(DemoFigures&)> make;
  absl::StatusCode code;
  const char* complaint;
};

class DemoFault : public ::testing::TestWithParam<Fault> {};

TEST_P(DemoFault, IsNamedAndNeverASuccess) {
  DemoFigures figures = GoodFigures();
  GetParam().make(figures);
  std::vector<std::string> complaints;
  EXPECT_EQ(Judge(figures, &complaints).code(), GetParam().code);
  EXPECT_THAT(complaints, ElementsAre(GetParam().complaint));
}

INSTANTIATE_TEST_SUITE_P(
    All, DemoFault,
    ::testing::Values(
        Fault{"WrongValue", [](DemoFigures& f) { f.client.verify_failed = 1; },
              absl::StatusCode::kDataLoss, "1 values came back wrong"},
        Fault{"LostKey", [](DemoFigures& f) { f.client.get_misses = 2; },
              absl::StatusCode::kDataLoss,
              "2 keys were gone although no datagram was lost"},
        Fault{"FailedEvent",
              [](DemoFigures& f) {
                f.ledger.set_done(499);
                f.ledger.set_failed(1);
              },
              absl::StatusCode::kDataLoss,
              "500 events rung, 499 done, 1 failed, 0 aborted"},
        Fault{"LostEvent", [](DemoFigures& f) { f.ledger.set_done(499); },
              absl::StatusCode::kDataLoss,
              "500 events rung, 499 done, 0 failed, 0 aborted"},
        Fault{"WrongFrame",
              [](DemoFigures& f) { SetCounter(f.fpga, "mismatches", 3); },
              absl::StatusCode::kDataLoss, "fpga0: mismatches 3"},
        Fault{"WrongBackground",
              [](DemoFigures& f) { SetCounter(f.host, "verify_failures", 1); },
              absl::StatusCode::kDataLoss, "host0: verify_failures 1"},
        Fault{"NoAnswers", [](DemoFigures& f) { f.client.gets = 0; },
              absl::StatusCode::kFailedPrecondition,
              "the client got no answers"},
        Fault{"NoFrames",
              [](DemoFigures& f) { SetCounter(f.fpga, "frames_done", 0); },
              absl::StatusCode::kFailedPrecondition, "no frame was computed"},
        Fault{"NoBackground",
              [](DemoFigures& f) { SetCounter(f.host, "launches", 0); },
              absl::StatusCode::kFailedPrecondition,
              "no background kernel was launched"},
        Fault{"NoEventUnderAPolicy",
              [](DemoFigures& f) { f.policies[1].event_latency = {}; },
              absl::StatusCode::kFailedPrecondition,
              "no event ended under policy p2"},
        Fault{"Casualty",
              [](DemoFigures& f) { f.casualties = {"nic0 (SIGSEGV)"}; },
              absl::StatusCode::kDataLoss,
              "a process did not end well: nic0 (SIGSEGV)"}),
    [](const auto& info) { return info.param.what; });

TEST(DemoVerdict, ForgivesAMissAfterALostDatagram) {
  DemoFigures figures = GoodFigures();
  figures.client.get_misses = 1;
  figures.client.udp_timeout = 1;
  std::vector<std::string> complaints;
  EXPECT_TRUE(Judge(figures, &complaints).ok());
}

std::string Printed(const DemoFigures& figures, bool json) {
  FILE* const out = std::tmpfile();
  FILE* const err = std::tmpfile();
  Console console(out, err);
  if (json) console.format = "json";
  PrintReport(figures, {}, console);
  std::rewind(out);
  std::string text(16384, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), out));
  std::fclose(out);
  std::fclose(err);
  return text;
}

TEST(DemoReport, IsForPeopleOrForPrograms) {
  const std::string text = Printed(GoodFigures(), false);
  EXPECT_THAT(text, HasSubstr("500 rung = 500 done + 0 failed + 0 aborted"));
  EXPECT_THAT(text, HasSubstr("900 of 900 GETs, 0 values wrong"));
  EXPECT_THAT(text, HasSubstr("rung -> seen"));
  EXPECT_THAT(text, HasSubstr("priority"));
  // 700 requests in 2 s.
  EXPECT_THAT(text, ContainsRegex("p2 +350 "));
  const Json json = Json::parse(Printed(GoodFigures(), true), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["ledger"]["rung"], 500);
  EXPECT_EQ(json["client"]["hits"], 900);
  EXPECT_EQ(json["policies"][0]["policy"], "priority");
  EXPECT_EQ(json["policies"][1]["requests"], 700);
  EXPECT_NEAR(json["background_slowdown"]["ratio"].get<double>(), 2, 0.1);
}

TEST(DemoReport, ShowsTwoLooksAtAHistogramAsWhatCameBetween) {
  shm::HistogramSnapshot before;
  before.AddBucket(5, 10);
  before.AddSum(50);
  shm::HistogramSnapshot after;
  after.AddBucket(5, 12);
  after.AddBucket(9, 1);
  after.AddSum(69);
  const auto difference = Difference(after, before);
  EXPECT_EQ(difference.count(), 3u);
  EXPECT_EQ(difference.buckets()[5], 2u);
  EXPECT_EQ(difference.buckets()[9], 1u);
  EXPECT_EQ(difference.sum(), 19u);
}

}  // namespace
}  // namespace carillon::cli
