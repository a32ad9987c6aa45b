// What each sharing policy promises, in one thread: a test places blocks, ends
// them in the order that it wants, and has the time that it says.
#include "gpu_daemon/dispatch/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "gpu_daemon/dispatch/kmu.h"
#include "gpu_daemon/event/gate_kernel.h"
#include "gpu_daemon/event/test_device.h"

namespace carillon::gpud {
namespace {

using shm::EventState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Nanoseconds test_now = 1;

// Everything that was submitted, and what became of it.
class Stage {
 public:
  struct Spec {
    std::string name;
    uint32_t blocks = 1;
    bool event = false;
    uint32_t priority = 0;
    TestDevice* device = nullptr;
    uint32_t threads = 64;
    uint64_t token = 0;
  };
  struct Record {
    uint64_t blocks = 0;
    std::map<uint64_t, uint32_t> placed;  // how often, by block
    int ended = 0;
    LaunchResult result;
  };

  Stage(const GpuModel& model, std::string_view policy, uint32_t reserved = 0)
      : model_(model),
        reserved_(reserved),
        kmu(model, *MakePolicy(policy, model, reserved),
            [] { return test_now; }) {
    event_ = first
                 .Register(
                     {.kernel = &kGateKernel,
                      .bindings = {{.constant_bits = 0}, {.constant_bits = 0}}})
                 .kernel;
  }
  ~Stage() {
    while (!running.empty()) EndAt(0);
    kmu.Stop();
  }

  void Submit(const Spec& spec) {
    auto launch = std::make_unique<KernelLaunch>();
    launch->kmd = {.kernel = &kGateKernel,
                   .grid = {spec.blocks, 1, 1},
                   .block = {spec.threads, 1, 1}};
    launch->cost = CostOf(spec.threads, 0, 0);
    launch->priority = spec.priority;
    launch->memory = (spec.device != nullptr ? spec.device : &first)->memory;
    if (spec.event) launch->event = event_;
    launch->token = spec.token;
    Record& record = records[spec.name];
    record.blocks = spec.blocks;
    launch->on_end = [&record](const LaunchResult& result) {
      ++record.ended;
      record.result = result;
    };
    names_[launch.get()] = spec.name;
    kmu.Submit(std::move(launch));
  }
  // Places all that may be placed; the names, in order.
  std::vector<std::string> Place() {
    std::vector<std::string> names;
    while (auto block = kmu.TryNextBlock()) {
      names.push_back(names_.at(block->launch));
      ++records[names.back()].placed[block->block];
      running.emplace_back(names.back(), *block);
    }
    return names;
  }
  void EndAt(size_t index) {
    const auto block = running[index].second;
    running.erase(running.begin() + static_cast<ptrdiff_t>(index));
    kmu.EndBlock(block);
  }
  // Ends one block of it, and places what may follow.
  std::vector<std::string> End(const std::string& name) {
    for (size_t i = 0; i < running.size(); ++i) {
      if (running[i].first != name) continue;
      EndAt(i);
      return Place();
    }
    ADD_FAILURE() << name << " does not run";
    return {};
  }
  void Switch(std::string_view policy) {
    kmu.SetPolicy(*MakePolicy(policy, model_, reserved_));
  }

  TestDevice first{"a"};
  TestDevice second{"b"};
  std::map<std::string, Record> records;
  std::vector<std::pair<std::string, DispatchedBlock>> running;

 private:
  const GpuModel model_;
  const uint32_t reserved_;
  std::shared_ptr<EventKernel> event_;
  std::map<const KernelLaunch*, std::string> names_;

