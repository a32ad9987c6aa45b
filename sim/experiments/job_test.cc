#include "sim/experiments/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "sim/experiments/run_jobs.h"

namespace carillon::sim::figures {
namespace {

using ::testing::HasSubstr;

timing::Config Table2() { return *timing::LoadConfig("edge_table2"); }

Job SmallJob(const char* name) {
  Job job;
  job.name = name;
  job.size = Size::kSmall;
  job.background = "MM";
  job.overrides = {{"sm.count", "1"}, {"edge.path", "tb_scheduler"}};
  return job;
}

Job WithEvents(const char* name, const char* event) {
  Job job = SmallJob(name);
  job.event = event;
  job.arrivals = {100, 300, 3};
  return job;
}

TEST(Override, ChangesWhatItNamesAndNothingElse) {
  const timing::Config base = Table2();
  const auto changed = Override(
      base, {{"edge.path", "tb_scheduler"}, {"costs.float.div.latency", "77"}});
  ASSERT_TRUE(changed.ok()) << changed.status();
  auto expected = timing::Values(base);
  for (auto& [key, value] : expected) {
    if (key == "edge.path") value = "tb_scheduler";
    if (key == "costs.float.div.latency") value = "77";
  }
  EXPECT_EQ(timing::Values(*changed), expected);
  EXPECT_EQ(changed->name, "edge_table2");
}

TEST(Override, SaysWhatThereIsNot) {
  EXPECT_THAT(Override(Table2(), {{"edge.paths", "warp"}}).status().ToString(),
              HasSubstr("edge.paths: no configuration has such a key"));
  EXPECT_THAT(Override(Table2(), {{"edge.path", "air"}}).status().ToString(),
              HasSubstr("edge.path"));
}

TEST(RunJob, AloneItIsTheIsolatedRun) {
  const auto result = RunJob(SmallJob("alone"), Table2());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->contains("events"));
  EXPECT_EQ((*result)["launches"], 1);
  EXPECT_GT((*result)["cycles"], 300);
  EXPECT_EQ((*result)["warp_instructions"],
            (*result)["statistics"]["instructions"]);
  // The SM's time ends with the background.
  EXPECT_EQ((*result)["statistics"]["sm_cycles"], (*result)["cycles"]);
}

TEST(RunJob, EveryEventIsRungCheckedAndLogged) {
  for (const char* event : {"IPv4", "MemC", "IPSec", "null", "busy"}) {
    Job job = WithEvents("events", event);
    job.busy_steps = 10;
    job.runs = 2;
    const auto result = RunJob(job, Table2());
    ASSERT_TRUE(result.ok()) << event << ": " << result.status();
    const Json& events = (*result)["events"];
    const auto rung = events["rung"].get<size_t>();
    EXPECT_GT(rung, 3u) << event;
    EXPECT_EQ(events["completed"], rung);
    EXPECT_EQ(events["scheduling"].size(), rung);
    const auto turnaround =
        events["turnaround"].get<std::vector<timing::Cycle>>();
    EXPECT_EQ(turnaround.size(), rung);
    EXPECT_EQ((*result)["launches"], 2);
    uint64_t placed = 0;
    for (const auto& [place, count] : events["places"].items()) {
      placed += count.get<uint64_t>();
    }
    EXPECT_EQ(placed, rung);
  }
}

TEST(RunJob, NoMoreEventsThanAllowedAreUnderWay) {
  // With ticks in every cycle, events still run one after the other.
  Job job = WithEvents("one", "IPSec");
  job.arrivals = {1, 1, 1};
  const auto one = RunJob(job, Table2());
  ASSERT_TRUE(one.ok()) << one.status();
  timing::Cycle together = 0;
  for (const Json& cycles : (*one)["events"]["turnaround"]) {
    together += cycles.get<timing::Cycle>();
  }
  const auto turnaround = (*one)["events"]["turnaround"].back();
  EXPECT_LE(together, (*one)["cycles"].get<timing::Cycle>() +
                          turnaround.get<timing::Cycle>());
}

TEST(RunJob, ATickThatWaitedRingsWithTheEnd) {
  // The limit is therefore reached nearly always.
  Job job = WithEvents("full", "IPv4");
  job.arrivals = {1, 1, 2};
  const auto result = RunJob(job, Table2());
  ASSERT_TRUE(result.ok()) << result.status();
  timing::Cycle together = 0;
  for (const Json& cycles : (*result)["events"]["turnaround"]) {
    together += cycles.get<timing::Cycle>();
  }
  const double under_way =
      static_cast<double>(together) / (*result)["cycles"].get<double>();
  EXPECT_GT(under_way, 1.7);
}

TEST(RunJob, ASkippedEventEndsAtOnce) {
  Job job = WithEvents("skip", "MemC");
  const auto whole = RunJob(job, Table2());
  job.skip_body = true;
  const auto skipped = RunJob(job, Table2());
  ASSERT_TRUE(whole.ok() && skipped.ok());
  const auto least = [](const Json& result) {
    const auto cycles =
        result["events"]["turnaround"].get<std::vector<timing::Cycle>>();
    return *std::ranges::min_element(cycles);
  };
  EXPECT_GT(least(*whole), 20 * least(*skipped));
}

TEST(RunJob, TheSameJobGivesTheSameResult) {
  const Job job = WithEvents("same", "IPv6");
  const auto first = RunJob(job, Table2());
  const auto second = RunJob(job, Table2());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
  Job other = job;
  other.seed = 2;
  EXPECT_NE(*RunJob(other, Table2()), *first);
}

TEST(RunJob, EventsAloneGoOneByOne) {
  Job job = SmallJob("isolated");
  job.background.clear();
  job.event = "IPv4";
  job.events = 5;
  const auto result = RunJob(job, Table2());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)["launches"], 5);
  EXPECT_GT((*result)["cycles"], 500);
}

