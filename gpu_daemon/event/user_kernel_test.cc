// A user's kernels: what was declared must be what the image has, and the
// argument block must be laid out as the image says.
#include "gpu_daemon/event/user_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>

#include "gpu_daemon/event/argument_plan.h"
#include "gpu_daemon/event/kernel_metadata.h"

namespace carillon::gpud {
namespace {

using simt::ParamKind;
using ::testing::AllOf;
using ::testing::HasSubstr;

// saxpy(x: read f32[], y: write f32[], a: f32, n: u32)
KernelDeclaration Saxpy() {
  return {.symbol = "saxpy_gpu",
          .name = "saxpy",
          .summary = "y += a x",
          .parameters = {{"x", ParamKind::kReadBuffer, 4},
                         {"y", ParamKind::kWriteBuffer, 4},
                         {"a", ParamKind::kF32},
                         {"n", ParamKind::kU32}}};
}
KernelLayout Pointers() {
  return {.parameters = {{0, 8}, {8, 8}, {16, 4}, {20, 4}},
          .registers_per_thread = 12,
          .static_shared_bytes = 256,
          .most_threads = 128};
}

TEST(UserKernel, TakesItsPlacesFromTheImage) {
  const auto kernel = UserKernel::Make(Saxpy(), "saxpy.fatbin", Pointers());
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const simt::KernelInfo& info = (*kernel)->info();
  EXPECT_EQ(info.name, "saxpy");
  EXPECT_EQ(info.symbol, "saxpy_gpu");
  EXPECT_EQ(info.file, "saxpy.fatbin");
  EXPECT_TRUE(info.is_users());
  EXPECT_EQ(info.run_block, nullptr);
  EXPECT_EQ(info.args_size, 24u);
  EXPECT_EQ(info.registers_per_thread, 12u);
  EXPECT_EQ(info.static_shared_bytes, 256u);
  ASSERT_EQ(info.params.size(), 4u);
  EXPECT_EQ(info.params[0].buffer_form, simt::BufferForm::kPointer);
  EXPECT_EQ(info.params[0].bytes(), 8u);
  EXPECT_EQ(info.params[0].element_size, 4u);
  EXPECT_EQ(info.params[1].offset, 8u);
  EXPECT_EQ(info.params[3].name, "n");
  EXPECT_EQ(info.params[3].bytes(), 4u);
}

TEST(UserKernel, ABufferOfSixteenBytesIsASpan) {
  KernelLayout layout = Pointers();
  layout.parameters = {{0, 16}, {16, 8}, {24, 4}, {28, 4}};
  const auto kernel = UserKernel::Make(Saxpy(), "f", layout);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ((*kernel)->info().params[0].buffer_form, simt::BufferForm::kSpan);
  EXPECT_EQ((*kernel)->info().params[1].buffer_form,
            simt::BufferForm::kPointer);
}

TEST(UserKernel, ElementsAreAlignedAsTheirSizeSays) {
  for (const auto& [bytes, align] : {std::pair{1u, 1u},
                                     {2u, 2u},
                                     {12u, 4u},
                                     {16u, 16u},
                                     {24u, 8u},
                                     {64u, 16u}}) {
    KernelDeclaration one{.symbol = "k",
                          .name = "k",
                          .summary = "",
                          .parameters = {{"b", ParamKind::kReadBuffer, bytes}}};
    const auto kernel = UserKernel::Make(one, "f", {.parameters = {{0, 8}}});
    ASSERT_TRUE(kernel.ok());
    EXPECT_EQ((*kernel)->info().params[0].element_align, align) << bytes;
  }
}

TEST(UserKernel, AWrongNumberOfParametersNamesBoth) {
  KernelLayout layout = Pointers();
  layout.parameters.pop_back();
  const auto kernel = UserKernel::Make(Saxpy(), "saxpy.ptx", layout);
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(kernel.status().message(),
            "saxpy.ptx: kernel 'saxpy_gpu': 4 parameters were declared, the "
            "image has 3");
}

TEST(UserKernel, AWrongSizeNamesTheParameterAndBothSizes) {
  KernelLayout value = Pointers();
  value.parameters[2].bytes = 8;
  EXPECT_THAT(
      std::string(UserKernel::Make(Saxpy(), "f", value).status().message()),
      AllOf(HasSubstr("parameter 3 'a' was declared as f32, which has "
                      "4 bytes; in the image it has 8")));
  for (const uint32_t bytes : {4u, 12u, 24u}) {
    KernelLayout buffer = Pointers();
    buffer.parameters[1].bytes = bytes;
    EXPECT_THAT(
        std::string(UserKernel::Make(Saxpy(), "f", buffer).status().message()),
        AllOf(HasSubstr("parameter 2 'y' was declared as write buffer of "
                        "4-byte elements, which has 8 (a pointer) or 16"),
              HasSubstr("in the image it has " + std::to_string(bytes))));
  }
}

TEST(UserKernel, MoreArgumentsThanALaunchCanHaveAreRefused) {
  KernelLayout layout = Pointers();
  layout.parameters[3].offset = 4096;
  EXPECT_THAT(
      std::string(UserKernel::Make(Saxpy(), "f", layout).status().message()),
      HasSubstr("4100 bytes of parameters; the limit is 4096"));
  // The end of 32 bits is not the beginning of the arguments.
  layout.parameters[3].offset = 0xffff'fffc;
  EXPECT_THAT(
      std::string(UserKernel::Make(Saxpy(), "f", layout).status().message()),
      HasSubstr("4294967296 bytes of parameters; the limit is 4096"));
}

// Arguments are written by aligned stores, on the GPU, too: there a stray one
// ends gpud's context.
TEST(UserKernel, AParameterThatIsNotAlignedIsRefused) {
  KernelLayout value = Pointers();
  value.parameters[3].offset = 22;
  EXPECT_EQ(UserKernel::Make(Saxpy(), "f", value).status(),
            absl::InvalidArgumentError(
                "f: kernel 'saxpy_gpu': parameter 4 'n' was declared as u32; "
                "in the image it is at byte 22, which is no multiple of 4"));
  KernelLayout pointer = Pointers();
  pointer.parameters[1].offset = 28;
  EXPECT_EQ(UserKernel::Make(Saxpy(), "f", pointer).status(),
            absl::InvalidArgumentError(
                "f: kernel 'saxpy_gpu': parameter 2 'y' was declared as write "
                "buffer of 4-byte elements; in the image it is at byte 28, "
                "which is no multiple of 8"));
}

TEST(UserKernel, ItsLaunchBoundsLimitTheBlock) {
  const auto kernel = UserKernel::Make(Saxpy(), "f", Pointers());
  ASSERT_TRUE(kernel.ok());
  KernelMetadata kmd{.kernel = &(*kernel)->info(), .block = {128, 1, 1}};
  EXPECT_TRUE(CheckKernelMetadata(kmd, {}).ok());
  kmd.block = {16, 16, 1};
  EXPECT_THAT(std::string(CheckKernelMetadata(kmd, {}).message()),
              HasSubstr("256 threads: kernel 'saxpy' takes at most 128"));
}

TEST(UserKernel, PathsThatNeedAFormOfOursRefuseIt) {
  const auto kernel = UserKernel::Make(Saxpy(), "f", Pointers());
  ASSERT_TRUE(kernel.ok());
  const auto status = CheckCompletesItself((*kernel)->info(), "so it is");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("kernel 'saxpy' of f is a user's own: so it is"),
                    HasSubstr("baseline_flag")));
  EXPECT_TRUE(CheckCompletesItself(simt::KernelInfo{}, "so it is").ok());
}

