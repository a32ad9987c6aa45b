// Runs the benchmarks as programs: each must run to its end and measure
// something. The figures are no verdict, since a test's machine is not quiet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/temp_directory.h"
#include "tools/cli/ui/console.h"

namespace carillon::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A command's output, and its exit status as pclose() returns it.
std::pair<std::string, int> Output(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  std::string text;
  char piece[4096];
  for (size_t n; (n = fread(piece, 1, sizeof(piece), pipe)) > 0;) {
    text.append(piece, n);
  }
  return {text, pclose(pipe)};
}

Json RunQuick(const std::string& name) {
  const auto [text, status] =
      Output("tools/bench/" + name + "_bench --quick --json");
  EXPECT_EQ(status, 0);
  Json document = Json::parse(text, nullptr, false);
  EXPECT_TRUE(document.is_object()) << text;
  // The test goes on and fails where something is missing.
  if (!document.is_object()) document = Json::object();
  EXPECT_EQ(document["bench"], name);
  EXPECT_EQ(document["quick"], true);
  EXPECT_EQ(document["method"]["rounds"], 1);
  EXPECT_TRUE(document["machine"].is_object());
  return document;
}

std::vector<std::string> PartNames(Json& document) {
  std::vector<std::string> names;
  for (Json& part : document["parts"]) names.push_back(part["name"]);
  return names;
}

// Expects that every number that a part summarizes is positive, and that there
// are as many as each contender promises.
void ExpectMeasured(Json& part, size_t numbers) {
  EXPECT_EQ(part["measurements"].size(), 2 * part["contenders"].size());
  for (auto& [contender, summary] : part["summary"].items()) {
    EXPECT_EQ(summary.size(), numbers) << contender;
    for (auto& [key, range] : summary.items()) {
      EXPECT_GT(range["median"], 0) << contender << ": " << key;
    }
  }
}

void ExpectFigures(Json& document, size_t count) {
  EXPECT_EQ(document["figures"].size(), count);
  for (Json& figure : document["figures"]) {
    EXPECT_GT(figure["value"]["runs"], 0) << figure;
    // An idle process may use nothing.
    if (figure["name"].get<std::string>().starts_with("idle_percent") ||
        figure["name"] == "wrong_replies") {
      EXPECT_GE(figure["value"]["median"], 0) << figure;
    } else {
      EXPECT_GT(figure["value"]["median"], 0) << figure;
    }
  }
}

TEST(BenchSmoke, EventBenchMeasuresEveryPart) {
  Json document = RunQuick("event");
  ASSERT_THAT(
      PartNames(document),
      ElementsAre("null event, both sides spinning", "null event, from idle",
                  "pipelined null events", "idle",
                  "event kernels of a device, one of which rings",
                  "devices, one of which rings", "idle, among many"));
  ExpectMeasured(document["parts"][0], 3);  // percentiles of a round trip
  ExpectMeasured(document["parts"][1], 3);
  ExpectMeasured(document["parts"][2], 1);  // the rate
  ExpectMeasured(document["parts"][3], 0);  // CPU time alone
  ExpectMeasured(document["parts"][4], 4);  // percentiles and the rate
  ExpectMeasured(document["parts"][5], 4);
  ExpectMeasured(document["parts"][6], 0);
  std::vector<size_t> kernels, devices;
  for (Json& contender : document["parts"][4]["contenders"]) {
    if (contender.contains("of")) kernels.push_back(contender["of"]);
  }
  for (Json& contender : document["parts"][5]["contenders"]) {
    if (contender.contains("of")) devices.push_back(contender["of"]);
  }
  EXPECT_THAT(kernels, ElementsAre(1, 16, 64, 256, 1024));
  EXPECT_THAT(devices, ElementsAre(1, 4, 16, 32, 64));
  ExpectFigures(document, 18);
}

TEST(BenchSmoke, IpcBenchMeasuresEveryTransport) {
  Json document = RunQuick("ipc");
  ASSERT_THAT(PartNames(document),
              ElementsAre("64-byte request and reply, both spin",
                          "64-byte request and reply, both spin, then sleep",
                          "64-byte request and reply, both sleep"));
  const char* const waits[] = {"spins", "spins 20 us, sleeps", "sleeps"};
  for (size_t i = 0; i < 3; ++i) {
    Json& part = document["parts"][i];
    EXPECT_EQ(part["contenders"].size(), 8u);
    for (Json& contender : part["contenders"]) {
      EXPECT_EQ(contender["client_waits"], waits[i]) << contender;
    }
    ExpectMeasured(part, 4);
  }
  ExpectFigures(document, 30);
}