 public:
  Kmu kmu;
};

// Room for two blocks of 64 threads, or for one of 128.
constexpr GpuModel kTwo{.sms = 1, .blocks_per_sm = 2, .threads_per_sm = 128};

TEST(PriorityTest, FillsTheRoomThatAMoreUrgentBlockCannotUse) {
  Stage stage(kTwo, "priority");
  stage.Submit({.name = "bg", .blocks = 4});
  EXPECT_THAT(stage.Place(), ElementsAre("bg", "bg"));
  stage.Submit({.name = "event", .event = true, .priority = 7, .threads = 128});
  EXPECT_THAT(stage.End("bg"), ElementsAre("bg"));
}

TEST(P1Test, NoOtherBlockStartsWhileAnEventsWaitsForAPlace) {
  Stage stage(kTwo, "p1");
  stage.Submit({.name = "bg", .blocks = 4, .priority = 7});
  EXPECT_THAT(stage.Place(), ElementsAre("bg", "bg"));
  stage.Submit({.name = "event", .event = true, .threads = 128});
  EXPECT_THAT(stage.End("bg"), IsEmpty()) << "the event waits for all the room";
  EXPECT_THAT(stage.End("bg"), ElementsAre("event"));
  EXPECT_THAT(stage.End("event"), ElementsAre("bg", "bg"));
}

TEST(P1Test, OthersGoOnBesideAnEventThatHasAllItsPlaces) {
  Stage stage(kTwo, "p1");
  stage.Submit({.name = "event", .event = true});
  stage.Submit({.name = "bg", .blocks = 2});
  EXPECT_THAT(stage.Place(), ElementsAre("event", "bg"));
}

TEST(P2Test, NoOtherBlockStartsUntilTheEventHasEnded) {
  Stage stage(kTwo, "p2");
  stage.Submit({.name = "event", .event = true});
  stage.Submit({.name = "bg", .blocks = 2, .priority = 7});
  EXPECT_THAT(stage.Place(), ElementsAre("event"));
  EXPECT_THAT(stage.End("event"), ElementsAre("bg", "bg"));
}

TEST(DrainingTest, AKduFullOfBegunKernelsCanStillEmptyForAnEvent) {
  for (const std::string policy : {"p1", "p2"}) {
    Stage stage({.sms = 1, .blocks_per_sm = 64, .threads_per_sm = 4096},
                "first_come");
    for (size_t i = 0; i < kKduEntries; ++i) {
      stage.Submit({.name = "bg" + std::to_string(i), .blocks = 3});
    }
    stage.Place();
    stage.Submit({.name = "event", .event = true});
    stage.Switch(policy);
    for (int i = 0; i < 1000 && !stage.running.empty(); ++i) {
      stage.EndAt(0);
      stage.Place();
    }
    EXPECT_EQ(stage.records["event"].ended, 1) << policy;
    EXPECT_TRUE(stage.kmu.idle()) << policy;
  }
}

constexpr GpuModel kFour{.sms = 4, .blocks_per_sm = 1};

TEST(ReservationTest, EachSideStaysOnItsSms) {
  Stage stage(kFour, "reservation", 1);
  stage.Submit({.name = "bg", .blocks = 9});
  stage.Submit({.name = "event", .blocks = 3, .event = true});
  EXPECT_THAT(stage.Place(), ElementsAre("bg", "bg", "bg", "event"));
  for (const auto& [name, block] : stage.running) {
    EXPECT_EQ(name == "event", block.sm == 3) << block.sm;
  }
  EXPECT_THAT(stage.End("event"), ElementsAre("event"));
  EXPECT_THAT(stage.End("bg"), ElementsAre("bg"));
}

TEST(ReservationTest, NeitherSideKeepsTheOtherOutOfTheKdu) {
  for (const bool flood : {false, true}) {
    Stage stage(kFour, "reservation");
    for (int i = 0; i < 100; ++i) {
      stage.Submit({.name = "flood" + std::to_string(i), .event = flood});
    }
    stage.Submit({.name = "other", .event = !flood});
    EXPECT_THAT(stage.Place(), testing::Contains("other")) << flood;
  }
}

TEST(ReservationTest, HalfOfTheSmsIsTheDefaultAndASideWithoutAnyIsRefused) {
  Stage stage(kFour, "reservation");
  stage.Submit({.name = "event", .blocks = 4, .event = true});
  EXPECT_EQ(stage.Place().size(), 2u);
  EXPECT_EQ(MakePolicy("reservation", {.sms = 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto none_left = MakePolicy("dynamic_reservation", {.sms = 4}, 4);
  EXPECT_THAT(std::string(none_left.status().message()),
              HasSubstr("'dynamic_reservation': 4 of 4 SMs for events"));
}

TEST(DynamicReservationTest, SmsFollowTheLoadOfEvents) {
  test_now = 1;
  Stage stage(kFour, "dynamic_reservation");
  stage.Submit({.name = "bg", .blocks = 100'000});
  EXPECT_EQ(stage.Place().size(), 4u) << "no event, no reservation";
  stage.Submit({.name = "event", .blocks = 500, .event = true});
  stage.Submit({.name = "more", .blocks = 500, .event = true});
  // Two events over some windows: 4 x 2 / (2 + 4) SMs, rounded up.
  const auto step = [&] {
    test_now += 500'000;
    for (size_t i = stage.running.size(); i-- > 0;) stage.EndAt(i);
    stage.Place();
  };
  for (int i = 0; i < 10; ++i) step();
  for (const auto& [name, block] : stage.running) {
    EXPECT_TRUE(name != "bg" || block.sm < 2) << block.sm;
  }
  while (stage.records["event"].ended + stage.records["more"].ended < 2) step();
  for (int i = 0; i < 40; ++i) step();
  EXPECT_EQ(stage.running.size(), 4u);
  EXPECT_EQ(stage.running.back().first, "bg") << "given back";
}

TEST(ExclusiveTest, NothingOfTwoDevicesRunsTogetherAndWhatHasBegunEndsWhole) {
  test_now = 1;
  Stage stage(kTwo, "exclusive");
  stage.Submit({.name = "a1", .blocks = 3});
  EXPECT_THAT(stage.Place(), ElementsAre("a1", "a1"));
  stage.Submit({.name = "b1", .priority = 7, .device = &stage.second});
  stage.Submit({.name = "a2"});
  test_now += 10'000'000;  // beyond the turn
  EXPECT_THAT(stage.End("a1"), ElementsAre("a1"));
  EXPECT_THAT(stage.End("a1"), IsEmpty()) << "a2 has not begun in time";
  EXPECT_THAT(stage.End("a1"), ElementsAre("b1"));
  EXPECT_THAT(stage.End("b1"), ElementsAre("a2"));
}

TEST(ExclusiveTest, TimeIsSharedByWeight) {
  test_now = 1;
  Stage stage(kTwo, "exclusive");
  stage.first.memory->share().set_weight(3);
  std::map<char, int> steps;
  int made = 0;
  const auto submit = [&](char device) {
    stage.Submit({.name = device + std::to_string(made++),
                  .device = device == 'a' ? &stage.first : &stage.second});
  };
  for (int i = 0; i < 40; ++i) {
    submit('a');
    submit('b');
  }
  stage.Place();
  for (int i = 0; i < 8000; ++i) {
    test_now += 100'000;
    const char device = stage.running.front().first[0];
    ++steps[device];
    stage.EndAt(0);
    submit(device);
    stage.Place();
  }
  EXPECT_NEAR(steps['a'], 6000, 300);
}

TEST(ExclusiveTest, AFullKduDoesNotHideTheNextDevice) {
  test_now = 1;
  Stage stage(kTwo, "exclusive");
  for (int i = 0; i < 100; ++i) {
    stage.Submit({.name = "a" + std::to_string(i)});
  }
  stage.Place();
  stage.Submit({.name = "b", .device = &stage.second});
  for (int i = 0; i < 15; ++i) {
    test_now += 100'000;
    stage.EndAt(0);
    stage.Place();
  }
  EXPECT_EQ(stage.records["b"].ended, 1);
}

TEST(GpesTest, OneSliceAtATimeAndTheHighestPriorityIsNext) {
  Stage stage(kTwo, "gpes");
  stage.Submit({.name = "low", .blocks = 5});
  EXPECT_THAT(stage.Place(), ElementsAre("low", "low"));
  stage.Submit({.name = "high", .blocks = 1, .priority = 3});
  EXPECT_THAT(stage.End("low"), IsEmpty()) << "the slice has not ended";
  EXPECT_THAT(stage.End("low"), ElementsAre("high"))
      << "one entity at a time, though there is room for another block";
  EXPECT_THAT(stage.End("high"), ElementsAre("low", "low"));
  EXPECT_EQ(stage.kmu.launches()[0].slices, 1u);
  EXPECT_THAT(stage.End("low"), IsEmpty());
  EXPECT_THAT(stage.End("low"), ElementsAre("low")) << "the last one is short";
  stage.End("low");
  EXPECT_EQ(stage.records["low"].ended, 1);
  for (const auto& [block, times] : stage.records["low"].placed) {
    EXPECT_EQ(times, 1u) << block;
  }
  EXPECT_EQ(stage.records["low"].placed.size(), 5u);
}

TEST(GpesTest, SlicesOfAOneBlockGridAreOneAndLeaveTheGpuToIt) {
  Stage stage(kTwo, "gpes");
  stage.Submit({.name = "one", .blocks = 1});
  stage.Submit({.name = "next", .blocks = 1});
  EXPECT_THAT(stage.Place(), ElementsAre("one"))
      << "one entity at a time, though half of the GPU is free";
  EXPECT_THAT(stage.End("one"), ElementsAre("next"));
  stage.End("next");
  for (const char* name : {"one", "next"}) {
    EXPECT_EQ(stage.records[name].ended, 1) << name;
    EXPECT_EQ(stage.records[name].placed.size(), 1u) << name;
    EXPECT_EQ(stage.records[name].placed[0], 1u) << name;
  }
}

TEST(GpesTest, APolicyChangedInMidSliceLosesAndDoublesNoBlock) {
  Stage stage(kTwo, "gpes");
  stage.Submit({.name = "low", .blocks = 6});
  stage.Submit({.name = "other", .blocks = 2});
  EXPECT_THAT(stage.Place(), ElementsAre("low", "low"));
  stage.Switch("first_come");
  EXPECT_THAT(stage.End("low"), ElementsAre("low"));
  stage.Switch("gpes");
  EXPECT_THAT(stage.End("low"), IsEmpty()) << "what runs ends first";
  EXPECT_THAT(stage.End("low"), ElementsAre("low", "low"));
  stage.Switch("exclusive");
  stage.End("low");
  stage.End("low");
  for (int i = 0; i < 10 && !stage.running.empty(); ++i) {
    stage.EndAt(0);
    stage.Place();
  }
  for (const auto& [name, record] : stage.records) {
    EXPECT_EQ(record.ended, 1) << name;
    EXPECT_EQ(record.placed.size(), record.blocks) << name;
    for (const auto& [block, times] : record.placed) EXPECT_EQ(times, 1u);
  }
}

std::vector<std::string> KmuPolicies() {
  std::vector<std::string> names;
  for (const PolicyInfo* policy : PoliciesOf(Sharer::kKmu)) {
    names.emplace_back(policy->name);
  }
  return names;
}

// Any launches, of any device, with policies that change at any moment, and some
// that are cancelled.
TEST(PolicyTest, WhateverIsSwitchedWhenEachBlockRunsOnceAndEachLaunchEndsOnce) {
  const std::vector<std::string> policies = KmuPolicies();
  for (uint32_t seed = 0; seed < 150; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](size_t below) {
      return static_cast<uint32_t>(random() % below);
    };
    test_now = 1;
    const GpuModel model{.sms = 2 + pick(3),
                         .blocks_per_sm = 1 + pick(4),
                         .threads_per_sm = 256};
    Stage stage(model, policies[pick(policies.size())]);
    uint64_t made = 0;
    const uint64_t wanted = 20 + pick(120);
    uint64_t stuck = 0;
    while (made < wanted || !stage.kmu.idle()) {
      test_now += pick(400'000);
      switch (made < wanted ? pick(8) : 4 + pick(4)) {
        case 0:
        case 1:
        case 2:
        case 3:
          ++made;
          stage.Submit({.name = std::to_string(made),
                        .blocks = 1 + pick(12),
                        .event = pick(2) == 0,
                        .priority = pick(kPriorities),
                        .device = pick(2) == 0 ? &stage.first : &stage.second,
                        .threads = 32u << pick(4),
                        .token = made});
          break;
        case 4:
          stage.Switch(policies[pick(policies.size())]);
          break;
        case 5:
          if (pick(4) != 0 || made == 0) break;
          stage.kmu.Cancel(LaunchFilter::OfToken(1 + pick(made)),
                           shm::EventStatus::kDeviceGone);
          break;
        default:
          stage.Place();
          if (!stage.running.empty()) {
            stage.EndAt(pick(stage.running.size()));
            stuck = 0;
          }
          ASSERT_LT(++stuck, 100u) << "nothing runs; seed " << seed;
      }
    }
    for (const auto& [name, record] : stage.records) {
      ASSERT_EQ(record.ended, 1) << name << " of seed " << seed;
      for (const auto& [block, times] : record.placed) {
        ASSERT_EQ(times, 1u) << name << " of seed " << seed;
      }
      if (record.result.state == EventState::kDone) {
        ASSERT_EQ(record.placed.size(), record.blocks) << "seed " << seed;
      } else {
        ASSERT_EQ(record.result.state, EventState::kAborted);
      }
    }
  }
}

// One launch beside others that never stop coming: more urgent, smaller, of
// another device with the largest weight, each side an event or not.
bool EndsBesideAFlood(std::string_view policy, bool event, bool flood_events) {
  test_now = 1;
  Stage stage({.sms = 2, .blocks_per_sm = 4, .threads_per_sm = 256}, policy);
  stage.second.memory->share().set_weight(DeviceShare::kMostWeight);
  int made = 0;
  const auto flood = [&] {
    stage.Submit({.name = "flood" + std::to_string(made++),
                  .event = flood_events,
                  .priority = 7,
                  .device = &stage.second});
  };
  for (int i = 0; i < 100; ++i) flood();
  stage.Place();
  stage.Submit({.name = "small", .blocks = 3, .event = event, .threads = 256});
  for (int i = 0; i < 5'000; ++i) {
    test_now += 50'000;
    stage.EndAt(0);
    flood();
    stage.Place();
    if (stage.records["small"].ended != 0) return true;
  }
  return false;
}

TEST(PolicyTest, NobodyStarvesButUnderAPolicyThatSaysSo) {
  for (const PolicyInfo* policy : PoliciesOf(Sharer::kKmu)) {
    const bool by_class =
        policy->name == kP1Policy || policy->name == kP2Policy;
    for (const bool event : {false, true}) {
      for (const bool flood_events : {false, true}) {
        const bool may_starve =
            !policy->starves.empty() && (!by_class || !event || flood_events);
        EXPECT_EQ(EndsBesideAFlood(policy->name, event, flood_events),
                  !may_starve)
            << policy->name << ": " << event << " beside " << flood_events;
      }
    }
    if (by_class) {
      EXPECT_EQ(policy->starves,
                "background kernels, and events of lower priorities");
    }
  }
}

// Each side of a reservation has one that waits for room, and floods.
TEST(PolicyTest, EverySideHoldsItsRoomForALargeBlockThatWasOvertaken) {
  Stage stage({.sms = 2, .blocks_per_sm = 4, .threads_per_sm = 256},
              "reservation");
  const auto flood = [&](bool event) {
    stage.Submit({.name = event ? "event" : "other", .event = event});
  };
  for (int i = 0; i < 4; ++i) {
    flood(true);
    flood(false);
  }
  ASSERT_EQ(stage.Place().size(), 8u);
  stage.Submit({.name = "large other", .threads = 256});
  stage.Submit({.name = "large event", .event = true, .threads = 256});
  const auto next = [&](bool event) {
    flood(event);
    return stage.End(event ? "event" : "other");
  };
  for (uint32_t i = 0; i < Kmu::kMostOvertakes; ++i) {
    ASSERT_THAT(next(true), ElementsAre("event"));
    ASSERT_THAT(next(false), ElementsAre("other"));
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(next(false), IsEmpty());
    EXPECT_THAT(next(true), IsEmpty());
  }
  EXPECT_THAT(next(false), ElementsAre("large other"));
  EXPECT_THAT(next(true), ElementsAre("large event"));
}

TEST(PolicyTest, WhoWaitsIsShownWithItsBlocks) {
  Stage stage(kTwo, "first_come");
  stage.Submit({.name = "bg", .blocks = 5, .priority = 2});
  for (int i = 0; i < 40; ++i) {
    stage.Submit({.name = "later" + std::to_string(i)});
  }
  stage.Place();
  stage.End("bg");
  const auto launches = stage.kmu.launches();
  ASSERT_EQ(launches.size(), 41u);
  EXPECT_EQ(launches[0].device, "a");
  EXPECT_EQ(launches[0].kernel, kGateKernel.name);
  EXPECT_EQ(launches[0].priority, 2u);
  EXPECT_EQ(launches[0].blocks, 5u);
  EXPECT_EQ(launches[0].ended, 1u);
  EXPECT_EQ(launches[0].running, 2u);
  EXPECT_EQ(launches[0].slices, 0u);
  EXPECT_GT(launches[1].wait_ns, 0u);
  EXPECT_GE(launches[1].wait_ns, launches[40].wait_ns) << "it came before";
}

TEST(PolicyTest, WhatABackEndCannotDoIsRefusedWithTheListOfWhatItCan) {
  const auto here = MakePolicy("configured");
  EXPECT_EQ(here.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(here.status().message(),
            "sharing policy 'configured': the cpu back-end, and sim in wall "
            "time, can do: first_come, priority, p1, p2, reservation, "
            "dynamic_reservation, exclusive, gpes");
  EXPECT_EQ(
      CheckPolicy(Sharer::kCuda, "p1").message(),
      "sharing policy 'p1': the cuda back-end can do: priority, reservation, "
      "exclusive, gpes, ptb");
  EXPECT_EQ(CheckPolicy(Sharer::kCuda, "gpess").code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace carillon::gpud
