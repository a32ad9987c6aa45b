// A user's own kernels are loaded on the CUDA back-end as they were declared, or
// refused whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>

#include "gpu_daemon/backends/cuda/driver/module_image.h"
#include "gpu_daemon/backends/cuda/user_kernels_fixture.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;
using shm::EventStatus;
using simt::ParamKind;

TEST_F(UserKernelsTest, AreInTheCatalogBesideGpudsOwn) {
  Open();
  const auto loaded = Load(kPtx, {Saxpy("my_saxpy"), Scale()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->size(), 2u);
  EXPECT_EQ((*loaded)[0]->params[0].buffer_form, simt::BufferForm::kPointer);
  EXPECT_EQ((*loaded)[0]->args_size, 24u);
  EXPECT_EQ((*loaded)[1]->params[0].buffer_form, simt::BufferForm::kSpan);
  EXPECT_EQ((*loaded)[1]->args_size, 20u);
  EXPECT_EQ(catalog_.Find("my_saxpy"), (*loaded)[0]);
  EXPECT_EQ(catalog_.Find("saxpy"), nullptr) << "it has another name";
  EXPECT_NE(catalog_.Find("null_event"), nullptr);
  EXPECT_EQ(catalog_.Nearest("my_saxpi"), "my_saxpy");
  EXPECT_THAT(catalog_.All(), ::testing::Contains((*loaded)[1]));
}

TEST_F(UserKernelsTest, WhatIsNotAsDeclaredIsRefusedWhole) {
  Open();
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  KernelDeclaration kernel = Saxpy();
  kernel.parameters[2].kind = ParamKind::kF64;
  ExpectRefused(kPtx, kernel, kInvalid,
                "parameter 3 'a' was declared as f64, which has 8 bytes; in "
                "the image it has 4");
  kernel = Saxpy();
  kernel.parameters[3] = {"n", ParamKind::kReadBuffer, 4};
  ExpectRefused(kPtx, kernel, kInvalid, "8 (a pointer) or 16 (simt::Span)");
  kernel = Saxpy();
  kernel.parameters.pop_back();
  ExpectRefused(kPtx, kernel, kInvalid,
                "3 parameters were declared, the image has 4");
  kernel = Saxpy();
  kernel.symbol = "sexpy";
  ExpectRefused(kPtx, kernel, absl::StatusCode::kNotFound,
                "user.ptx has no kernel 'sexpy'");
  // A good one before the bad one stays out, too.
  EXPECT_FALSE(Load(kPtx, {Scale(), kernel}).ok());
  EXPECT_EQ(catalog_.Find("scale"), nullptr);
  EXPECT_TRUE(Load(kPtx, {Scale()}).ok());
}

TEST_F(UserKernelsTest, AStackLargerThanAllBeforeIsTakenBeforeItIsNeeded) {
  Open();
  const auto served = backend_->paths().Find("persistent");
  ASSERT_TRUE(served.ok());
  auto resident = device_->Register(
      {.kernel = catalog_.Find("null_event"), .bindings = {Constant(0)}});
  ASSERT_TRUE(served->path->Add(resident.kernel).ok());
  std::string ptx = kPtx;
  ptx.replace(ptx.find("{ ret; }"), 8,
              "{ .local .align 8 .b8 __local_depot0[9000]; ret; }");
  const auto loaded = Load(ptx, {Saxpy()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto path = backend_->paths().Find("baseline");
  ASSERT_TRUE(path.ok());
  auto event =
      device_->Register({.kernel = loaded->front(),
                         .bindings = {Buffer(SaxpyDevice::Range(device_->x)),
                                      Buffer(SaxpyDevice::Range(device_->y)),
                                      Constant(0), Constant(kFloats)},
                         .block = {kFloats, 1, 1}});
  ASSERT_TRUE(path->path->Add(event.kernel).ok());
  const auto expect_served = [&] {
    event.ring->Commit();
    event.ring->RingDoorbell();
    EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  };
  expect_served();
  // More than any GPU gives.
  ptx.replace(ptx.find("[9000]"), 6, "[900000]");
  modules_ = fake_.live_objects().modules;
  ExpectRefused(ptx, Saxpy("deeper"), absl::StatusCode::kInvalidArgument,
                "user.ptx: give every thread 901024 bytes of stack");
  // More than this one has memory for. The launches of others do not ask for it.
  fake_.ChangeSettings([](FakeSettings& s) { s.most_stack = 20'000; });
  ptx.replace(ptx.find("[900000]"), 8, "[90000]");
  ExpectRefused(ptx, Saxpy("deeper"), absl::StatusCode::kResourceExhausted,
                "user.ptx: give every thread 91024 bytes of stack");
  expect_served();
  path->path->Remove(event.kernel);
  backend_->Cancel(LaunchFilter::Of(*event.kernel), EventStatus::kUnregistered);
  served->path->Remove(resident.kernel);
}

TEST_F(UserKernelsTest, NamesThatAreTakenAreRefused) {
  Open();
  constexpr auto kTaken = absl::StatusCode::kAlreadyExists;
  ExpectRefused(kPtx, Saxpy("null_event"), kTaken, "one of gpud's own");
  EXPECT_EQ(Load(kPtx, {Saxpy("twice"), Saxpy("twice")}).status().code(),
            kTaken);
  EXPECT_EQ(fake_.live_objects().modules, modules_);
  MustLoad(Saxpy());
  ++modules_;
  ExpectRefused(kPtx, Saxpy(), kTaken, "from user.ptx");
  MustLoad(Saxpy("another"));
}

TEST_F(UserKernelsTest, WhatIsNoImageIsRefused) {
  Open();
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  ExpectRefused("", Saxpy(), kInvalid, "user.ptx is empty");
  ExpectRefused("garbage", Saxpy(), kInvalid, "neither a fatbin nor a cubin");
  ExpectRefused(std::string("\0\0\0\0", 4), Saxpy(), kInvalid, "byte 0 is 0");
  ExpectRefused(ReadFile("/proc/self/exe"), Saxpy(), kInvalid,
                "an ELF file for a CPU");
  ExpectRefused(".version 8.0\n.target sm_80\n.visible .entry saxpy(", Saxpy(),
                kInvalid, "user.ptx: load a module");
}

TEST_F(UserKernelsTest, AGpuWithoutMemoryKeepsNothing) {
  Open();
  // With sliced versions, and without.
  fake_.FailNext("cuModuleLoadDataEx", CUDA_ERROR_OUT_OF_MEMORY, 2);
  ExpectRefused(kPtx, Saxpy(), absl::StatusCode::kResourceExhausted,
                "user.ptx");
  MustLoad(Saxpy());
}

// What nvcc makes.

class NvccImageTest : public UserKernelsTest,
                      public ::testing::WithParamInterface<std::string> {
 protected:
  std::string Image() const {
    return ReadFile("devices/example/saxpy." + GetParam());
  }
};

INSTANTIATE_TEST_SUITE_P(All, NvccImageTest,
                         ::testing::Values("fatbin", "cubin", "ptx"),
                         [](const auto& info) { return info.param; });

TEST_P(NvccImageTest, HasItsKernelsWithTheirParameters) {
  Open();
  const auto loaded = Load(Image(), {Saxpy(), Scale()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)[0]->args_size, 24u);
  EXPECT_EQ((*loaded)[0]->params[3].offset, 20u);
  EXPECT_EQ((*loaded)[0]->params[0].buffer_form, simt::BufferForm::kPointer);
  EXPECT_EQ((*loaded)[1]->params[0].buffer_form, simt::BufferForm::kSpan);
  EXPECT_EQ((*loaded)[1]->params[1].offset, 16u);
  modules_ = fake_.live_objects().modules;
  KernelDeclaration kernel = Scale();
  kernel.name = "scale_again";
  kernel.parameters[1].kind = ParamKind::kF64;
  ExpectRefused(Image(), kernel, absl::StatusCode::kInvalidArgument,
                "parameter 2 'a'");
}

TEST_P(NvccImageTest, ThatWasCutShortNeverReachesTheDriver) {
  const std::string image = Image();
  const auto check = [](std::string_view bytes) {
    return CheckModuleImage(std::as_bytes(std::span(bytes)), "cut");
  };
  EXPECT_TRUE(check(image).ok());
  for (size_t size = 0; size < image.size(); size += 1 + size / 8) {
    const absl::Status status = check(std::string_view(image).substr(0, size));
    if (GetParam() != "ptx") {
      ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << size;
    }
  }
}

}  // namespace
}  // namespace carillon::gpud::cuda