TEST(BenchSmoke, LinkBenchMeasuresEventsBesideTheStreamThatCarriesThem) {
  Json document = RunQuick("link");
  ASSERT_THAT(PartNames(document), ElementsAre("one at a time, all sleep",
                                               "one at a time, 1 ms apart, all "
                                               "sleep",
                                               "batches of 512, all sleep"));
  ExpectMeasured(document["parts"][0], 3);  // percentiles of a round trip
  ExpectMeasured(document["parts"][1], 3);
  ExpectMeasured(document["parts"][2], 1);  // the rate
  ExpectFigures(document, 11);
}

// A range {median, low, high, runs} of `runs` runs that all measured something.
void ExpectRange(const Json& range, size_t runs) {
  ASSERT_TRUE(range.is_object()) << range;
  EXPECT_EQ(range.at("runs"), runs) << range;
  EXPECT_GT(range.at("low"), 0) << range;
  EXPECT_LE(range.at("low"), range.at("median")) << range;
  EXPECT_LE(range.at("median"), range.at("high")) << range;
}

// Ordered percentiles, and a histogram of exactly these samples.
void ExpectSamples(const Json& summary) {
  ASSERT_TRUE(summary.is_object()) << summary;
  EXPECT_GT(summary.at("samples"), 0);
  uint64_t in_histogram = 0;
  for (const Json& bucket : summary.at("histogram")) {
    in_histogram += bucket.at(1).get<uint64_t>();
  }
  EXPECT_EQ(summary.at("samples"), in_histogram);
  double last = 0;
  for (const char* percentile : {"p50_ns", "p90_ns", "p99_ns", "p999_ns"}) {
    const Json& range = summary.at(percentile);
    EXPECT_GE(range.at("high"), last) << percentile;
    last = range.at("high");
  }
  EXPECT_GT(last, 0);
}

TEST(BenchSmoke, LaunchBenchMeasuresEveryPathWithEveryKernel) {
  const std::string out = getenv("TEST_TMPDIR") + std::string("/launch");
  const auto [text, status] = Output(
      "tools/bench/launch_bench --backend cpu --quick --json --out " + out);
  EXPECT_EQ(status, 0);
  const Json document = Json::parse(text, nullptr, false);
  ASSERT_TRUE(document.is_object()) << text;
  EXPECT_EQ(document.at("bench"), "launch");
  EXPECT_EQ(document.at("quick"), true);
  EXPECT_EQ(document.at("command"), "launch --backend cpu --quick --json");
  EXPECT_EQ(document.at("backend").at("name"), "cpu");
  EXPECT_NE(document.at("backend").at("description"), "");
  // With four, the device has one for itself and gpud the others.
  const Json& cpus = document.at("cpus");
  const size_t usable = document.at("machine").at("cpus");
  EXPECT_EQ(cpus.at("separate"), usable >= 4);
  EXPECT_EQ(cpus.at("device").size(), usable >= 2 ? 1u : 0u);
  EXPECT_EQ(cpus.at("gpud").size(), usable >= 4 ? usable - 1 : 0);
  std::vector<std::string> paths;
  for (const Json& path : document.at("launch_paths")) {
    paths.push_back(path.at("name"));
  }
  EXPECT_THAT(paths, ElementsAre("edge", "baseline", "baseline_flag",
                                 "persistent", "pagoda", "pagoda_ring"));

  ASSERT_EQ(document.at("latency").size(), 4 * paths.size());
  for (const Json& cell : document.at("latency")) {
    SCOPED_TRACE(cell.at("path").get<std::string>() + " " +
                 cell.at("workload").get<std::string>());
    ASSERT_EQ(cell.at("status"), "measured");
    ExpectSamples(cell.at("latency"));
    ExpectSamples(cell.at("load_80"));
    EXPECT_GT(cell.at("per_second").at("low"), 0);
    EXPECT_GE(cell.at("gpud_cpu_ns_per_event").at("pipelined").at("low"), 0);
  }
  ASSERT_EQ(document.at("idle").size(), 1 + paths.size());
  ASSERT_EQ(document.at("co_runner").size(), paths.size());
  for (const Json& cell : document.at("co_runner")) {
    ASSERT_EQ(cell.at("status"), "measured");
    ExpectSamples(cell.at("without").at("latency"));
    for (const char* kind : {"compute", "memory"}) {
      ExpectSamples(cell.at(kind).at("latency"));
      ExpectRange(cell.at(kind).at("co_runner_slowdown").at("pipelined"),
                  cell.at(kind).at("rate_ratio").at("runs"));
    }
  }
  ASSERT_EQ(document.at("background").size(), paths.size());
  for (const Json& cell : document.at("background")) {
    ASSERT_EQ(cell.at("status"), "measured");
    for (const char* when : {"alone", "idle", "under_load"}) {
      ExpectSamples(cell.at("kernel_ns").at(when));
    }
  }
  ASSERT_EQ(document.at("breakdown").size(), 3 * paths.size());
  for (const Json& cell : document.at("breakdown")) {
    ASSERT_EQ(cell.at("status"), "measured");
    ASSERT_EQ(cell.at("stages").size(), 7u);
    for (const auto& [name, stage] : cell.at("stages").items()) {
      SCOPED_TRACE(name);
      EXPECT_GT(stage.at("samples"), 0);
    }
  }
  EXPECT_EQ(document.at("power").at("measured"), false);
  EXPECT_NE(document.at("power").at("reason"), "");

  const Json& ledger = document.at("ledger");
  EXPECT_EQ(ledger.at("balanced"), true) << ledger;
  EXPECT_GT(ledger.at("rung"), 0);
  EXPECT_EQ(ledger.at("rung"), ledger.at("done"));
  EXPECT_EQ(ledger.at("rung"), ledger.at("device_rung"));
  EXPECT_EQ(ledger.at("testbeds"), 1);
  for (const char* suffix : {".json", ".png"}) {
    EXPECT_GT(std::filesystem::file_size(out + "/launch" + suffix), 0u);
  }
}

