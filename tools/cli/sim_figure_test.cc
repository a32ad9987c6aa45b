// `carillon sim figure` as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tools/cli/cli_runner.h"

namespace carillon::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SimFigure : public testing::Test {
 protected:
  SimFigure() : folder_(testing::TempDir() + "/figures") {
    fs::remove_all(folder_);
  }

  static Json ParseFile(const std::string& path) {
    std::ifstream file(path);
    return Json::parse(file, nullptr, false);
  }
  size_t Runs() const {
    size_t runs = 0;
    if (!fs::exists(folder_ + "/runs")) return 0;
    for (const auto& entry : fs::directory_iterator(folder_ + "/runs")) {
      runs += entry.path().extension() == ".json";
    }
    return runs;
  }

  const std::string folder_;
};

TEST_F(SimFigure, RunsAFigureAndDrawsIt) {
  const CliResult first = RunCli(
      {"sim", "figure", "fig12", "--quick", "--jobs", "2", "--out", folder_});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, AllOf(HasSubstr("preemption over draining, mean, all"),
                               HasSubstr("MEDIAN  GEOMEAN"),
                               HasSubstr("BACKGROUND  REGISTERS  EVENT  WAY"),
                               HasSubstr("2.6")));
  EXPECT_THAT(first.err, AllOf(HasSubstr("19 of 19 runs"),
                               HasSubstr("19 runs, 0 of them kept from before"),
                               HasSubstr("wrote " + folder_ + "/fig12.png")));
  const Json document = ParseFile(folder_ + "/fig12.json");
  ASSERT_FALSE(document.is_discarded());
  EXPECT_EQ(document["figure"], "fig12");
  EXPECT_EQ(document["gpu"], "edge_table2");
  EXPECT_EQ(document["quick"], true);
  EXPECT_EQ(document["tables"][0]["rows"].size(), 19u);
  // Cycles are the same on every machine, and no change of the simulator alters
  // them unseen.
  EXPECT_EQ(document["tables"][0],
            ParseFile("tools/cli/testdata/fig12_quick.json")["tables"][0])
      << "If that is wanted, 'carillon sim figure fig12 --quick --out DIR' "
         "makes "
         "DIR/fig12.json anew, which is the file in testdata.";
  std::ifstream png(folder_ + "/fig12.png", std::ios::binary);
  std::string magic(8, '\0');
  png.read(magic.data(), 8);
  EXPECT_EQ(magic, "\x89PNG\r\n\x1a\n");
  ASSERT_EQ(Runs(), 19u);

  // Another figure is made of the cached runs, so none is run again.
  const auto newest = [&] {
    fs::file_time_type time = fs::file_time_type::min();
    for (const auto& entry : fs::directory_iterator(folder_ + "/runs")) {
      time = std::max(time, entry.last_write_time());
    }
    return time;
  };
  const auto before = newest();
  const CliResult second = RunCli({"sim", "figure", "fig1", "fig12", "--quick",
                                   "--out", folder_, "-o", "json"});
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.json()["fig12"], document);
  EXPECT_EQ(second.json()["fig1"]["figure"], "fig1");
  EXPECT_EQ(Runs(), 19u);
  EXPECT_EQ(newest(), before);
}

TEST_F(SimFigure, GoesOnWhereItWasKilled) {
  const std::vector<std::string> arguments = {
      "sim", "figure", "fig12", "--quick", "--jobs", "1", "--out", folder_};
  CliRun killed(arguments);
  const auto limit =
      std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (Runs() < 5 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  kill(killed.pid(), SIGKILL);
  killed.Wait();
  const size_t kept = Runs();
  ASSERT_GE(kept, 5u);
  // A run that was being written must not be taken for one.
  std::ofstream(folder_ + "/runs/torn.json") << "{\"key\":";
  std::map<fs::path, fs::file_time_type> times;
  for (const auto& entry : fs::directory_iterator(folder_ + "/runs")) {
    times[entry.path()] = entry.last_write_time();
  }

  const CliResult resumed = RunCli(arguments);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err,
              HasSubstr(std::to_string(kept) + " of them kept from before"));
  for (const auto& [path, time] : times) {
    if (path.extension() == ".json") {
      EXPECT_EQ(fs::last_write_time(path), time) << path;
    }
  }
  const Json document = ParseFile(folder_ + "/fig12.json");
  fs::remove_all(folder_);
  ASSERT_EQ(RunCli(arguments).code, 0);
  EXPECT_EQ(ParseFile(folder_ + "/fig12.json"), document);
}

TEST_F(SimFigure, SaysWhichThereAre) {
  const CliResult list = RunCli({"sim", "figure"});
  EXPECT_EQ(list.code, 0);
  EXPECT_THAT(list.out, AllOf(HasSubstr("FIGURE"), HasSubstr("fig11"),
                              HasSubstr("th5.9")));
  const CliResult json = RunCli({"sim", "figure", "-o", "json"});
  EXPECT_GE(json.json()["figures"].size(), 7u);
  const CliResult wrong = RunCli({"sim", "figure", "fig2"});
  EXPECT_NE(wrong.code, 0);
  EXPECT_THAT(wrong.err, HasSubstr("there is no figure 'fig2'; there are fig1, "
                                   "fig11, fig12"));
  EXPECT_THAT(wrong.out, Not(HasSubstr("fig12")));
}

TEST_F(SimFigure, SaysWhereItCannotWrite) {
  const CliResult result =
      RunCli({"sim", "figure", "fig12", "--quick", "--out", "/proc/nowhere"});
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("cannot write to /proc/nowhere"));
}

}  // namespace
}  // namespace carillon::cli