TEST(RunJob, ABackgroundThatTakesTooLongIsGivenUp) {
  Job job = WithEvents("starved", "null");
  job.most_cycles = 2000;
  const auto result = RunJob(job, Table2());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE((*result)["cycles"].is_null());
  EXPECT_EQ((*result)["statistics"]["sm_cycles"], 2000);
  EXPECT_GT((*result)["events"]["completed"], 0);
  EXPECT_EQ((*result)["events"]["completed"], (*result)["events"]["rung"]);
}

TEST(RunJob, ABackgroundThatNeverEndsFailsByName) {
  const auto result =
      RunJob(WithEvents("starved", "null"), Table2(), {.limit = 2000});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(result.status().message(), "MM has not ended after 2000 cycles");
}

TEST(RunJob, TheFirstTickMayComeAtAnyTime) {
  // With so long a period, the only event is the first one.
  Job job = WithEvents("start", "null");
  job.arrivals = {2000, 2000, 1};
  std::set<Json> at_a_period, at_any_time;
  for (job.seed = 1; job.seed <= 4; ++job.seed) {
    job.arrivals.any_start = false;
    at_a_period.insert((*RunJob(job, Table2()))["events"]["rung"]);
    job.arrivals.any_start = true;
    job.most_cycles = 1000;
    at_any_time.insert((*RunJob(job, Table2()))["events"]["rung"]);
    job.most_cycles = 0;
  }
  EXPECT_EQ(at_a_period.size(), 1u);
  // Some seeds ring within half a period, others do not.
  EXPECT_THAT(at_any_time, testing::ElementsAre(0, 1));
}

TEST(RunJob, ABackgroundHasTheRegistersThatItIsGiven) {
  // With 64 registers a thread half as many blocks are resident.
  Job job = SmallJob("registers");
  const auto own = RunJob(job, Table2());
  job.background_registers = 64;
  const auto more = RunJob(job, Table2());
  ASSERT_TRUE(own.ok() && more.ok());
  EXPECT_GT((*more)["cycles"], (*own)["cycles"]);
}

// Figs. 13 and beyond take this for granted.
TEST(RunJob, OnSmsOfItsOwnABackgroundNeedsNoFreeRegisters) {
  Job job = WithEvents("reserved", "MemC");
  job.overrides = {{"sm.count", "2"},
                   {"edge.path", "tb_scheduler"},
                   {"edge.reserve_sms", "1"}};
  job.background_registers = 28;
  const auto some_left = RunJob(job, Table2());
  job.background_registers = 32;
  const auto none_left = RunJob(job, Table2());
  ASSERT_TRUE(some_left.ok() && none_left.ok());
  EXPECT_EQ((*some_left)["cycles"], (*none_left)["cycles"]);
  EXPECT_EQ((*some_left)["events"], (*none_left)["events"]);
  EXPECT_GT((*some_left)["events"]["completed"], 1);
}

TEST(RunJob, AnInterruptsRoutineRingsTheEvent) {
  Job job = WithEvents("interrupts", "IPv4");
  job.interrupts = true;
  const auto result = RunJob(job, Table2());
  ASSERT_TRUE(result.ok()) << result.status();
  const Json& events = (*result)["events"];
  const auto rung = events["rung"].get<size_t>();
  EXPECT_GT(rung, 3u);
  EXPECT_EQ(events["routine"].size(), rung);
  EXPECT_EQ(events["turnaround"].size(), rung);
  // The TB scheduler places the event, whatever path the routine took.
  EXPECT_EQ(events["places"]["TB scheduler"], rung);
}