TEST(BenchSmoke, LaunchBenchRefusesWhatThereIsNot) {
  const auto exit_code = [](const std::string& options) {
    const int status =
        Output("tools/bench/launch_bench --quick " + options).second;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(exit_code("--backend cpu --paths teleport"), 3);
  EXPECT_EQ(exit_code("--backend vax"), 2);
  EXPECT_EQ(exit_code("--parts colour"), 2);
  EXPECT_EQ(exit_code("--gpud /bin/false"), 1);
}

// The programs lie beside each other in one folder, without a tree around it.
TEST(BenchSmoke, LaunchBenchFindsItsProgramsBesideIt) {
  const std::string folder = getenv("TEST_TMPDIR") + std::string("/bundle");
  std::filesystem::create_directory(folder);
  std::filesystem::copy_file("tools/bench/launch_bench",
                             folder + "/launch_bench");
  std::filesystem::copy_file("gpu_daemon/gpud", folder + "/gpud");
  const auto [text, status] =
      Output("cd / && env -i PATH=/usr/bin:/bin " + folder +
             "/launch_bench --backend cpu --quick --json --parts idle --out " +
             folder + "/results");
  EXPECT_EQ(status, 0);
  const Json document = Json::parse(text, nullptr, false);
  ASSERT_TRUE(document.is_object()) << text;
  EXPECT_EQ(document.at("idle").size(), 7u);
  EXPECT_TRUE(std::filesystem::exists(folder + "/results/launch.json"));
}

TEST(BenchSmoke, NarrowBenchRunsEveryWorkloadOnEveryPathOfCores) {
  const std::string out = getenv("TEST_TMPDIR") + std::string("/narrow");
  const auto [text, status] =
      Output("tools/bench/narrow_bench --quick --json --out " + out);
  EXPECT_EQ(status, 0);
  const Json document = Json::parse(text, nullptr, false);
  ASSERT_TRUE(document.is_object()) << text;
  EXPECT_EQ(document.at("bench"), "narrow");
  EXPECT_EQ(document.at("backend"), "cpu");
  const Json paths = {"baseline", "edge",           "pagoda", "pagoda_ring",
                      "batches",  "pagoda_batches", "threads"};
  EXPECT_EQ(document.at("paths"), paths);
  EXPECT_EQ(document.at("workloads"), Json({"mb", "fb", "bf", "conv", "dct",
                                            "mm", "slud", "3des", "mpe"}));
  ASSERT_EQ(document.at("cells").size(), 9 * paths.size());
  for (const Json& cell : document.at("cells")) {
    SCOPED_TRACE(cell.dump());
    ASSERT_EQ(cell.at("status"), "measured");
    EXPECT_GE(cell.at("tasks"), 4);
    for (const char* figure : {"tasks_per_second", "total_us",
                               "response_mean_us", "response_p99_us"}) {
      ExpectRange(cell.at(figure), 2);  // there and back
    }
    ExpectRange(cell.at("over_baseline"), 1);
  }
  for (const char* suffix : {".json", ".png"}) {
    EXPECT_GT(std::filesystem::file_size(out + "/narrow" + suffix), 0u);
  }
}

TEST(BenchSmoke, NarrowBenchRunsOnEveryPathOfASimulatedGpu) {
  const std::string out = getenv("TEST_TMPDIR") + std::string("/narrow_sim");
  const auto [text, status] = Output(
      "tools/bench/narrow_bench --backend sim --quick --workloads mm,slud "
      "--json --out " +
      out);
  EXPECT_EQ(status, 0);
  const Json document = Json::parse(text, nullptr, false);
  ASSERT_TRUE(document.is_object()) << text;
  EXPECT_EQ(document.at("conditions").at("kdu"), 32);
  const Json paths = {"baseline",    "edge",   "pagoda",  "pagoda_copy",
                      "pagoda_ring", "fusion", "batches", "pagoda_batches"};
  EXPECT_EQ(document.at("paths"), paths);
  size_t of_threads = 0, irregular = 0;
  for (const Json& cell : document.at("cells")) {
    SCOPED_TRACE(cell.dump());
    of_threads += cell.at("part") == "threads";
    irregular += cell.at("part") == "irregular";
    // No MTB holds so many threads.
    if (cell.value("threads", 0) == 1024 && cell.at("path") != "baseline") {
      EXPECT_EQ(cell.at("status"), "refused");
      continue;
    }
    ASSERT_EQ(cell.at("status"), "measured");
    EXPECT_GT(cell.at("tasks_per_second").at("median"), 0);
    EXPECT_GT(cell.at("launches"), 0);
  }
  EXPECT_EQ(of_threads, 3u * 3);
  EXPECT_EQ(irregular, 2u * 5);
  EXPECT_EQ(document.at("cells").size(),
            2 * 2 * paths.size() + of_threads + irregular);
  EXPECT_GT(std::filesystem::file_size(out + "/narrow.png"), 0u);
}

TEST(BenchSmoke, NarrowBenchRefusesWhatThereIsNot) {
  const auto refused = [](const std::string& options) {
    const auto [text, status] =
        Output("tools/bench/narrow_bench --quick " + options + " 2>&1");
    return std::pair(WIFEXITED(status) ? WEXITSTATUS(status) : -1, text);
  };
  using ::testing::HasSubstr;
  using ::testing::Pair;
  EXPECT_THAT(refused("--tasks 0"), Pair(2, HasSubstr("1 to 32768")));
  EXPECT_THAT(refused("--tasks 40000"), Pair(2, HasSubstr("1 to 32768")));
  EXPECT_THAT(refused("--batch 0"), Pair(2, HasSubstr("--batch 0")));
  EXPECT_THAT(refused("--workloads colour"),
              Pair(3, HasSubstr("there are mb, fb, bf")));
  EXPECT_THAT(refused("--paths teleport"),
              Pair(3, HasSubstr("it has baseline, edge")));
  EXPECT_THAT(refused("--paths fusion"), Pair(3, HasSubstr("no fused form")));
  EXPECT_THAT(refused("--paths graph"), Pair(3, HasSubstr("CUDA graphs")));
  EXPECT_THAT(refused("--backend sim --paths graph"),
              Pair(3, HasSubstr("CUDA graphs are the cuda")));
  EXPECT_THAT(refused("--backend sim --workloads mm --timing nope"),
              Pair(1, HasSubstr("no preset")));
  EXPECT_EQ(refused("--backend vax").first, 2);
  EXPECT_EQ(refused("--tasks -1").first, 2);
  EXPECT_THAT(refused("--workloads mm,mm"),
              Pair(2, HasSubstr("--workloads names mm twice")));
  EXPECT_THAT(refused("--paths edge,edge"),
              Pair(2, HasSubstr("--paths names edge twice")));
  EXPECT_THAT(refused("--backend sim --store-us nan"),
              Pair(2, HasSubstr("microseconds")));
  EXPECT_THAT(refused("--backend sim --copy-back-us nan"),
              Pair(2, HasSubstr("microseconds")));
  EXPECT_EQ(refused("--backend sim --empty-update-us -1").first, 2);
  EXPECT_THAT(refused("--empty-update-us 1"),
              Pair(2, HasSubstr("goes with --backend sim")));
  EXPECT_THAT(refused("--call-us 1"),
              Pair(2, HasSubstr("goes with --backend sim")));
  EXPECT_THAT(refused("--out /proc/nowhere"),
              Pair(5, HasSubstr("cannot write to /proc")));
  EXPECT_THAT(refused("--gpud /bin/false"), Pair(1, HasSubstr("gpud")));
}

// Of a directory of /proc; what can be read, as a process may end meanwhile.
std::string CommandLineOf(const std::filesystem::path& process) {
  std::ostringstream line;
  line << std::ifstream(process / "cmdline").rdbuf();
  return line.str();
}

// The number of processes whose command line contains `word`.
size_t ProcessesWith(const std::string& word) {
  size_t count = 0;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
    const std::string line = CommandLineOf(entry.path());
    count += line.find(word) != std::string::npos;
  }
  return count;
}

