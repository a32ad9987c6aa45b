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
  EXPECT_EQ(kernels, GetParam().architecture == "75" ? 7u : 11u);
  const DeviceAddress out = Zeroes(1);
  ASSERT_EQ(Run("fine", 1, 1, {out}), absl::OkStatus());
  EXPECT_EQ(Values(out, 1)[0], 2);
}

// Matrices of other generations, or in other formats. nvcc takes each for its own
// architectures only.
TEST(RefusedMatricesTest, EachInstructionByItsName) {
  const std::vector<std::string> instructions = {
      "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 "
      "{%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, {%r0, %r1}, {%r2, %r3}, "
      "{%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7};",
      "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r2, %r3}, {%f0, %f1, %f2, %f3}, "
      "%r4, "
      "0x0;",
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 "
      "{%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, "
      "{%f0, %f1, %f2, %f3};",
      "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32 "
      "{%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, "
      "{%f0, %f1, %f2, %f3};",
      "wmma.load.a.sync.aligned.row.m8n8k32.s4 {%r0}, [%rd0], 32;",
      "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 "
      "{%r0, %r1}, {%r2}, {%r3}, {%r4, %r5};",
      "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0, %r1}, [%r2];",
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
      "{%f0, %f1, %f2, %f3}, %rd0, %rd1, 1, 1, 1, 0, 0;",
      "wgmma.fence.sync.aligned;",
      "tcgen05.mma.cta_group::1.kind::f16 [%r0], %rd0, %rd1, %r1, %p0;",
      "tcgen05.fence::before_thread_sync;",
  };
  for (const std::string& instruction : instructions) {
    auto module = ptx::ParseModule(
        ".version 9.0\n.target sm_100a\n.address_size 64\n"
        ".visible .entry k()\n{\n.reg .f32 %f<8>; .reg .b32 %r<8>;\n"
        ".reg .b64 %rd<2>; .reg .pred %p<1>;\n" +
            instruction + "\nret;\n}\n",
        "matrices.ptx");
    ASSERT_TRUE(module.ok()) << module.status();
    Memory memory;
    auto program =
        Lower(std::make_shared<const ptx::Module>(*std::move(module)), &memory);
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_EQ((*program)->FindEntry("k")->refused,
              "matrices.ptx:8:1: instruction '" +
                  instruction.substr(0, instruction.find_first_of(" ;")) +
                  "' is not supported");
  }
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
