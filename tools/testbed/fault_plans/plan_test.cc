#include "tools/testbed/fault_plans/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tools/testbed/fault_plans/fields.h"

namespace carillon::fault {
namespace {

using faults::Action;
using faults::Fault;
using faults::Point;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kPath[] = "plans/p.yaml";

std::vector<std::string> Problems(std::string_view text) {
  std::vector<std::string> lines;
  for (const Problem& problem : ReadPlan(text, kPath).problems) {
    lines.push_back(problem.ToString("p.yaml"));
  }
  return lines;
}

// The problems of a plan with this fault in it, whose first line is line 2.
std::vector<std::string> FaultProblems(std::string_view fault) {
  return Problems("plan: p\nfaults: [" + std::string(fault) + "]");
}

constexpr char kWhole[] = R"(
plan: kill-nic
about: "A NIC dies: \"nobody\" minds"
seed: 7
topology:
  name: lab
  devices:
    - {name: nic0, kind: nic, udp_port: 0, tcp_port: 0, restart: on_failure}
    - {name: fpga, kind: fpga, count: 2}
faults:
  - name: nic-dies
    target: {process: nic0}
    when: {point: device.ring, nth: 1000}
    do: kill
  - name: pause
    target: {process: gpud}
    when: {every: 200ms, after: 1s, window: 5s, after_fault: nic-dies}
    do: {stop: {for: 50ms}}
    times: 3
    expect: {struck: "> 1"}
  - name: slow
    target: {process: "fpga*", device: fpga0, event: 2}
    when: {point: gpud.complete, every: 3, probability: 0.25, after_state: fpga1 ready 2}
    do: {delay: {for: 2ms, jitter: 1ms}}
    times: 0
  - {name: flip, when: {point: device.commit}, do: {corrupt: {offset: 8, mask: "ff00"}}}
  - {name: storm, when: {point: device.ring}, do: {storm: {count: 100000}}}
  - name: refuse
    target: {method: RegisterEvent}
    when: {point: gpud.rpc}
    do: {abort: {code: UNAVAILABLE}}
run: {within: 10s, for: 1s, settle: 500ms, clients: 4}
expect:
  lost: 1
  failed: "<= 3"
  ok: any
  progress: [nic0, gpud]
  running: [gpud]
  restarts: {nic0: 1, gpud: 0}
)";

TEST(Plan, ReadsEverythingThatAFileMaySay) {
  const PlanReading reading = ReadPlan(kWhole, kPath);
  ASSERT_THAT(reading.problems, IsEmpty())
      << ToString(reading.problems, "p.yaml");
  const Plan& plan = reading.plan;
  EXPECT_EQ(plan.name, "kill-nic");
  EXPECT_EQ(plan.about, "A NIC dies: \"nobody\" minds");
  EXPECT_EQ(plan.seed, 7u);
  ASSERT_TRUE(plan.topology.has_value());
  EXPECT_THAT(plan.topology->devices, SizeIs(3));
  ASSERT_THAT(plan.faults, SizeIs(6));

  const Fault& dies = plan.faults[0].fault;
  EXPECT_EQ(dies.name, "nic-dies");
  EXPECT_EQ(dies.process, "nic0");
  EXPECT_EQ(dies.point, Point::kDeviceRing);
  EXPECT_EQ(dies.nth, 1000u);
  EXPECT_EQ(dies.action, Action::kKill);
  EXPECT_EQ(plan.faults[0].struck, AtLeast(1));

  const Fault& pause = plan.faults[1].fault;
  EXPECT_EQ(pause.point, Point::kNone);
  EXPECT_EQ(pause.every_ns, 200'000'000u);
  EXPECT_EQ(pause.after_ns, 1'000'000'000u);
  EXPECT_EQ(pause.window_ns, 5'000'000'000u);
  EXPECT_EQ(pause.after_fault, "nic-dies");
  EXPECT_EQ(pause.action, Action::kStop);
  EXPECT_EQ(pause.duration_ns, 50'000'000u);
  EXPECT_EQ(pause.times, 3u);
  EXPECT_FALSE(plan.faults[1].struck.Holds(1));
  EXPECT_TRUE(plan.faults[1].struck.Holds(2));

  const Fault& slow = plan.faults[2].fault;
  EXPECT_EQ(slow.device, "fpga0");
  EXPECT_EQ(slow.event_id, 2u);
  EXPECT_EQ(slow.every, 3u);
  EXPECT_EQ(slow.probability, 0.25);
  EXPECT_EQ(slow.jitter_ns, 1'000'000u);
  EXPECT_EQ(slow.times, 0u);

  EXPECT_EQ(plan.faults[3].fault.offset, 8u);
  EXPECT_EQ(plan.faults[3].fault.mask, std::string("\xff\0", 2));
  EXPECT_EQ(plan.faults[4].fault.count, 100'000u);
  EXPECT_EQ(plan.faults[5].fault.code, 14u);
  EXPECT_EQ(plan.faults[5].fault.method, "RegisterEvent");

  EXPECT_EQ(plan.run.within_ns, 10'000'000'000u);
  EXPECT_EQ(plan.run.for_ns, 1'000'000'000u);
  EXPECT_EQ(plan.run.settle_ns, 500'000'000u);
  EXPECT_EQ(plan.run.clients, 4u);
  EXPECT_EQ(plan.expect.of(Count::kLost), Exactly(1));
  EXPECT_EQ(plan.expect.of(Count::kDuplicated), Exactly(0));
  EXPECT_TRUE(plan.expect.of(Count::kOk).is_any());
  EXPECT_FALSE(plan.expect.of(Count::kFailed).Holds(4));
  ASSERT_THAT(plan.expect.progress, SizeIs(2));
  EXPECT_EQ(plan.expect.progress[0].first, "nic0");
  EXPECT_FALSE(plan.expect.progress[0].second.Holds(0));
  EXPECT_TRUE(plan.expect.progress[0].second.Holds(1));
  EXPECT_THAT(plan.expect.restarts, SizeIs(2));
}

TEST(Plan, IsReadBackFromItsOwnText) {
  const Plan plan = ReadPlan(kWhole, kPath).plan;
  const std::string text = ToYaml(plan);
  const PlanReading again = ReadPlan(text, kPath);
  ASSERT_THAT(again.problems, IsEmpty())
      << ToString(again.problems, "p.yaml") << "\n"
      << text;
  EXPECT_EQ(again.plan.name, plan.name);
  EXPECT_EQ(again.plan.about, plan.about);
  EXPECT_EQ(again.plan.seed, plan.seed);
  EXPECT_EQ(again.plan.faults, plan.faults) << text;
  EXPECT_EQ(again.plan.run, plan.run);
  EXPECT_EQ(again.plan.expect, plan.expect);
  EXPECT_EQ(ToYaml(again.plan), text);
  ASSERT_TRUE(again.plan.topology.has_value());
  EXPECT_THAT(again.plan.topology->devices, SizeIs(3));
}

TEST(Plan, TakesProgressByNumberToo) {
  const PlanReading reading = ReadPlan(
      "plan: p\nfaults: [{name: a, do: kill}]\nexpect: {progress: {fpga0: 0, "
      "gpud: '> 5'}}",
      kPath);
  EXPECT_THAT(reading.problems, IsEmpty());
  ASSERT_THAT(reading.plan.expect.progress, SizeIs(2));
  EXPECT_EQ(reading.plan.expect.progress[0].second, Exactly(0));
  EXPECT_FALSE(reading.plan.expect.progress[1].second.Holds(5));
}

TEST(Plan, RefusesNamesThatNoProcessHas) {
  EXPECT_THAT(Problems("plan: p\nfaults: [{name: a, do: kill}]\nexpect: "
                       "{restarts: {'a\"b': 1}, running: ['x y']}"),
              ElementsAre(HasSubstr("restarts: 'a\"b' is no name"),
                          HasSubstr("running: 'x y' is no name")));
}

TEST(Plan, SaysWhatIsMissing) {
  EXPECT_THAT(Problems(""), ElementsAre("p.yaml: the file is empty; the "
                                        "smallest plan has `plan: NAME` and "
                                        "`faults:`"));
  EXPECT_THAT(Problems("[]"),
              ElementsAre(HasSubstr("the file holds a list; a plan is a map")));
  EXPECT_THAT(Problems("about: x"),
              ElementsAre("p.yaml:1:1: the plan has no name: `plan: NAME`",
                          "p.yaml:1:1: the plan has no faults"));
  EXPECT_THAT(Problems("plan: p\nfaults: []"),
              ElementsAre("p.yaml:2:1: faults is empty"));
  EXPECT_THAT(FaultProblems("{target: {process: nic0}}"),
              ElementsAre("p.yaml:2:10: the fault has no name",
                          "p.yaml:2:10: the fault has no do"));
}

TEST(Plan, RefusesUnknownKeysWithTheNearestOne) {
  EXPECT_THAT(Problems("plan: p\nfault: []\nfaults: [{name: a, do: kill}]"),
              ElementsAre("p.yaml:2:1: unknown key 'fault' of a plan; did you "
                          "mean 'faults'?"));
  EXPECT_THAT(FaultProblems("{name: a, do: kill, time: 1}"),
              ElementsAre(HasSubstr("unknown key 'time' of a fault; did you "
                                    "mean 'times'?")));
  EXPECT_THAT(FaultProblems("{name: a, do: kill, target: {proces: b}}"),
              ElementsAre(HasSubstr("unknown key 'proces' of target; did you "
                                    "mean 'process'?")));
  EXPECT_THAT(FaultProblems("{name: a, do: kill, when: {points: b}}"),
              ElementsAre(HasSubstr("did you mean 'point'?")));
  EXPECT_THAT(FaultProblems("{name: a, do: {stop: {four: 1s}}}"),
              ElementsAre(HasSubstr("unknown key 'four' of stop; did you mean "
                                    "'for'?")));
  EXPECT_THAT(FaultProblems("{name: a, do: kill, expect: {strukc: 1}}"),
              ElementsAre(HasSubstr("did you mean 'struck'?")));
  EXPECT_THAT(
      Problems("plan: p\nfaults: [{name: a, do: kill}]\nrun: {form: 1s}"),
      ElementsAre("p.yaml:3:7: unknown key 'form' of run; did you mean "
                  "'for'?"));
  EXPECT_THAT(
      Problems("plan: p\nfaults: [{name: a, do: kill}]\nexpect: {lots: 1}"),
      ElementsAre("p.yaml:3:10: unknown key 'lots' of expect; did you mean "
                  "'lost'?"));
}

TEST(Plan, RefusesUnknownPointsAndActions) {
  EXPECT_THAT(FaultProblems("{name: a, do: kil}"),
              ElementsAre("p.yaml:2:24: do: 'kil' is no action; did you mean "
                          "'kill'?"));
  EXPECT_THAT(FaultProblems("{name: a, do: {explode: {}}}"),
              ElementsAre(HasSubstr("do: 'explode' is no action")));
  EXPECT_THAT(FaultProblems("{name: a, do: {kill: , stop: }}"),
              ElementsAre("p.yaml:2:20: do has 2 actions; a fault has one"));
  EXPECT_THAT(FaultProblems("{name: a, when: {point: device.rin}, do: kill}"),
              ElementsAre(HasSubstr("point: 'device.rin' is no point; did you "
                                    "mean 'device.ring'?")));
}

// An error that only the whole fault shows is reported where the field stands.
TEST(Plan, TellsWhatDoesNotGoTogetherAtItsLine) {
  EXPECT_THAT(FaultProblems("{name: a, when: {point: gpud.complete},\n do: "
                            "storm}"),
              ElementsAre(HasSubstr("p.yaml:3:2: do: storm has no meaning at "
                                    "gpud.complete; there are")));
  EXPECT_THAT(FaultProblems("{name: a, do: lose}"),
              ElementsAre(HasSubstr("do: lose needs a point")));
  EXPECT_THAT(FaultProblems("{name: a, do: kill,\n when: {\nnth: 3}}"),
              ElementsAre(HasSubstr("point: is missing")));
  EXPECT_THAT(FaultProblems("{name: A!, do: kill}"),
              ElementsAre(HasSubstr("p.yaml:2:11: name: ")));
}

TEST(Plan, RefusesWrongValuesWithWhatIsAllowed) {
  EXPECT_THAT(FaultProblems("{name: a, do: {stop: {for: 5}}}"),
              ElementsAre(HasSubstr("for: '5' is not a duration")));
  EXPECT_THAT(
      FaultProblems("{name: a, when: {point: device.ring, nth: 0}, do: kill}"),
      ElementsAre(HasSubstr("nth: '0' is out of range; allowed: 1 to")));
  EXPECT_THAT(FaultProblems("{name: a, when: {point: device.ring, probability: "
                            "1.5}, do: kill}"),
              ElementsAre(HasSubstr("not a number above 0 and at most 1")));
  EXPECT_THAT(FaultProblems("{name: a, when: {point: device.ring, probability: "
                            ".nan}, do: kill}"),
              SizeIs(1));
  EXPECT_THAT(FaultProblems("{name: a, when: {point: device.commit}, do: "
                            "{corrupt: {mask: f}}}"),
              ElementsAre(HasSubstr("not 1 to 16 bytes")));
  EXPECT_THAT(FaultProblems("{name: a, when: {point: gpud.rpc}, do: {abort: "
                            "{code: UNAVAILABEL}}}"),
              ElementsAre(HasSubstr("did you mean 'UNAVAILABLE'?")));
  EXPECT_THAT(FaultProblems("{name: a, do: kill, expect: {struck: some}}"),
              ElementsAre(HasSubstr("struck: 'some' is neither a number nor")));
  EXPECT_THAT(Problems("plan: p\nfaults: [{name: a, do: kill}]\nrun: {for: "
                       "61min}"),
              ElementsAre(HasSubstr("allowed: 0 to 60min")));
  EXPECT_THAT(Problems("plan: p\nseed: -1\nfaults: [{name: a, do: kill}]"),
              ElementsAre(HasSubstr("seed: '-1' is out of range")));
}

TEST(Plan, AFaultMayWaitForAState) {
  const auto fault = [](const std::string& state) {
    return "{name: a, when: {point: device.ring, after_state: " + state +
           "}, do: kill}";
  };
  const PlanReading reading =
      ReadPlan("plan: p\nfaults: [" + fault("nic0 ready 3") + "]", kPath);
  ASSERT_THAT(reading.problems, IsEmpty());
  const Fault& read = reading.plan.faults[0].fault;
  EXPECT_EQ(read.after_process, "nic0");
  EXPECT_EQ(read.after_state, faults::State::kReady);
  EXPECT_EQ(read.after_count, 3u);
  EXPECT_EQ(ReadPlan(ToYaml(reading.plan), kPath).plan.faults,
            reading.plan.faults);
  EXPECT_THAT(FaultProblems(fault("nic0")),
              ElementsAre(HasSubstr("after_state: 'nic0' is not a process, a "
                                    "state and how often")));
  EXPECT_THAT(FaultProblems(fault("nic0 redy")),
              ElementsAre(HasSubstr("'redy' is no state; did you mean "
                                    "'ready'?")));
  EXPECT_THAT(FaultProblems(fault("nic0 ready 0")),
              ElementsAre(HasSubstr("'0' is out of range")));
  EXPECT_THAT(Problems("plan: p\ntopology: {devices: [{name: fpga0, kind: "
                       "fpga}]}\nfaults: [" +
                       fault("fpga1 ready") + "]"),
              ElementsAre(HasSubstr("after_state: the topology has no "
                                    "'fpga1'; did you mean 'fpga0'?")));
}

TEST(Plan, RefusesFaultsOfOneName) {
  EXPECT_THAT(FaultProblems("{name: a, do: kill},\n {name: a, do: stop}"),
              ElementsAre("p.yaml:3:2: name: two faults are called 'a' (the "
                          "first in line 2)"));
  EXPECT_THAT(FaultProblems("{name: ab, do: kill},\n {name: b, do: stop, when: "
                            "{after_fault: ba}}"),
              ElementsAre(HasSubstr("after_fault: no fault is called 'ba'; did "
                                    "you mean 'ab'?")));
}

TEST(Plan, RefusesFaultsThatWaitForOneAnother) {
  EXPECT_THAT(FaultProblems("{name: a, do: kill, when: {after_fault: c}},\n"
                            "{name: b, do: kill, when: {after_fault: a}},\n"
                            "{name: c, do: kill, when: {after_fault: b}},\n"
                            "{name: d, do: kill, when: {after_fault: c}}"),
              ElementsAre(HasSubstr("p.yaml:2:"), HasSubstr("p.yaml:3:"),
                          HasSubstr("p.yaml:4:"), HasSubstr("p.yaml:5:")));
  EXPECT_THAT(FaultProblems("{name: a, do: kill, when: {after_fault: b}},\n"
                            "{name: b, do: kill, when: {after_fault: a}}"),
              Contains(HasSubstr("after_fault: these wait for one another and "
                                 "never strike: b after a after b")));
}

TEST(Plan, RefusesASeedThatNoNumberHolds) {
  const std::string faults = "\nfaults: [{name: a, do: kill}]";
  EXPECT_THAT(Problems("plan: p\nseed: 18446744073709551616" + faults),
              ElementsAre(HasSubstr("seed: '18446744073709551616' is out of "
                                    "range; allowed: 0 to "
                                    "18446744073709551615")));
  EXPECT_THAT(Problems("plan: p\nseed: 18446744073709551615" + faults),
              IsEmpty());
}

TEST(Plan, RefusesProcessesThatTheTopologyHasNot) {
  const std::string topology =
      "plan: p\ntopology: {devices: [{name: fpga0, kind: fpga}]}\n";
  EXPECT_THAT(Problems(topology + "faults: [{name: a, target: {process: "
                                  "fpga9}, do: kill}]"),
              ElementsAre("p.yaml:3:29: process: the topology has no 'fpga9'; "
                          "did you mean 'fpga0'?"));
  EXPECT_THAT(Problems(topology + "faults: [{name: a, target: {process: "
                                  "'f*'}, do: kill}]"),
              IsEmpty());
  EXPECT_THAT(Problems(topology + "faults: [{name: a, target: {device: gpud}, "
                                  "when: {point: gpud.launch}, do: kill}]"),
              ElementsAre(HasSubstr("device: the topology has no 'gpud'")));
  EXPECT_THAT(Problems(topology + "faults: [{name: a, do: kill}]\nexpect: "
                                  "{running: [nic0], restarts: {gpu: 1}}"),
              ElementsAre(HasSubstr("running: the topology has no 'nic0'"),
                          HasSubstr("restarts: the topology has no 'gpu'; did "
                                    "you mean 'gpud'?")));
}

TEST(Plan, TellsTheProblemsOfItsTopology) {
  EXPECT_THAT(Problems("plan: p\ntopology:\n  names: x\nfaults: [{name: a, do: "
                       "kill}]"),
              ElementsAre(HasSubstr("p.yaml:3:3: unknown key 'names' of a "
                                    "topology")));
  EXPECT_THAT(Problems("plan: p\ntopology: nosuch.yaml\nfaults: [{name: a, do: "
                       "kill}]"),
              ElementsAre(AllOf(HasSubstr("p.yaml:2:11: topology: cannot read"),
                                HasSubstr("/plans/nosuch.yaml"))));
}

TEST(Plan, FindsItsTopologyBesideIt) {
  const std::string folder = ::testing::TempDir() + "plan_test";
  std::filesystem::create_directories(folder + "/plans");
  std::ofstream(folder + "/t.yaml") << "name: lab\ndevices:\n"
                                       "  - {name: x, kind: exec, command: "
                                       "[./x]}\n";
  std::ofstream(folder + "/plans/p.yaml")
      << "plan: p\ntopology: ../t.yaml\nfaults: [{name: a, do: kill}]\n";
  const auto plan = LoadPlan(folder + "/plans/p.yaml");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->topology->devices.at(0).command.at(0), folder + "/x");
  EXPECT_EQ(plan->topology_file, "../t.yaml");
  std::ofstream(folder + "/t.yaml") << "nam: lab\n";
  EXPECT_THAT(
      std::string(LoadPlan(folder + "/plans/p.yaml").status().message()),
      HasSubstr("t.yaml:1:1: unknown key 'nam'"));
  EXPECT_EQ(LoadPlan(folder + "/none.yaml").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(Plan, IsToldFromATopology) {
  EXPECT_TRUE(LooksLikePlan("plan: p"));
  EXPECT_TRUE(LooksLikePlan("faults: [{name: a, do: kill}]"));
  EXPECT_FALSE(LooksLikePlan("name: lab\nfaults: true"));
  EXPECT_FALSE(LooksLikePlan("name: lab"));
  EXPECT_FALSE(LooksLikePlan(": : :"));
  EXPECT_FALSE(LooksLikePlan(""));
}

TEST(Plan, GivesEveryFaultItsOwnStream) {
  Plan plan = ReadPlan(kWhole, kPath).plan;
  std::set<uint64_t> seeds;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    plan.seed = seed;
    for (const Fault& fault : FaultsOf(plan)) seeds.insert(fault.seed);
  }
  EXPECT_THAT(seeds, SizeIs(60));
  EXPECT_EQ(FaultsOf(plan)[0].seed, SeedOf(9, "nic-dies"));
}

// Each field reads back the text that it writes, and belongs to some action or
// part.
TEST(Fields, AreReadBackFromTheirText) {
  const Plan plan = ReadPlan(kWhole, kPath).plan;
  std::set<std::string_view> seen;
  for (const PlannedFault& planned : plan.faults) {
    Fault copy;
    copy.name = planned.fault.name;
    copy.action = planned.fault.action;
    for (const Field& field : Fields()) {
      const std::string text = field.get(planned.fault);
      if (text.empty()) continue;
      seen.insert(field.name);
      EXPECT_TRUE(field.set(text, copy).ok()) << field.name << ": " << text;
    }
    EXPECT_EQ(copy, planned.fault);
  }
  // `bytes` excludes `mask`.
  EXPECT_EQ(seen.size() + 1, Fields().size());
}

TEST(Comparison, HoldsAsItSays) {
  const auto holds = [](std::string_view text) {
    const auto comparison = Comparison::Parse(text);
    EXPECT_TRUE(comparison.ok()) << comparison.status();
    std::string numbers;
    for (uint64_t i = 0; i < 5; ++i) {
      if (comparison->Holds(i)) numbers += std::to_string(i);
    }
    EXPECT_EQ(*Comparison::Parse(comparison->ToString()), *comparison);
    return numbers;
  };
  EXPECT_EQ(holds("2"), "2");
  EXPECT_EQ(holds("= 2"), "2");
  EXPECT_EQ(holds("!= 2"), "0134");
  EXPECT_EQ(holds("< 2"), "01");
  EXPECT_EQ(holds("<=2"), "012");
  EXPECT_EQ(holds("> 2"), "34");
  EXPECT_EQ(holds(">= 2"), "234");
  EXPECT_EQ(holds("any"), "01234");
  for (const char* text : {"", "> ", "2 3", "=> 2", "-1", "0x2", "ANY"}) {
    EXPECT_FALSE(Comparison::Parse(text).ok()) << text;
  }
}

}  // namespace
}  // namespace carillon::fault
