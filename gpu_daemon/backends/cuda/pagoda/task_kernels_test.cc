// Kernels as tasks of an MTB: which there are, and what ptxas makes of them.
#include "gpu_daemon/backends/cuda/pagoda/task_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "gpu_daemon/backends/cuda/pagoda/spawned_tasks.h"
#include "kernels/registry.h"

namespace carillon::gpud {
namespace {

std::string report_path;

TEST(TaskKernelsTest, EveryKernelHasATaskFormOrAReasonWhyNot) {
  for (const simt::KernelInfo* kernel : simt::AllKernels()) {
    const bool has_form = std::ranges::find(kTaskKernelNames, kernel->name) !=
                          std::end(kTaskKernelNames);
    EXPECT_EQ(has_form, WhyNoTask(*kernel).empty())
        << kernel->name << ": " << WhyNoTask(*kernel);
    if (has_form) {
      // Launch path pagoda takes them all, too, but one.
      EXPECT_EQ(kernel->args_size > kSpawnedMaxArgs, kernel->name == "srad_v1")
          << kernel->name << " has " << kernel->args_size << " bytes";
      EXPECT_LE(kernel->static_shared_bytes, kTaskSharedBytes) << kernel->name;
    }
  }
  for (const std::string_view name : kTaskKernelNames) {
    EXPECT_NE(simt::FindKernel(name), nullptr) << name;
  }
}

TEST(TaskKernelsTest, AnMtbTakesHalfAnSmAndNoTaskLivesInMemory) {
  const std::regex gpu("for '(sm_\\d+)'");
  const std::regex function("Function properties for (\\w+)");
  const std::regex sizes("(\\d+) bytes stack frame, (\\d+) bytes spill stores");
  const std::regex used(
      "Used (\\d+) registers.* (\\d+) bytes cumulative stack size");
  const std::regex task("carillon_task_\\w+?E");
  std::map<std::string, std::set<std::string>> tasks;  // by GPU
  std::set<std::string> mtbs;
  std::ifstream report(report_path);
  std::string of;
  std::string name;
  for (std::string line; std::getline(report, line);) {
    std::smatch match;
    if (std::regex_search(line, match, gpu)) {
      of = match[1];
    } else if (std::regex_search(line, match, function)) {
      name = match[1];
    } else if (std::regex_search(line, match, used)) {
      mtbs.insert(of);
      EXPECT_LE(std::stoul(match[1]), kTaskRegisters) << of;
      // What gpud takes for all, or more.
      EXPECT_LE(std::stoul(match[2]), 4096u) << of;
    } else if (std::regex_search(line, match, sizes) &&
               std::regex_search(name, task)) {
      tasks[of].insert(name);
      EXPECT_LE(std::stoul(match[2]), 128u)
          << name << " on " << of << " is to be refused by name";
    }
  }
  ASSERT_EQ(mtbs, (std::set<std::string>{"sm_80", "sm_90"})) << report_path;
  // null_event does nothing, and is no function.
  for (const std::string& each : mtbs) {
    EXPECT_GE(tasks[each].size(), std::size(kTaskKernelNames) - 1) << each;
  }
}

}  // namespace
}  // namespace carillon::gpud

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) return 2;  // ptxas's report
  carillon::gpud::report_path = argv[1];
  return RUN_ALL_TESTS();
}
