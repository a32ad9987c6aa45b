// What the simulated GPU has not is refused by its name, when the kernel that does
// it is launched. The others of the file run.
#include <gmock/gmock.h>

#include <map>

#include "sim/everyday/cuda_test.h"

namespace carillon::sim {
namespace {

using testing::HasSubstr;

class RefusedTest : public CudaTest {
 protected:
  void SetUp() override { Load("refused"); }
};
CUDA_TEST(RefusedTest);

TEST_P(RefusedTest, EachKernelByWhatItDoes) {
  const std::map<std::string, std::string> wanted = {
      {"texture", "tex."},
      {"texture_level", "tex."},
      {"texture_gather", "tld4."},
      {"surface_read", "suld."},
      {"surface_write", "sust."},
      {"allocates", "'__cudaCDP2Free' is not defined here"},
      {"matrices", "wmma."},
      {"clusters", "cluster"},
      {"cluster_barrier", "barrier.cluster."},
      {"cluster_rank", "%cluster_ctarank"},
      {"tensor_copy", "cp.async.bulk.tensor."},
  };
  size_t kernels = 0;
  for (const ProgramFunction& function : program_->functions) {
    if (!function.is_entry) continue;
    ++kernels;
    const std::string name(function.name);
    if (name == "fine") continue;
    ASSERT_TRUE(wanted.contains(name)) << name;
    std::vector<uint64_t> parameters(function.source->parameters.size(),
                                     Zeroes(64));
    const absl::Status status = Run(name.c_str(), 1, 32, parameters);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(wanted.at(name)));
    // Its place, too.
    EXPECT_THAT(std::string(status.message()),
                testing::ContainsRegex("^sim/everyday/refused[^:]*:[0-9]+:"));
  }
  EXPECT_EQ(kernels, GetParam().architecture == "75" ? 8u : 12u);
  const DeviceAddress out = Zeroes(1);
  ASSERT_EQ(Run("fine", 1, 1, {out}), absl::OkStatus());
  EXPECT_EQ(Values(out, 1)[0], 2);
}

// nvcc makes such a call of `kernel<<<...>>>` in a kernel, with -rdc=true.
TEST(RefusedLaunchTest, AKernelThatLaunchesOthers) {
  auto module = ptx::ParseModule(R"(.version 9.0
.target sm_75
.address_size 64
.extern .func (.param .b32 r) __cudaCDP2LaunchDeviceV2(
  .param .b64 a, .param .b64 b);
.visible .entry launches()
{
  .param .b64 a;
  .param .b64 b;
  .param .b32 r;
  st.param.b64 [a], 0;
  st.param.b64 [b], 0;
  call.uni (r), __cudaCDP2LaunchDeviceV2, (a, b);
  ret;
}
)",
                                 "launches.ptx");
  ASSERT_TRUE(module.ok()) << module.status();
  Memory memory;
  auto program =
      Lower(std::make_shared<const ptx::Module>(*std::move(module)), &memory);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT((*program)->FindEntry("launches")->refused,
              testing::AllOf(
                  testing::StartsWith("launches.ptx:13:"),
                  HasSubstr("'__cudaCDP2LaunchDeviceV2' is not defined here"),
                  testing::EndsWith("kernels do not launch others here")));
}

}  // namespace
}  // namespace carillon::sim
