// Which processes a topology becomes, with which flags.
#include "tools/testbed/supervisor/launch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/temp_directory.h"
#include "base/testbed_paths.h"
#include "tools/testbed/topology/hosts.h"
#include "tools/testbed/topology/reader.h"

namespace carillon::testbed {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using ::testing::StartsWith;

class LaunchPlanTest : public ::testing::Test {
 protected:
  LaunchPlanTest() {
    setenv("CARILLON_BIN_DIR", folder_.path().c_str(), 1);
    for (const std::string program : {"gpud", "fpga"}) {
      const std::string path = folder_.path() + "/" + program;
      std::ofstream(path) << "#!/bin/sh\n";
      std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    }
  }
  std::vector<std::string> GpudFlags(const std::string& topology) {
    const std::string file = folder_.path() + "/lab.yaml";
    std::ofstream(file) << topology;
    const auto read = LoadTopology(file, "lab");
    EXPECT_TRUE(read.ok()) << read.status();
    const auto plan = PlanLaunch(*read, TestbedPaths(folder_.path()));
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? plan->gpud.argv : std::vector<std::string>();
  }

  const TempDirectory folder_ = *TempDirectory::Make();
};

constexpr char kDevices[] =
    "devices:\n"
    "  - {name: late, kind: fpga}\n"
    "  - {name: shell, kind: exec, command: [sh], wait_ready: false}\n"
    "  - {name: early, kind: fpga}\n";

TEST_F(LaunchPlanTest, SimulatedTimeWaitsForTheFilesDevicesInItsOrder) {
  EXPECT_THAT(
      GpudFlags(std::string("gpu: {backend: sim, timing: tiny}\n") + kDevices),
      Contains("--device-order=late,early"));
}

TEST_F(LaunchPlanTest, WallTimeHasNoOrder) {
  EXPECT_THAT(GpudFlags(std::string("gpu: {backend: sim}\n") + kDevices),
              Not(Contains(StartsWith("--device-order"))));
}

TEST_F(LaunchPlanTest, OnlyAGpudThatIsStartedAgainIsToldSo) {
  const TopologyReading lab = ReadTopology(
      "name: lab\nhosts: {a: {address: 10.0.0.5}, b: {address: 10.0.0.6}}\n"
      "gpu: {host: b, backend: cpu}\n"
      "mesh: {lease: 90, tls: {certificate: x, key: y, ca: z}}\n"
      "devices: [{name: fpga0, kind: fpga, host: a}]\n",
      "lab");
  ASSERT_TRUE(lab.problems.empty());
  const auto part = PartOf(lab.topology, "a");
  ASSERT_TRUE(part.ok()) << part.status();
  const auto plan = PlanLaunch(*part, TestbedPaths(folder_.path()));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->gpud.argv, Contains("--link-lease=90"));
  EXPECT_THAT(plan->gpud.argv, Not(Contains("--link-restarted")));
  EXPECT_THAT(plan->gpud.when_restarted, ElementsAre("--link-restarted"));
}

}  // namespace
}  // namespace carillon::testbed
