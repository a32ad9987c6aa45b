// Whole measurements between real processes: this test's own binary plays the
// servers and clients.
#include "tools/bench/session.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <tuple>

#include "base/line_process.h"
#include "base/temp_directory.h"
#include "fmt/format.h"
#include "tools/bench/report.h"
#include "tools/bench/transports/transport.h"
#include "tools/plots/document.h"

namespace carillon::bench {
namespace {

using std::chrono::milliseconds;

Contender Make(std::string_view transport, std::string_view name = "",
               Wait wait = Wait::kSpins) {
  Contender contender;
  contender.name = name.empty() ? transport : name;
  contender.label = contender.name;
  contender.job.transport = transport;
  contender.job.wait = wait;
  contender.job.round_trips = 20;
  contender.job.round_trip_time = milliseconds(2000);
  contender.job.pipeline_time = milliseconds(5);
  contender.job.window = 16;
  return contender;
}

SessionOptions Options(size_t rounds = 1) {
  return {.rounds = rounds, .gpud = plots::Runfile("gpu_daemon/gpud")};
}

void Ignore(const Contender&, const Measurement&) {}

// What bench left in a directory.
std::set<std::string> LeftIn(const std::filesystem::path& directory) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("carillon-")) files.insert(name);
  }
  return files;
}

class EveryTransport
    : public testing::TestWithParam<std::tuple<std::string_view, Wait>> {
 protected:
  static Contender MakeOne(std::string_view name = "") {
    const auto& [transport, wait] = GetParam();
    Contender contender = Make(transport, name, wait);
    // One futex word carries one wake: there is nothing to pipeline.
    if (transport == "futex_wake") contender.job.pipeline_time = {};
    return contender;
  }
};

TEST_P(EveryTransport, CarriesRequestsAndRepliesBetweenTwoProcesses) {
  const auto measured = RunSession({MakeOne()}, Options(), &Ignore);
  ASSERT_TRUE(measured.ok()) << measured.status();
  ASSERT_EQ(measured->size(), 2u);
  for (const Measurement& measurement : *measured) {
    // Fewer, where the machine is too slow for its time.
    EXPECT_GE(measurement.result["round_trip_ns"]["samples"], 1);
    EXPECT_LE(measurement.result["round_trip_ns"]["samples"], 20);
    if (MakeOne().job.pipeline_time.count() == 0) continue;
    EXPECT_GT(measurement.result["pipelined"]["messages"], 0);
  }
}

TEST_P(EveryTransport, RefusesAnEndpointWithoutAServer) {
  const auto& [name, wait] = GetParam();
  const Transport* transport = FindTransport(name);
  // Clients of gpud and gRPC wait for kPatience: it may still be coming up.
  if (transport->serve == nullptr || name == "grpc_unary" ||
      name.starts_with("remote_")) {
    return;
  }
  EXPECT_FALSE(transport->connect("/nonexistent/endpoint", wait).ok());
}

std::vector<std::string_view> TransportNames() {
  std::vector<std::string_view> names;
  for (const Transport& transport : AllTransports()) {
    names.push_back(transport.name);
  }
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, EveryTransport,
                         testing::Combine(testing::ValuesIn(TransportNames()),
                                          testing::ValuesIn(kEveryWait)),
                         [](const auto& info) {
                           return fmt::format("{}_{}", std::get<0>(info.param),
                                              NameOf(std::get<1>(info.param)));
                         });

TEST(Session, MeasuresInTheOrderOfTheRoundsAndTellsWhatOthersDid) {
  Contender wake = Make("futex_wake", "", Wait::kSleeps);
  wake.job.pipeline_time = {};
  std::vector<std::string> order;
  const auto measured =
      RunSession({wake, Make("unix_seqpacket")}, Options(2),
                 [&](const Contender& contender, const Measurement& one) {
                   order.push_back(contender.name);
                   EXPECT_GE(one.foreign, 0);
                   EXPECT_GT(one.client_cpu + one.server_cpu, 0);
                 });
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(order, (std::vector<std::string>{"futex_wake", "unix_seqpacket",
                                             "unix_seqpacket", "futex_wake",
                                             "unix_seqpacket", "futex_wake",
                                             "futex_wake", "unix_seqpacket"}));
  EXPECT_EQ((*measured)[3].round, 0u);
  EXPECT_EQ((*measured)[4].round, 1u);
}