// The argument block.

class UserArgumentsTest : public ::testing::Test {
 protected:
  // Of the kernel with these sizes: bytes beyond a parameter's stay 0xee.
  std::array<std::byte, 64> Build(const KernelLayout& layout, uint32_t slot,
                                  const std::byte* parameters = nullptr) {
    auto kernel = UserKernel::Make(Saxpy(), "f", layout);
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    auto plan = ArgumentPlan::Make((*kernel)->info(), bindings_);
    EXPECT_TRUE(plan.ok()) << plan.status();
    alignas(16) std::array<std::byte, 64> args;
    args.fill(std::byte{0xee});
    status_ = plan->Build(slot, parameters, args.data());
    return args;
  }
  template <class T>
  static T At(const std::array<std::byte, 64>& args, size_t offset) {
    T value;
    std::memcpy(&value, args.data() + offset, sizeof(T));
    return value;
  }

  alignas(16) std::array<float, 64> memory_{};
  std::byte* const x_ = reinterpret_cast<std::byte*>(memory_.data());
  std::byte* const y_ = reinterpret_cast<std::byte*>(memory_.data() + 32);
  std::vector<ParameterBinding> bindings_ = {
      {.buffer = {x_, 64}, .slot_stride = 16},
      {.buffer = {y_, 128}},
      {.constant_bits = 0x40000000},
      {.constant_bits = 7}};
  shm::EventStatus status_{};
};