// The first process that runs `program` with `word` on its command line; 0 if
// there is none.
pid_t FindProcess(const std::string& program, const std::string& word) {
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
    const std::string line = CommandLineOf(entry.path());
    const std::string first = line.substr(0, line.find('\0'));
    if (first.ends_with(program) && line.find(word) != std::string::npos) {
      return std::atoi(entry.path().filename().c_str());
    }
  }
  return 0;
}

TEST(BenchSmoke, LaunchBenchGoesOnAfterGpudDied) {
  const TempDirectory short_folder;
  const std::string& folder = short_folder.path();
  FILE* const pipe =
      popen(("TMPDIR=" + folder +
             " tools/bench/launch_bench --backend cpu --quick --parts "
             "latency,idle --out " +
             folder + "/results 2>&1")
                .c_str(),
            "r");
  char line[4096];
  bool killed = false;
  while (fgets(line, sizeof(line), pipe) != nullptr) {
    if (killed || strstr(line, "round 1") == nullptr) continue;
    const pid_t gpud = FindProcess("/gpud", folder);
    ASSERT_GT(gpud, 0);
    kill(gpud, SIGKILL);
    killed = true;
  }
  EXPECT_TRUE(killed);
  const int status = pclose(pipe);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  std::ifstream file(folder + "/results/launch.json");
  const Json document = Json::parse(file, nullptr, false);
  ASSERT_TRUE(document.is_object());
  size_t failed = 0;
  for (const Json& cell : document.at("latency")) {
    failed += cell.at("status") == "failed";
  }
  EXPECT_EQ(failed, 1u);
  EXPECT_EQ(document.at("ledger").at("testbeds"), 2);
  EXPECT_EQ(document.at("ledger").at("testbeds_lost"), 1);
  EXPECT_EQ(document.at("ledger").at("balanced"), false);
}