TEST(Session, AddsUpTheRatesOfSeveralClientsOfOneServer) {
  Contender four = Make("event_null");
  four.clients = 4;
  four.job.round_trips = 0;
  const auto measured = RunSession({four}, Options(), &Ignore);
  ASSERT_TRUE(measured.ok()) << measured.status();
  // Each client sends at least one window.
  EXPECT_GE((*measured)[0].result["pipelined"]["messages"], 4 * 16);
}

TEST(Machine, CountsTheTimeOfWhatAProcessHasStarted) {
  auto parent = LineProcess::Start(
      {.argv = {"/bin/sh", "-c", "(while kill -0 $$; do :; done) & wait"}});
  ASSERT_TRUE(parent.ok()) << parent.status();
  const auto deadline = std::chrono::steady_clock::now() + milliseconds(20'000);
  while (TreeCpuNs(parent->pid()) < 100'000'000 &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_GE(TreeCpuNs(parent->pid()), 100'000'000u);
  EXPECT_LT(parent->CpuNs(), 100'000'000u);
  parent->End(SIGKILL, milliseconds(2000));
}

TEST(Session, LeavesNoProcessDirectoryOrQueueBehind) {
  // Its own, so that another bench on this machine does not count.
  const TempDirectory mine;
  setenv("TMPDIR", mine.path().c_str(), 1);
  const auto queues = LeftIn("/dev/shm");
  const auto measured =
      RunSession({Make("boost_mq"), Make("event_echo")}, Options(), &Ignore);
  unsetenv("TMPDIR");
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  EXPECT_EQ(LeftIn(mine.path()), std::set<std::string>());
  EXPECT_EQ(LeftIn("/dev/shm"), queues);
}

TEST(Session, NamesTheContenderThatFails) {
  SessionOptions options = Options();
  options.gpud = "";
  const auto no_gpud =
      RunSession({Make("event_null", "the event")}, options, &Ignore);
  EXPECT_EQ(no_gpud.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(no_gpud.status().message().find("the event") == 0)
      << no_gpud.status();
  EXPECT_EQ(
      RunSession({Make("carrier_pigeon")}, Options(), &Ignore).status().code(),
      absl::StatusCode::kNotFound);
}

TEST(Session, FailsWhenTheServerDoesNotStart) {
  SessionOptions options = Options();
  options.gpud = "/nonexistent/gpud";
  const auto measured = RunSession({Make("event_null")}, options, &Ignore);
  EXPECT_FALSE(measured.ok());
  EXPECT_NE(measured.status().message().find("/nonexistent/gpud"),
            absl::string_view::npos);
}

Measurement Measured(size_t contender, size_t round, double p50,
                     bool disturbed = false) {
  Measurement measurement;
  measurement.contender = contender;
  measurement.round = round;
  measurement.disturbed = disturbed;
  measurement.result["round_trip_ns"]["p50"] = p50;
  measurement.result["round_trip_ns"]["p99"] = 2 * p50;
  return measurement;
}
constexpr std::string_view kP50 = "/round_trip_ns/p50";

TEST(ValuesOf, LeavesOutDisturbedMeasurementsUnlessThereAreNoOthers) {
  const std::vector<Measurement> some = {
      Measured(0, 0, 5), Measured(0, 1, 99, true), Measured(0, 1, 7)};
  EXPECT_EQ(ValuesOf(some, 0, kP50), (std::vector<RoundValues>{{5}, {7}}));
  const std::vector<Measurement> none = {Measured(0, 0, 5, true)};
  EXPECT_EQ(ValuesOf(none, 0, kP50), (std::vector<RoundValues>{{5}}));
  EXPECT_TRUE(ValuesOf(none, 0, "/pipelined/per_second").empty());
}

Part SamplePart() {
  return Part("sample",
              {Make("ring_null", "ring"), Make("event_null", "event")},
              {Measured(0, 0, 100), Measured(1, 0, 150), Measured(1, 0, 150),
               Measured(0, 0, 100), Measured(1, 1, 400), Measured(0, 1, 200)});
}

TEST(Report, ComparesInPairsAndSaysWhetherATargetIsMet) {
  const Range ratio = SamplePart().Ratio("event", "ring", kP50);
  EXPECT_EQ(ratio.runs, 2u);
  EXPECT_NEAR(ratio.low, 1.5, 1e-12);
  EXPECT_NEAR(ratio.high, 2, 1e-12);
  Figure figure{.value = ratio, .wish = Figure::Wish::kAtMost, .target = 1.75};
  EXPECT_TRUE(figure.met());
  figure.target = 1.7;
  EXPECT_FALSE(figure.met());
  figure.wish = Figure::Wish::kAtLeast;
  EXPECT_TRUE(figure.met());
}

TEST(Report, ComparesNobodyWithOneThatWaitsDifferently) {
  const Part part(
      "sample",
      {Make("ring", "spins"), Make("unix_seqpacket", "sleeps", Wait::kSleeps)},
      {Measured(0, 0, 100), Measured(1, 0, 50'000)});
  EXPECT_EQ(part.Ratio("sleeps", "spins", kP50).runs, 0u);
  EXPECT_EQ(part.Ratio("sleeps", "sleeps", kP50).runs, 1u);
  const std::string table = part.Table("spins");
  EXPECT_NE(table.find("1.00 ["), std::string::npos) << table;
  EXPECT_EQ(table.find("500 ["), std::string::npos) << table;
  const Json contenders = part.ToJson()["contenders"];
  EXPECT_EQ(contenders[0]["client_waits"], "spins");
  EXPECT_EQ(contenders[1]["server_waits"], "sleeps");
}

TEST(Report, DocumentHasMachineMethodFiguresAndEveryMeasurement) {
  const Json document = MakeDocument("sample", Options(2), {SamplePart()},
                                     {{.name = "f",
                                       .value = {1, 2, 2, 2},
                                       .wish = Figure::Wish::kAtMost,
                                       .target = 2.5}});
  EXPECT_EQ(document["bench"], "sample");
  for (const char* field : {"cpu", "cpus", "kernel", "distribution"}) {
    EXPECT_FALSE(document["machine"][field].empty()) << field;
  }
  EXPECT_EQ(document["method"]["rounds"], 2);
  EXPECT_EQ(document["figures"][0]["target"]["at_most"], 2.5);
  EXPECT_EQ(document["figures"][0]["met"], true);
  const Json& part = document["parts"][0];
  EXPECT_EQ(part["measurements"].size(), 6u);
  EXPECT_EQ(part["measurements"][1]["contender"], "event");
  EXPECT_EQ(part["measurements"][1]["round_trip_ns"]["p50"], 150);
  for (const char* field : {"probe_ns", "foreign_share", "disturbed"}) {
    EXPECT_TRUE(part["measurements"][0].contains(field)) << field;
  }
  EXPECT_EQ(part["summary"]["ring"]["round_trip_p50_ns"]["median"], 100);
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  EXPECT_EQ(document.dump().find(host), std::string::npos);
}

TEST(Report, WritesTheDocumentAndItsPlot) {
  const std::string directory =
      std::string(getenv("TEST_TMPDIR")) + "/written/here";
  const Json document = MakeDocument("sample", Options(), {SamplePart()}, {});
  std::vector<std::string> written;
  const auto status = plots::WriteDocument(
      directory, "sample", document, "tools/plots/plot_bench.py", &written);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(written, (std::vector<std::string>{directory + "/sample.json",
                                               directory + "/sample.png"}));
  std::ifstream json(written[0]);
  EXPECT_EQ(Json::parse(json), document);
  std::ifstream png(written[1], std::ios::binary);
  std::string magic(8, '\0');
  png.read(magic.data(), 8);
  EXPECT_EQ(magic, "\x89PNG\r\n\x1a\n");
}

TEST(Report, SaysWhenThePlotCannotBeWrittenAndLeavesNoPartOfIt) {
  const std::string directory = std::string(getenv("TEST_TMPDIR")) + "/taken";
  std::filesystem::create_directories(directory + "/sample.png");
  const Json document = MakeDocument("sample", Options(), {SamplePart()}, {});
  std::vector<std::string> written;
  const auto status = plots::WriteDocument(
      directory, "sample", document, "tools/plots/plot_bench.py", &written);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(std::string(status.message()),
            "cannot write " + directory + "/sample.png: Is a directory");
  EXPECT_FALSE(std::filesystem::exists(directory + "/sample.png.part"));
}

TEST(Report, SaysWhenItCannotWrite) {
  std::vector<std::string> written;
  const auto status =
      plots::WriteDocument("/proc/nowhere", "s", MakeDocument("s", {}, {}, {}),
                           "tools/plots/plot_bench.py", &written);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(status.message().find("/proc/nowhere/s.json"),
            absl::string_view::npos);
  EXPECT_TRUE(written.empty());
}

}  // namespace
}  // namespace carillon::bench

int main(int argc, char** argv) {
  if (const auto played = carillon::bench::PlayRole(argc, argv)) return *played;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
