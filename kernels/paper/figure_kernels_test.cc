// The costs that the workloads' KernelInfos name are the compiler's.
#include "kernels/paper/figure_kernels.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <regex>
#include <string>

namespace carillon::simt {
namespace {

std::string report_path;
std::string cuda_release;

// By kernel, as ptxas reports them.
std::map<std::string, uint32_t> ReportedRegisters() {
  std::map<std::string, uint32_t> registers;
  std::ifstream report(report_path);
  const std::regex entry("Compiling entry function 'carillon_(\\w+)'");
  const std::regex used("Used (\\d+) registers");
  std::string kernel;
  for (std::string line; std::getline(report, line);) {
    std::smatch match;
    if (std::regex_search(line, match, entry)) kernel = match[1];
    if (std::regex_search(line, match, used)) {
      registers[kernel] = static_cast<uint32_t>(std::stoul(match[1]));
    }
  }
  return registers;
}

// SMs give registers to a thread in units of 8.
uint32_t Allocated(uint32_t registers) { return (registers + 7) / 8 * 8; }

TEST(FigureKernels, RegisterCountsAreThoseOfTheCompiler) {
  const std::map<std::string, uint32_t> registers = ReportedRegisters();
  size_t kernels = 0;
  for (const KernelRegistration* i = KernelRegistration::head(); i != nullptr;
       i = i->next()) {
    const KernelInfo& info = *i->info();
    const std::string name(info.name);
    ASSERT_TRUE(registers.contains(name)) << name;
    const uint32_t used = registers.at(name);
    ++kernels;
    if (cuda_release == "13.0") {
      EXPECT_EQ(Allocated(info.registers_per_thread), Allocated(used))
          << name << ": put " << used << " into CARILLON_KERNEL_INFO";
    } else {
      // Another compiler allocates a little differently.
      EXPECT_LE(info.registers_per_thread, 2 * used) << name;
      EXPECT_LE(used, 2 * info.registers_per_thread) << name;
    }
  }
  EXPECT_EQ(kernels, registers.size());
  EXPECT_GT(kernels, 0u);
}

}  // namespace
}  // namespace carillon::simt

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 3) return 2;  // ptxas's report, release of the toolkit
  carillon::simt::report_path = argv[1];
  carillon::simt::cuda_release = argv[2];
  return RUN_ALL_TESTS();
}