TEST(BenchSmoke, LaunchBenchLeavesNothingBehindWhenInterrupted) {
  const TempDirectory short_folder;
  const std::string& folder = short_folder.path();
  // Its scratch directory's name is on the command lines of its processes.
  FILE* const pipe =
      popen(("TMPDIR=" + folder +
             " tools/bench/launch_bench --backend cpu 2>&1 & echo $!; wait $!; "
             "echo ended $?")
                .c_str(),
            "r");
  char line[4096];
  ASSERT_NE(fgets(line, sizeof(line), pipe), nullptr);
  const pid_t pid = std::atoi(line);
  std::string last;
  bool interrupted = false;
  while (fgets(line, sizeof(line), pipe) != nullptr) {
    last = line;
    // By this line all of its processes run, so it is interrupted while it
    // measures.
    if (interrupted || last.find("round 1") == std::string::npos) continue;
    EXPECT_GE(ProcessesWith(folder), 2u);
    EXPECT_EQ(kill(pid, SIGINT), 0);
    interrupted = true;
  }
  pclose(pipe);
  EXPECT_TRUE(interrupted);
  EXPECT_EQ(last, "ended 130\n");
  EXPECT_EQ(ProcessesWith(folder), 0u);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(BenchSmoke, MemcachedBenchComparesEveryWindow) {
  ASSERT_EQ(Output("command -v memcached").second, 0)
      << "memcached is missing: apt-get install memcached";
  Json document = RunQuick("memcached");
  EXPECT_THAT(PartNames(document), IsEmpty());
  ASSERT_EQ(document["runs"].size(), 9u);  // three contenders, three windows
  for (Json& run : document["runs"]) {
    for (const char* side : {"a", "b"}) {
      EXPECT_GT(run[side]["requests_per_s"]["median"], 0) << run;
      EXPECT_EQ(run[side]["bad"], 0) << run;
    }
  }
  ExpectFigures(document, 17);
}

}  // namespace
}  // namespace carillon::bench
