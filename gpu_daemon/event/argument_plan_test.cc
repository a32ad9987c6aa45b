#include "gpu_daemon/event/argument_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/registry.h"

namespace carillon::gpud {
namespace {

TEST(ArgumentPlanTest, BindingsThatCannotWorkAreRefusedByName) {
  const auto* echo = simt::FindKernel("echo");
  alignas(16) std::byte bytes[64];
  const auto message = [&](std::vector<ParameterBinding> bindings) {
    return std::string(ArgumentPlan::Make(*echo, bindings).status().message());
  };
  EXPECT_EQ(message({}), "kernel 'echo' has 2 parameters, 0 were given");
  EXPECT_EQ(message({{.buffer = {bytes, 64}}, {}}),
            "parameter 'out' is a buffer and needs a buffer id");
  EXPECT_EQ(
      message({{.writable = true, .buffer = {bytes, 64}, .slot_stride = 8},
               {.buffer = {bytes, 64}}}),
      "parameter 'in' is writable: it cannot have a slot stride");
  const auto* add = simt::FindKernel("vector_add");
  std::vector<ParameterBinding> odd(add->params.size());
  for (auto& binding : odd) binding.buffer = {bytes, 63};
  EXPECT_EQ(std::string(ArgumentPlan::Make(*add, odd).status().message()),
            "parameter 'a': 63 bytes is not a whole number of 4-byte elements");
  for (auto& binding : odd) binding.buffer = {bytes + 2, 60};
  EXPECT_EQ(std::string(ArgumentPlan::Make(*add, odd).status().message()),
            "parameter 'a': offset and slot stride must be multiples of 4");
}

}  // namespace
}  // namespace carillon::gpud