TEST(RunJob, ARoutineTakesAsLongAsItIsTold) {
  const auto median = [](Job job, uint64_t turns) {
    job.busy_steps = turns;
    job.events = 9;
    const auto result = RunJob(job, Table2());
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_EQ((*result)["events"]["completed"], (*result)["events"]["rung"]);
    auto cycles =
        (*result)["events"]["routine"].get<std::vector<timing::Cycle>>();
    std::ranges::sort(cycles);
    return cycles[cycles.size() / 2];
  };
  Job alone = SmallJob("alone");
  alone.background.clear();
  alone.event = "routine";
  const timing::Cycle none = median(alone, 0);
  const timing::Cycle some = median(alone, 100);
  EXPECT_GT(some, none + 500);
  EXPECT_NEAR(static_cast<double>(median(alone, 200) - some),
              static_cast<double>(some - none), 20);
  // Other routines are in its way.
  EXPECT_GT(median(WithEvents("beside", "routine"), 100), some);
}

TEST(RunJob, PersistentBlocksDoAllTheirTasks) {
  Job job;
  job.overrides = {{"sm.count", "2"}};
  job.events = 64;
  job.arrivals.least = 50;
  job.coalesce = 8;
  const auto run = [&](const char* persistent) {
    job.persistent = persistent;
    return RunJob(job, Table2());
  };
  const auto poll = run("poll");
  const auto wait = run("wait");
  ASSERT_TRUE(poll.ok() && wait.ok()) << poll.status() << wait.status();
  EXPECT_EQ((*wait)["tasks"], 64);
  EXPECT_EQ((*wait)["interrupts"], 8);
  EXPECT_EQ((*poll)["interrupts"], 0);
  EXPECT_LT((*wait)["global_loads"], (*poll)["global_loads"]);
  EXPECT_EQ(run("sleep").status().message(),
            "'sleep': persistent blocks poll, wait or are targeted");
  job.coalesce = 0;
  EXPECT_EQ(run("wait").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RunJob, TechniquesOfOneJobDoNotSeeEachOther) {
  Job job;
  job.gpu = "gtx980";
  job.size = Size::kSmall;
  job.preempted = "CP";
  job.overrides = {{"preemption.technique", "drain"},
                   {"preemption.trap_ns", "100"},
                   {"preemption.predicted_ns", "500"}};
  job.launch_ns = {500, 1500};
  job.progress = {25, 50};
  const decltype(job.techniques) techniques = {
      {"drain", {{"preemption.technique", "drain"}}},
      {"switch", {{"preemption.technique", "switch"}}},
      {"pep", {{"preemption.technique", "pep"}}}};
  job.techniques = techniques;
  const auto all = RunJob(job, Table2());
  ASSERT_TRUE(all.ok()) << all.status();
  for (const auto& technique : techniques) {
    job.techniques = {technique};
    const auto one = RunJob(job, Table2());
    ASSERT_TRUE(one.ok()) << one.status();
    const Json& runs = (*one)["runs"][technique.first];
    EXPECT_EQ(runs, (*all)["runs"][technique.first]);
    EXPECT_EQ(runs.size(), 4u);
    EXPECT_GT(runs[0]["blocks"], 0);
  }
  EXPECT_NE((*all)["runs"]["drain"], (*all)["runs"]["switch"]);
  EXPECT_NE((*all)["runs"]["pep"], (*all)["runs"]["switch"]);
}

TEST(RunJob, CanBeCancelled) {
  const std::atomic<bool> cancelled = true;
  EXPECT_EQ(RunJob(SmallJob("c"), Table2(), {.cancelled = &cancelled})
                .status()
                .code(),
            absl::StatusCode::kCancelled);
}

class Pool : public testing::Test {
 protected:
  Pool()
      : folder_(testing::TempDir() + "/figures_" + std::to_string(getpid())) {
    options_.cache = folder_;
    options_.threads = 2;
    options_.progress = [this](const JobProgress& progress) {
      seen_.push_back(progress.job.name + (progress.cached ? " cached" : ""));
      EXPECT_EQ(progress.done, seen_.size());
    };
  }
  ~Pool() override { std::filesystem::remove_all(folder_); }

  const std::string folder_;
  RunJobsOptions options_;
  std::vector<std::string> seen_;
};

TEST_F(Pool, RunsEachJobOnceAndNotAgain) {
  const std::vector<Job> jobs = {SmallJob("a/1"), WithEvents("b", "IPv4"),
                                 SmallJob("a/1")};
  const auto first = RunJobs(jobs, Table2(), options_);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->size(), 2u);
  EXPECT_THAT(seen_, testing::UnorderedElementsAre("a/1", "b"));
  EXPECT_EQ(first->at("b"), *RunJob(jobs[1], Table2()));

  seen_.clear();
  const auto second = RunJobs(jobs, Table2(), options_);
  ASSERT_TRUE(second.ok());
  EXPECT_THAT(seen_, testing::UnorderedElementsAre("a/1 cached", "b cached"));
  EXPECT_EQ(*second, *first);

  // A job of the same name on another GPU must not take the cached result.
  seen_.clear();
  timing::Config other = Table2();
  other.l1.latency += 1;
  Job changed = jobs[1];
  changed.seed = 9;
  ASSERT_TRUE(RunJobs({jobs[0]}, other, options_).ok());
  seen_.clear();
  ASSERT_TRUE(RunJobs({changed}, Table2(), options_).ok());
  EXPECT_THAT(seen_, testing::ElementsAre("b"));
}

