// Every kernel also has a CUDA form, with the same arguments and the register
// count that its KernelInfo says.
#include "kernels/simt/cuda/cuda_kernels.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <string>

#include "kernels/registry.h"
#include "kernels/simt/simt_surface.cuh"

namespace carillon::simt {
namespace {

std::string report_path;
std::string cuda_release;

// The registers of each kernel in one of its forms, as ptxas reports them; ""
// is the plain form.
std::map<std::string, uint32_t> RegistersOf(const std::string& form) {
  std::map<std::string, uint32_t> registers;
  std::ifstream report(report_path);
  const std::regex entry("Compiling entry function 'carillon_(\\w+)'");
  const std::regex used("Used (\\d+) registers");
  std::string kernel;
  for (std::string line; std::getline(report, line);) {
    std::smatch match;
    if (std::regex_search(line, match, entry)) kernel = match[1];
    if (!std::regex_search(line, match, used)) continue;
    const bool plain =
        !kernel.starts_with("event_") && !kernel.starts_with("call_");
    if (form.empty() ? plain : kernel.starts_with(form)) {
      registers[kernel.substr(form.size())] =
          static_cast<uint32_t>(std::stoul(match[1]));
    }
  }
  return registers;
}

// SMs give registers to a thread in units of 8.
uint32_t Allocated(uint32_t registers) { return (registers + 7) / 8 * 8; }

TEST(CudaKernels, EveryKernelHasACudaFormWithTheSameArguments) {
  for (const KernelInfo* info : AllKernels()) {
    const CudaKernelRegistration* cuda =
        CudaKernelRegistration::Find(info->name);
    ASSERT_NE(cuda, nullptr) << info->name;
    EXPECT_EQ(cuda->args_size(), info->args_size) << info->name;
    EXPECT_NE(cuda->function(), nullptr) << info->name;
  }
  for (const CudaKernelRegistration* cuda = CudaKernelRegistration::head();
       cuda != nullptr; cuda = cuda->next()) {
    EXPECT_NE(FindKernel(cuda->name()), nullptr) << cuda->name();
  }
  EXPECT_EQ(CudaKernelRegistration::Find("no_such_kernel"), nullptr);
}

TEST(CudaKernels, RegisterCountsAreThoseOfTheCompiler) {
  const std::map<std::string, uint32_t> registers = RegistersOf("");
  EXPECT_GE(registers.size(), 10u) << report_path;
  for (const auto& [name, used] : registers) {
    const KernelInfo* info = FindKernel(name);
    ASSERT_NE(info, nullptr) << name;
    if (cuda_release == "13.0") {
      EXPECT_EQ(Allocated(info->registers_per_thread), Allocated(used))
          << name << ": put " << used << " into CARILLON_KERNEL_INFO";
    } else {
      // Another compiler allocates slightly differently.
      EXPECT_LE(info->registers_per_thread, 2 * used) << name;
      EXPECT_LE(used, 2 * info->registers_per_thread) << name;
    }
  }
}

// The epilogue may cost registers, but a block of the largest size that the
// plain form allows must still fit on an SM.
TEST(CudaKernels, EveryKernelHasEventFormsThatAreNotMuchLarger) {
  const std::map<std::string, uint32_t> plain = RegistersOf("");
  for (const char* form : {"event_", "call_"}) {
    const std::map<std::string, uint32_t> events = RegistersOf(form);
    EXPECT_EQ(events.size(), plain.size()) << form;
    for (const auto& [name, used] : plain) {
      ASSERT_TRUE(events.contains(name)) << form << name;
      EXPECT_LE(Allocated(events.at(name)), Allocated(used) + 32)
          << form << name;
    }
  }
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