TEST_F(UserArgumentsTest, PointersTakeEightBytesEach) {
  const auto args = Build(Pointers(), 2);
  EXPECT_EQ(At<std::byte*>(args, 0), x_ + 32);
  EXPECT_EQ(At<std::byte*>(args, 8), y_);
  EXPECT_EQ(At<float>(args, 16), 2.0f);
  EXPECT_EQ(At<uint32_t>(args, 20), 7u);
  EXPECT_EQ(At<uint8_t>(args, 24), 0xee);
}

TEST_F(UserArgumentsTest, PointersAndSpansMix) {
  const KernelLayout layout{.parameters = {{0, 16}, {16, 8}, {24, 4}, {28, 4}}};
  const auto args = Build(layout, 0);
  EXPECT_EQ(At<std::byte*>(args, 0), x_);
  EXPECT_EQ(At<uint64_t>(args, 8), 16u);
  EXPECT_EQ(At<std::byte*>(args, 16), y_);
  EXPECT_EQ(At<float>(args, 24), 2.0f);
  EXPECT_EQ(At<uint32_t>(args, 28), 7u);
}

TEST_F(UserArgumentsTest, AWritablePointerIsCheckedAgainstItsRange) {
  bindings_[0] = {.writable = true, .buffer = {x_, 64}};
  struct {
    shm::BufferRef ref;
  } entry{{.offset = 16, .length = 48}};
  const auto* bytes = reinterpret_cast<const std::byte*>(&entry);
  const auto args = Build(Pointers(), 0, bytes);
  EXPECT_EQ(status_, shm::EventStatus::kOk);
  EXPECT_EQ(At<std::byte*>(args, 0), x_ + 16);
  EXPECT_EQ(At<std::byte*>(args, 8), y_) << "not a count";
  entry.ref.length = 52;
  Build(Pointers(), 0, bytes);
  EXPECT_EQ(status_, shm::EventStatus::kBadBufferRef);
}

TEST_F(UserArgumentsTest, AKernelWithoutParametersHasNone) {
  auto kernel = UserKernel::Make(
      {.symbol = "k", .name = "k", .summary = "", .parameters = {}}, "f", {});
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ((*kernel)->info().args_size, 0u);
  const auto plan = ArgumentPlan::Make((*kernel)->info(), {});
  ASSERT_TRUE(plan.ok());
  ArgumentBlock args;
  EXPECT_EQ(plan->Build(0, nullptr, args.data()), shm::EventStatus::kOk);
}

}  // namespace
}  // namespace carillon::gpud