TEST_F(Pool, AFileThatIsBrokenIsRunAgain) {
  ASSERT_TRUE(RunJobs({SmallJob("a")}, Table2(), options_).ok());
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    std::filesystem::resize_file(entry.path(), 100);
  }
  seen_.clear();
  ASSERT_TRUE(RunJobs({SmallJob("a")}, Table2(), options_).ok());
  EXPECT_THAT(seen_, testing::ElementsAre("a"));
}

TEST_F(Pool, NamesTheJobThatFails) {
  Job bad = SmallJob("bad");
  bad.background = "none";
  const auto result = RunJobs({bad, SmallJob("good")}, Table2(), options_);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(result.status().ToString(),
              HasSubstr("bad: no background kernel 'none'"));
}

Job GnomBatches(const char* name) {
  Job job;
  job.name = name;
  job.size = Size::kSmall;
  job.overrides = {{"sm.count", "2"}};
  job.runs = 0;
  job.gnom_batch = 64;
  job.arrivals = {20'000, 20'000, 1};
  return job;
}

// RunGnom compares the text of each reply.
TEST(RunJob, GnomAnswersKeysOfEveryLengthAndMisses) {
  Job job = GnomBatches("keys");
  job.gnom_keys = {{16, 40}, {32, 30}, {64, 20}, {128, 10}};
  job.gnom_hits = 50;
  const auto result = RunJob(job, Table2());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)["batches"], 8);
  EXPECT_TRUE((*result)["cycles"].is_null());
  // Longer keys take longer.
  const auto short_keys = RunJob(GnomBatches("short keys"), Table2());
  ASSERT_TRUE(short_keys.ok()) << short_keys.status();
  EXPECT_GT((*result)["turnaround"][7], (*short_keys)["turnaround"][7]);
}

// How many batches are under way when one has just come, at most.
size_t MostInFlight(const Json& result) {
  size_t most = 0;
  const auto& arrivals = result["arrival"];
  for (const Json& now : arrivals) {
    size_t in_flight = 0;
    for (size_t i = 0; i < arrivals.size(); ++i) {
      const auto arrival = arrivals[i].get<int64_t>();
      const auto end = arrival + result["turnaround"][i].get<int64_t>();
      in_flight += arrival <= now.get<int64_t>() && now.get<int64_t>() < end;
    }
    most = std::max(most, in_flight);
  }
  return most;
}

TEST(RunJob, GnomFlatOutKeepsAsManyBatchesInFlightAsAsked) {
  for (const bool pings : {false, true}) {
    Job job = GnomBatches("flat out");
    job.arrivals = {0, 0, 3};
    job.gnom_batches = 12;
    job.gnom_pings = pings;
    const auto result = RunJob(job, Table2());
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ((*result)["batches"], 12);
    EXPECT_EQ(MostInFlight(*result), 3);
  }
}

TEST(RunJob, GnomRefusesWhatItCannotServe) {
  Job apart = GnomBatches("shares");
  apart.gnom_keys = {{16, 60}, {32, 30}};
  Job tiny = GnomBatches("tiny keys");
  tiny.gnom_keys = {{7, 100}};
  Job beside = GnomBatches("beside");
  beside.arrivals = {0, 0, 3};
  beside.runs = 1;
  for (const Job& job : {apart, tiny, beside}) {
    EXPECT_THAT(RunJob(job, Table2()).status().ToString(),
                HasSubstr("whose shares make 100 %"))
        << job.name;
  }
}

}  // namespace
}  // namespace carillon::sim::figures
