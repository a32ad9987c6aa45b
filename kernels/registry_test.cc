#include "kernels/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "kernels/simt/simt.h"

namespace carillon::simt {
namespace {

struct OwnArgs {
  uint32_t x;
};
CARILLON_KERNEL(kernel_of_this_test, OwnArgs, args, self) {}
CARILLON_KERNEL_INFO(kernel_of_this_test, OwnArgs, "test",
                     Registers(1).From("this file").Oracle("none"),
                     CARILLON_PARAM(OwnArgs, x, "unused"));

TEST(Registry, FindsEveryKernelByItsName) {
  for (const std::string_view name :
       {"null_event", "echo", "vector_add", "dct8x8", "conv5x5", "matmul",
        "bfs_level", "busy", "reduce", "fail_if"}) {
    const KernelInfo* info = FindKernel(name);
    ASSERT_NE(info, nullptr) << name;
    EXPECT_EQ(info->name, name);
  }
  EXPECT_EQ(FindKernel("null_even"), nullptr);
  EXPECT_EQ(FindKernel("null_eventt"), nullptr);
  EXPECT_EQ(FindKernel(""), nullptr);
}

TEST(Registry, AKernelFileThatIsLinkedInIsRegistered) {
  EXPECT_EQ(FindKernel("kernel_of_this_test"), &kernel_of_this_test_info);
}

TEST(Registry, EveryKernelIsDescribedInFullAndOnce) {
  std::set<std::string_view> names;
  for (const KernelInfo* info : AllKernels()) {
    EXPECT_TRUE(names.insert(info->name).second) << info->name;
    EXPECT_FALSE(info->summary.empty()) << info->name;
    EXPECT_FALSE(info->from.empty()) << info->name;
    EXPECT_FALSE(info->oracle.empty()) << info->name;
    EXPECT_NE(info->run_block, nullptr) << info->name;
    EXPECT_GT(info->registers_per_thread, 0u) << info->name;
    std::set<std::string_view> parameters;
    uint32_t end = 0;
    for (const ParamInfo& param : info->params) {
      EXPECT_TRUE(parameters.insert(param.name).second) << info->name;
      EXPECT_FALSE(param.description.empty())
          << info->name << "." << param.name;
      // In the order of the struct, without overlap.
      EXPECT_GE(param.offset, end) << info->name << "." << param.name;
      end = param.offset + (param.is_buffer() ? 16 : param.element_size);
    }
    EXPECT_LE(end, info->args_size) << info->name;
  }
  EXPECT_TRUE(std::ranges::is_sorted(AllKernels(), {}, &KernelInfo::name));
}

TEST(Registry, SuggestsTheNearestName) {
  EXPECT_EQ(NearestKernelName("nul_evnet"), "null_event");
  EXPECT_EQ(NearestKernelName("conv3x3"), "conv5x5");
  EXPECT_EQ(NearestKernelName("something_else"), "");
}

}  // namespace
}  // namespace carillon::simt
