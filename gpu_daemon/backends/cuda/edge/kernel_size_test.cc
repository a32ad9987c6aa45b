// What is resident beside others' kernels takes little of an SM: ptxas's report
// for each GPU that the module is compiled for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <string_view>

namespace carillon::gpud {
namespace {

std::string report_path;

struct Size {
  uint32_t registers = 0;
  uint32_t stack = 0;  // with what it calls
};

// By the GPU's architecture and the kernel's name.
std::map<std::string, std::map<std::string, Size>> Sizes() {
  const std::regex entry("Compiling entry function '(\\w+)' for '(sm_\\d+)'");
  const std::regex own("(\\d+) bytes stack frame");
  const std::regex used("Used (\\d+) registers");
  const std::regex cumulative("(\\d+) bytes cumulative stack size");
  std::map<std::string, std::map<std::string, Size>> sizes;
  std::ifstream report(report_path);
  Size* size = nullptr;
  for (std::string line; std::getline(report, line);) {
    std::smatch match;
    const auto number = [&] {
      return static_cast<uint32_t>(std::stoul(match[1]));
    };
    if (std::regex_search(line, match, entry)) {
      size = &sizes[match[2]][match[1]];
    } else if (size == nullptr) {
      continue;
    } else if (std::regex_search(line, match, own)) {
      // Its own line comes first, then those of what it calls.
      size->stack = std::max(size->stack, number());
    } else if (std::regex_search(line, match, used)) {
      size->registers = number();
      if (std::regex_search(line, match, cumulative)) size->stack = number();
    }
  }
  return sizes;
}

TEST(KernelSizeTest, ADispatcherHasFewRegistersAndNoStack) {
  const auto sizes = Sizes();
  ASSERT_TRUE(sizes.contains("sm_80") && sizes.contains("sm_90"))
      << report_path;
  for (const auto& [gpu, kernels] : sizes) {
    const auto found = kernels.find("carillon_edge_dispatcher");
    ASSERT_NE(found, kernels.end()) << gpu;
    // Two blocks of ten warps on an SM, with registers left for others.
    EXPECT_LE(found->second.registers, 96u) << gpu;
    EXPECT_GT(found->second.registers, 0u) << gpu;
    EXPECT_EQ(found->second.stack, 0u)
        << gpu << ": of the kernels that run inline, which calls a function?";
  }
}

TEST(KernelSizeTest, NoKernelNeedsMoreStackThanGpudTakesForAll) {
  const auto sizes = Sizes();
  ASSERT_TRUE(sizes.contains("sm_90")) << report_path;
  for (const auto& [gpu, kernels] : sizes) {
    for (const auto& [name, size] : kernels) {
      EXPECT_LE(size.stack, 4096u) << name << " on " << gpu;
    }
    // So that the report is one that says it.
    EXPECT_GT(kernels.at("carillon_take_stack").stack, 0u) << gpu;
  }
}

// SMs give registers to a thread in units of 8.
uint32_t Allocated(uint32_t registers) { return (registers + 7) / 8 * 8; }

// Policy ptb's loop around a kernel costs registers, and so perhaps places on an SM
// (docs/decisions/023-persistent-blocks-that-can-be-stopped.md).
TEST(KernelSizeTest, PersistentBlocksTakeFewMoreRegistersThanTheCallForm) {
  constexpr std::string_view kCall = "carillon_call_";
  // What an SM has for a block of 1,024 threads.
  constexpr uint32_t kOfALargeBlock = 64;
  // It refuses any block but one of 32 threads.
  constexpr std::string_view kSmallBlocks = "lud_perimeter";
  for (const auto& [gpu, kernels] : Sizes()) {
    const uint32_t more = gpu == "sm_90" ? 24 : 40;  // lud_perimeter
    size_t calls = 0;
    for (const auto& [name, size] : kernels) {
      if (!name.starts_with(kCall)) continue;
      ++calls;
      const std::string kernel = name.substr(kCall.size());
      const auto ptb = kernels.find("carillon_ptb_" + kernel);
      ASSERT_NE(ptb, kernels.end()) << kernel << " on " << gpu;
      const uint32_t call_registers = Allocated(size.registers);
      const uint32_t registers = Allocated(ptb->second.registers);
      EXPECT_GT(registers, 0u) << kernel << " on " << gpu;
      EXPECT_LE(registers, call_registers + more) << kernel << " on " << gpu;
      if (call_registers <= kOfALargeBlock && kernel != kSmallBlocks) {
        EXPECT_LE(registers, kOfALargeBlock)
            << kernel << " on " << gpu << ": no block of 1,024 threads fits";
      }
    }
    EXPECT_GE(calls, 60u) << gpu;
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
