#include "sim/lower/lower.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/exec/functional.h"

namespace carillon::sim {
namespace {

constexpr char kHead[] = R"(
.version 7.5
.target sm_75
.address_size 64
)";

constexpr char kAnother[] = R"(
.global .align 8 .b8 of_another[1000];
.shared .align 8 .b8 shared_by_another[512];
.extern .shared .align 16 .b8 extern_of_another[];
.func (.param .b32 r) helper(.param .b32 a) {
  .reg .b32 %r<2>;
  .shared .align 8 .b8 own[64];
  ld.param.u32 %r1, [a];
  st.shared.u32 [own], %r1;
  st.param.b32 [r], %r1;
  ret;
}
.visible .entry another() {
  .reg .b64 %d<2>;
  mov.u64 %d1, of_another;
  mov.u64 %d1, shared_by_another;
  mov.u64 %d1, extern_of_another;
  ret;
}
)";

constexpr char kKernel[] = R"(
.global .align 4 .u32 value = 21;
.global .align 8 .u64 pointer = generic(value);
.global .align 4 .u32 sum;
.shared .align 4 .b8 shared[16];
.func (.param .b32 r) twice(.param .b32 a) {
  .reg .b32 %r<2>;
  ld.param.u32 %r1, [a];
  add.u32 %r1, %r1, %r1;
  st.param.b32 [r], %r1;
  ret;
}
.visible .entry kernel() {
  .reg .b64 %p<2>;
  .reg .b32 %v<2>;
  .shared .align 4 .b8 own[4];
  ld.global.u64 %p1, [pointer];
  ld.u32 %v1, [%p1];
  st.shared.u32 [shared], %v1;
  { .param .b32 p0; .param .b32 p1;
    st.param.b32 [p0], %v1;
    call.uni (p1), twice, (p0);
    ld.param.b32 %v1, [p1]; }
  st.global.u32 [sum], %v1;
  ret;
}
)";

class Lowered {
 public:
  Lowered(const std::string& text, std::string_view kernel) {
    auto module = ptx::ParseModule(kHead + text, "test.ptx");
    EXPECT_TRUE(module.ok()) << module.status();
    auto lowered =
        Lower(std::make_shared<const ptx::Module>(*std::move(module)), &memory_,
              {.kernel = kernel});
    status_ = lowered.status();
    if (lowered.ok()) program_ = *std::move(lowered);
  }

  const absl::Status& status() const { return status_; }
  const Program& program() const { return *program_; }
  std::vector<std::pair<std::string_view, uint64_t>> variables() const {
    std::vector<std::pair<std::string_view, uint64_t>> places;
    for (const ProgramVariable& variable : program_->variables) {
      places.emplace_back(variable.name, variable.address);
    }
    return places;
  }
  uint32_t ValueOf(std::string_view name) const {
    uint32_t value = 0;
    for (const ProgramVariable& variable : program_->variables) {
      if (variable.name != name) continue;
      std::memcpy(&value, memory_.At(variable.address, sizeof(value))->data(),
                  sizeof(value));
    }
    return value;
  }
  // Has the variables anew, from bytes that are all ones.
  absl::Status Reset() {
    for (const ProgramVariable& variable : program_->variables) {
      std::ranges::fill(*memory_.At(variable.address, variable.bytes),
                        std::byte{255});
    }
    return StoreFirstValues(*program_, &memory_);
  }
  absl::Status Run() const {
    FunctionalGpu gpu(&memory_, {});
    return gpu
        .Run({.program = program_.get(),
              .kernel = program_->FindEntry("kernel"),
              .grid = {1, 1, 1},
              .block = {32, 1, 1}})
        .status();
  }

 private:
  Memory memory_;
  absl::Status status_;
  std::shared_ptr<const Program> program_;
};

TEST(LowerOneKernel, LiesWhereItWouldWithoutOthers) {
  const Lowered alone(kKernel, "kernel");
  const Lowered among(std::string(kAnother) + kKernel, "kernel");
  ASSERT_TRUE(alone.status().ok()) << alone.status();
  ASSERT_TRUE(among.status().ok()) << among.status();
  EXPECT_THAT(alone.variables(), testing::SizeIs(3));
  EXPECT_EQ(among.variables(), alone.variables());
  EXPECT_EQ(among.program().ops.size(), alone.program().ops.size());
  const auto& kernel = *alone.program().FindEntry("kernel");
  const auto& same = *among.program().FindEntry("kernel");
  EXPECT_EQ(same.entry, kernel.entry);
  EXPECT_EQ(same.static_shared_bytes, kernel.static_shared_bytes);
  EXPECT_EQ(same.local_bytes, kernel.local_bytes);
  EXPECT_EQ(same.registers, kernel.registers);
}

TEST(LowerOneKernel, HasWhatItCallsAndReads) {
  const Lowered lowered(std::string(kAnother) + kKernel, "kernel");
  ASSERT_TRUE(lowered.status().ok()) << lowered.status();
  const absl::Status run = lowered.Run();
  ASSERT_TRUE(run.ok()) << run;
  EXPECT_EQ(lowered.ValueOf("sum"), 42);
}

TEST(StoreFirstValues, GivesAProgramThatHasRunAllItsVariablesAnew) {
  Lowered lowered(kKernel, "kernel");
  ASSERT_TRUE(lowered.status().ok()) << lowered.status();
  ASSERT_TRUE(lowered.Run().ok());
  ASSERT_EQ(lowered.ValueOf("sum"), 42);
  ASSERT_TRUE(lowered.Reset().ok());
  EXPECT_EQ(lowered.ValueOf("sum"), 0);
  EXPECT_EQ(lowered.ValueOf("value"), 21);
  ASSERT_TRUE(lowered.Run().ok());
  EXPECT_EQ(lowered.ValueOf("sum"), 42);
}

TEST(LowerOneKernel, HasNoOtherKernels) {
  const Lowered lowered(std::string(kAnother) + kKernel, "kernel");
  ASSERT_TRUE(lowered.status().ok()) << lowered.status();
  EXPECT_EQ(lowered.program().FindEntry("another"), nullptr);
}

TEST(LowerOneKernel, MustBeAKernel) {
  for (const char* name : {"twice", "none"}) {
    EXPECT_EQ(
        Lowered(kKernel, name).status(),
        absl::NotFoundError("test.ptx: no kernel '" + std::string(name) + "'"));
  }
}

}  // namespace
}  // namespace carillon::sim
