// The checked-in PTX has these kernels with these arguments. The test needs no
// CUDA.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/all_kernels.h"
#include "kernels/paper/figure_kernels.h"
#include "sim/ptx/module.h"

namespace carillon::simt {
namespace {

constexpr char kFolder[] = "kernels/";

TEST(PtxModules, HaveEveryKernelWithItsArguments) {
  const absl::StatusOr<sim::ptx::Module> own =
      sim::ptx::ParseModuleFile(std::string(kFolder) + "kernels.ptx");
  ASSERT_TRUE(own.ok()) << own.status();
  const absl::StatusOr<sim::ptx::Module> figures = sim::ptx::ParseModuleFile(
      std::string(kFolder) + "paper/figure_kernels.ptx");
  ASSERT_TRUE(figures.ok()) << figures.status();

  size_t kernels = 0;
  for (const KernelRegistration* i = KernelRegistration::head(); i != nullptr;
       i = i->next()) {
    const KernelInfo& info = *i->info();
    const std::string entry = "carillon_" + std::string(info.name);
    const sim::ptx::Module& module =
        info.name.starts_with("fig_") ? *figures : *own;
    const sim::ptx::Function* function = module.FindEntry(entry);
    ASSERT_NE(function, nullptr) << entry;
    // The arguments, then fail_status.
    ASSERT_EQ(function->parameters.size(), 2u) << entry;
    EXPECT_EQ(function->parameters[0].bytes, info.args_size) << entry;
    EXPECT_EQ(function->parameters[0].align, info.args_align) << entry;
    EXPECT_EQ(function->ParameterOffset(1), (info.args_size + 7) / 8 * 8)
        << entry;
    EXPECT_EQ(function->parameters[1].bytes, 8u) << entry;
    ++kernels;
  }
  size_t entries = 0;
  for (const sim::ptx::Module* module : {&*own, &*figures}) {
    for (const sim::ptx::Function& function : module->functions) {
      entries += function.is_entry;
    }
  }
  EXPECT_EQ(entries, kernels);
}

}  // namespace
}  // namespace carillon::simt
