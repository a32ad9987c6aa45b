// A user's own kernels on the CUDA back-end: loaded, checked, launched by every
// path that can, and loaded again after a fault.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gpu_daemon/backends/cuda/cuda_backend.h"
#include "gpu_daemon/backends/cuda/driver/module_image.h"
#include "gpu_daemon/backends/cuda/fake/fake_gpu.h"
#include "gpu_daemon/event/kernel_catalog.h"
#include "gpu_daemon/event/test_device.h"

namespace carillon::gpud::cuda {
namespace {

using shm::Completion;
using shm::EventState;
using shm::EventStatus;
using simt::ParamKind;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kPtx[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry saxpy(
	.param .u64 .ptr .align 1 saxpy_param_0,
	.param .u64 .ptr .align 1 saxpy_param_1,
	.param .f32 saxpy_param_2,
	.param .u32 saxpy_param_3
)
{ ret; }
.visible .entry scale(
	.param .align 8 .b8 scale_param_0[16],
	.param .f32 scale_param_1
)
{ ret; }
.visible .entry tick()
{ ret; }
)";

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

KernelDeclaration Saxpy(const std::string& name = "saxpy") {
  return {.symbol = "saxpy",
          .name = name,
          .summary = "",
          .parameters = {{"x", ParamKind::kReadBuffer, 4},
                         {"y", ParamKind::kWriteBuffer, 4},
                         {"a", ParamKind::kF32},
                         {"n", ParamKind::kU32}}};
}
KernelDeclaration Scale() {
  return {.symbol = "scale",
          .name = "scale",
          .summary = "",
          .parameters = {{"y", ParamKind::kWriteBuffer, 4},
                         {"a", ParamKind::kF32}}};
}

constexpr uint32_t kFloats = 16;

// A device whose apertures the GPU reaches, with x to read and y to write.
struct SaxpyDevice : TestDevice {
  explicit SaxpyDevice(Backend& backend) {
    for (const shm::Aperture* aperture :
         {&memory->submission(), &memory->completion()}) {
      mappings.push_back(backend.memory()
                             .MapHost({aperture->At(0), aperture->size()})
                             .value());
    }
    x = reinterpret_cast<float*>(memory->submission().At(
        *submission_heap->Allocate(kFloats * sizeof(float))));
    y = reinterpret_cast<float*>(memory->completion().At(
        *completion_heap->Allocate(kFloats * sizeof(float))));
    for (uint32_t i = 0; i < kFloats; ++i) {
      x[i] = static_cast<float>(i);
      y[i] = 1;
    }
  }
  static BufferRange Range(float* data) {
    return {reinterpret_cast<std::byte*>(data), kFloats * sizeof(float)};
  }

  std::vector<std::unique_ptr<HostMapping>> mappings;
  float* x = nullptr;
  float* y = nullptr;
};

ParameterBinding Buffer(BufferRange range) { return {.buffer = range}; }
ParameterBinding Constant(uint64_t bits) { return {.constant_bits = bits}; }
ParameterBinding Writable() { return {.writable = true}; }

class UserKernelsTest : public ::testing::Test {
 protected:
  explicit UserKernelsTest(FakeSettings settings = {}) : fake_(settings) {}

  void Open() { OpenOn(fake_.driver()); }
  void OpenOn(const Driver& driver) {
    // As gpud's own driver: a context is made anew after a fault.
    fake_.ChangeSettings([](FakeSettings& s) { s.faults_stay = false; });
    auto backend =
        CudaBackend::CreateOn(driver, {},
                              {.image = FakeGpu::Image(),
                               .recovers = true,
                               .longest_kernel = std::chrono::milliseconds(500),
                               .look_every = std::chrono::milliseconds(5)});
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    device_.emplace(*backend_);
    modules_ = fake_.live_objects().modules;
  }
  // After it, nothing may be left on the GPU.
  ~UserKernelsTest() override {
    if (backend_ == nullptr) return;
    backend_->Stop();
    device_.reset();
    backend_.reset();
    EXPECT_EQ(fake_.live_objects(), LiveObjects{});
    EXPECT_EQ(fake_.stale_uses(), 0u);
  }

  absl::StatusOr<std::vector<const simt::KernelInfo*>> Load(
      const std::string& image, std::vector<KernelDeclaration> kernels) {
    return catalog_.Load({.image = std::as_bytes(std::span(image)),
                          .file = "user.ptx",
                          .kernels = std::move(kernels)},
                         *backend_);
  }
  const simt::KernelInfo* MustLoad(KernelDeclaration kernel) {
    auto loaded = Load(kPtx, {std::move(kernel)});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? loaded->front() : nullptr;
  }
  // Refused so, and nothing of it is left.
  void ExpectRefused(const std::string& image, KernelDeclaration kernel,
                     absl::StatusCode code, const std::string& sentence) {
    const auto loaded = Load(image, {std::move(kernel)});
    EXPECT_EQ(loaded.status().code(), code) << loaded.status();
    EXPECT_THAT(std::string(loaded.status().message()), HasSubstr(sentence));
    EXPECT_EQ(fake_.live_objects().modules, modules_);
  }

  FakeGpu fake_;
  std::unique_ptr<Backend> backend_;
  KernelCatalog catalog_;
  std::optional<SaxpyDevice> device_;
  uint64_t modules_ = 0;
};

// Loading.

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

// Launching.

class UserPathsTest : public UserKernelsTest,
                      public ::testing::WithParamInterface<std::string> {
 protected:
  TestDevice::Event Add(const simt::KernelInfo* kernel,
                        std::vector<ParameterBinding> bindings,
                        uint32_t entries = 8, simt::Dim3 grid = {1, 1, 1},
                        uint32_t priority = 0) {
    const auto found = backend_->paths().Find(GetParam());
    EXPECT_TRUE(found.ok()) << found.status();
    path_ = found->path;
    auto event = device_->Register({.kernel = kernel,
                                    .bindings = std::move(bindings),
                                    .grid = grid,
                                    .block = {kFloats, 1, 1},
                                    .entries = entries,
                                    .priority = priority});
    const auto status = path_->Add(event.kernel);
    EXPECT_TRUE(status.ok()) << status;
    return event;
  }
  TestDevice::Event AddSaxpy(const simt::KernelInfo* kernel,
                             simt::Dim3 grid = {1, 1, 1}) {
    return Add(
        kernel,
        {Buffer(SaxpyDevice::Range(device_->x)),
         Buffer(SaxpyDevice::Range(device_->y)), Writable(), Constant(kFloats)},
        8, grid);
  }
  void TakeAway(const TestDevice::Event& event) {
    path_->Remove(event.kernel);
    backend_->Cancel(LaunchFilter::Of(*event.kernel),
                     EventStatus::kUnregistered);
    event.kernel->AbortUnfinished(EventStatus::kUnregistered);
    EXPECT_EQ(event.kernel->counts().aborted, 0u);
  }
  static void Commit(const TestDevice::Event& event, float a) {
    std::memcpy(event.ring->parameters(), &a, sizeof(a));
    event.ring->Commit();
  }
  void ExpectY(float factor, float sum) {
    for (uint32_t i = 0; i < kFloats; ++i) {
      EXPECT_EQ(device_->y[i], factor * (1 + sum * static_cast<float>(i)));
    }
  }

  LaunchPath* path_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(All, UserPathsTest,
                         ::testing::Values("baseline", "baseline_flag",
                                           "graph"),
                         [](const auto& info) { return info.param; });

// With more blocks than the GPU holds.
TEST_P(UserPathsTest, RunInSlicesOrWholeAsTheirFileAllows) {
  fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 2; });
  Open();
  ASSERT_TRUE(backend_->SetPolicy("gpes").ok());
  std::string syncs = kPtx;
  syncs.replace(syncs.find("{ ret; }"), 8,
                "{ .reg .b32 %r; mov.b32 %r, %envreg2; ret; }");
  std::string unknown = kPtx;
  unknown.replace(unknown.find("{ ret; }"), 8, "{ .unknown; ret; }");
  const auto run = [&](const std::string& image, const std::string& name) {
    const auto loaded = Load(image, {Saxpy(name)});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    auto event = AddSaxpy(loaded->front(), {1000, 1, 1});
    Commit(event, 0.0f);
    event.ring->RingDoorbell();
    EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
    TakeAway(event);
  };
  const auto counts = [&] {
    const SliceFigures figures = backend_->figures().slices;
    std::string text = std::to_string(figures.sliced);
    for (const PathCounter& whole : figures.whole) {
      text += ", " + std::to_string(whole.value) + " ";
      text += whole.name;
    }
    return text;
  };
  run(kPtx, "sliced");
  EXPECT_EQ(counts(), "1");
  EXPECT_EQ(fake_.launches("saxpy"), 0u);
  const uint64_t slices = backend_->figures().slices.slices;
  EXPECT_GT(slices, 1u);
  EXPECT_EQ(fake_.launches("carillon_slice_saxpy"), slices);
  run(syncs, "syncs");
  EXPECT_EQ(counts(), "1, 1 grid_wide");
  run(unknown, "unknown");
  EXPECT_EQ(counts(), "1, 1 unknown_ptx, 1 grid_wide");
  EXPECT_EQ(fake_.launches("saxpy"), 2u);
}

// The driver takes the user's own text, as it is.
TEST_P(UserPathsTest, RunWholeWhenTheDriverRefusesTheirSlicedVersion) {
  fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 2; });
  Open();
  ASSERT_TRUE(backend_->SetPolicy("gpes").ok());
  fake_.FailNext("cuModuleLoadDataEx", CUDA_ERROR_INVALID_PTX);
  auto event = AddSaxpy(MustLoad(Saxpy()), {1000, 1, 1});
  Commit(event, 2.0f);
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  ASSERT_EQ(backend_->figures().slices.whole.size(), 1u);
  EXPECT_EQ(backend_->figures().slices.whole[0].name, "refused");
  EXPECT_EQ(fake_.launches("saxpy"), 1u);
  TakeAway(event);
}

// What the driver says of slices' functions.
std::atomic<CUresult (*)(CUfunction*, CUmodule, const char*)> real_find;
std::atomic<CUresult (*)(int*, CUfunction_attribute, CUfunction)> real_ask;
std::atomic<CUfunction> a_slice;
CUresult FindButForSlices(CUfunction* function, CUmodule module,
                          const char* name) {
  if (std::string_view(name).starts_with("carillon_slice_")) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return real_find.load()(function, module, name);
}
CUresult FindAndNoteSlice(CUfunction* function, CUmodule module,
                          const char* name) {
  const CUresult result = real_find.load()(function, module, name);
  if (std::string_view(name) == "carillon_slice_saxpy") a_slice = *function;
  return result;
}
// A block has an SM's registers.
CUresult SaySlicesAreLarge(int* value, CUfunction_attribute attribute,
                           CUfunction function) {
  const CUresult result = real_ask.load()(value, attribute, function);
  if (function == a_slice && attribute == CU_FUNC_ATTRIBUTE_NUM_REGS) {
    *value = 2048;
  }
  return result;
}

TEST_P(UserPathsTest, RunWholeWhenTheDriverDoesNotFindTheirSlices) {
  fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 2; });
  Driver driver = fake_.driver();
  real_find = driver.cuModuleGetFunction;
  driver.cuModuleGetFunction = &FindButForSlices;
  OpenOn(driver);
  ASSERT_TRUE(backend_->SetPolicy("gpes").ok());
  auto event = AddSaxpy(MustLoad(Saxpy()), {1000, 1, 1});
  Commit(event, 2.0f);
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  ExpectY(1, 2);
  ASSERT_EQ(backend_->figures().slices.whole.size(), 1u);
  EXPECT_EQ(backend_->figures().slices.whole[0].name, "refused");
  TakeAway(event);
}

TEST_P(UserPathsTest, ASliceHasTheBlocksThatTheGpuHoldsOfItsVersion) {
  fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 2; });
  Driver driver = fake_.driver();
  real_find = driver.cuModuleGetFunction;
  driver.cuModuleGetFunction = &FindAndNoteSlice;
  real_ask = driver.cuFuncGetAttribute;
  driver.cuFuncGetAttribute = &SaySlicesAreLarge;
  OpenOn(driver);
  ASSERT_TRUE(backend_->SetPolicy("gpes").ok());
  auto event = AddSaxpy(MustLoad(Saxpy()), {64, 1, 1});
  Commit(event, 0.0f);
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  // One an SM; of the kernel itself there would be more.
  EXPECT_EQ(backend_->figures().slices.slices, 32u);
  TakeAway(event);
}

// A more urgent launch has the GPU, between two slices, when it is cancelled.
TEST_P(UserPathsTest, OneThatIsCancelledBetweenSlicesRunsNoFurther) {
  std::atomic<int> slices{0};
  std::atomic<bool> holds_slice{true};
  std::atomic<bool> holds_urgent{true};
  fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 2; });
  const auto wait_while = [](KernelCall& call, std::atomic<bool>& holds) {
    while (holds && !call.stopped()) std::this_thread::yield();
    return CUDA_SUCCESS;
  };
  fake_.DefineKernel("carillon_slice_saxpy", {8, 8, 4, 4, 24},
                     [&](KernelCall& call) {
                       ++slices;
                       return wait_while(call, holds_slice);
                     });
  fake_.DefineKernel("tick", {}, [&](KernelCall& call) {
    return wait_while(call, holds_urgent);
  });
  Open();
  ASSERT_TRUE(backend_->SetPolicy("gpes").ok());
  const auto loaded = Load(
      kPtx,
      {Saxpy(),
       {.symbol = "tick", .name = "tick", .summary = "", .parameters = {}}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  auto event = AddSaxpy(loaded->front(), {1000, 1, 1});
  auto urgent = Add(loaded->back(), {}, 8, {1, 1, 1}, 5);
  const auto until = [&](const std::function<bool(const LaunchProgress&)>& is) {
    while (!std::ranges::any_of(backend_->launches(), is)) {
      std::this_thread::yield();
    }
  };
  Commit(event, 1.0f);
  event.ring->RingDoorbell();
  while (slices == 0) std::this_thread::yield();
  urgent.ring->Commit();
  urgent.ring->RingDoorbell();
  until([](const LaunchProgress& launch) {
    return launch.priority == 5 && launch.wait_ns != 0;
  });
  holds_slice = false;
  until([](const LaunchProgress& launch) {
    return launch.priority == 0 && launch.slices == 1 && launch.running == 0;
  });
  backend_->Cancel(LaunchFilter::Of(*event.kernel), EventStatus::kUnregistered);
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kAborted);
  holds_urgent = false;
  EXPECT_EQ(device_->Wait(*urgent.ring).state, EventState::kDone);
  EXPECT_EQ(slices, 1);
  // The next launch has its whole grid.
  Commit(event, 1.0f);
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(backend_->figures().slices.slices,
            static_cast<uint64_t>(slices.load()));
  EXPECT_EQ(fake_.launches("saxpy"), 0u);
  path_->Remove(event.kernel);
  backend_->Cancel(LaunchFilter::Of(*event.kernel), EventStatus::kUnregistered);
  TakeAway(urgent);
}

// Its blocks may wait for those of later slices, as they may in a whole launch.
TEST_P(UserPathsTest, OneWhoseSliceDoesNotEndRunsWholeFromThenOn) {
  fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 2; });
  Open();
  ASSERT_TRUE(backend_->SetPolicy("gpes").ok());
  auto event = AddSaxpy(MustLoad(Saxpy()), {1000, 1, 1});
  fake_.HangOn("carillon_slice_saxpy", FakeGpu::Nth(1));
  Commit(event, 0.0f);  // it may be added twice
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(fake_.launches("saxpy"), 1u);
  Commit(event, 3.0f);
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(fake_.launches("saxpy"), 2u);
  ExpectY(1, 3);
  ASSERT_EQ(backend_->figures().slices.whole.size(), 1u);
  EXPECT_EQ(backend_->figures().slices.whole[0].name, "waits");
  TakeAway(event);
}

TEST_P(UserPathsTest, AContextLostInMidSliceRunsAllOfItAgainInSlices) {
  fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 2; });
  Open();
  ASSERT_TRUE(backend_->SetPolicy("gpes").ok());
  auto event = AddSaxpy(MustLoad(Saxpy()), {1000, 1, 1});
  fake_.FaultOn("carillon_slice_saxpy", FakeGpu::Nth(2));
  Commit(event, 0.0f);  // it may be added twice
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_THAT(backend_->description(), HasSubstr("context lost 1 time"));
  // One that faulted, and all of them again.
  const uint64_t slices = fake_.launches("carillon_slice_saxpy");
  EXPECT_GT(slices, 3u);
  Commit(event, 3.0f);
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_GT(fake_.launches("carillon_slice_saxpy"), slices);
  EXPECT_EQ(fake_.launches("saxpy"), 0u) << "nothing runs whole";
  ExpectY(1, 3);
  TakeAway(event);
}

TEST_P(UserPathsTest, EveryEventComputesBeforeItCompletes) {
  Open();
  auto event = AddSaxpy(MustLoad(Saxpy()));
  float sum = 0;
  for (int i = 1; i <= 50; ++i) {
    const auto a = static_cast<float>(i);
    Commit(event, a);
    event.ring->RingDoorbell();
    const Completion completion = device_->Wait(*event.ring);
    ASSERT_EQ(completion.state, EventState::kDone);
    ASSERT_EQ(completion.sequence.value(), static_cast<uint64_t>(i));
    sum += a;
    ExpectY(1, sum);
  }
  EXPECT_EQ(fake_.launches("saxpy"), 50u);
  EXPECT_EQ(fake_.launches("carillon_complete"), 50u);
  TakeAway(event);
  EXPECT_EQ(event.kernel->counts().done, 50u);
}

TEST_P(UserPathsTest, SpansAndKernelsWithoutParametersRunToo) {
  Open();
  std::atomic<int> ticks{0};
  fake_.DefineKernel("tick", {}, [&](KernelCall&) {
    ticks.fetch_add(1, std::memory_order_relaxed);
    return CUDA_SUCCESS;
  });
  auto scale = Add(MustLoad(Scale()),
                   {Buffer(SaxpyDevice::Range(device_->y)), Writable()});
  auto tick = Add(
      MustLoad(
          {.symbol = "tick", .name = "tick", .summary = "", .parameters = {}}),
      {});
  Commit(scale, 3);
  scale.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*scale.ring).state, EventState::kDone);
  ExpectY(3, 0);
  tick.ring->Commit();
  tick.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*tick.ring).state, EventState::kDone);
  EXPECT_EQ(ticks.load(std::memory_order_relaxed), 1);
  TakeAway(scale);
  TakeAway(tick);
}

TEST_P(UserPathsTest, AFaultFailsItsOwnEventAndTheModuleIsLoadedAgain) {
  Open();
  auto event = AddSaxpy(MustLoad(Saxpy()));
  fake_.FaultOn("saxpy", [](const KernelCall& call) {
    return call.param<float>(2) == 13;
  });
  for (const float a : {13.f, 2.f}) Commit(event, a);
  event.ring->RingDoorbell();
  const Completion fault = device_->Wait(*event.ring);
  EXPECT_EQ(fault.state, EventState::kFailed);
  EXPECT_EQ(fault.status, static_cast<uint32_t>(EventStatus::kKernelFault));
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_THAT(backend_->description(), HasSubstr("context lost"));
  // The good one may have added twice.
  std::fill_n(device_->y, kFloats, 1.0f);
  Commit(event, 4);
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  ExpectY(1, 4);
  // What comes later finds the new context, too.
  auto later = AddSaxpy(MustLoad(Saxpy("later")));
  Commit(later, 1);
  later.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*later.ring).state, EventState::kDone);
  TakeAway(event);
  TakeAway(later);
}

TEST_P(UserPathsTest, OneThatDoesNotEndIsStopped) {
  Open();
  auto event = AddSaxpy(MustLoad(Saxpy()));
  fake_.HangOn("saxpy", FakeGpu::Nth(1));
  Commit(event, 1);
  event.ring->RingDoorbell();
  const Completion stopped = device_->Wait(*event.ring);
  EXPECT_EQ(stopped.state, EventState::kFailed);
  EXPECT_EQ(stopped.status, static_cast<uint32_t>(EventStatus::kTimedOut));
  TakeAway(event);
}

TEST_F(UserKernelsTest, WhoNamesNoPathIsServedByOneThatTakesItsArguments) {
  Open();
  const simt::KernelInfo* kernel = MustLoad(Saxpy());
  const float two = 2;
  for (const bool writable : {false, true}) {
    TestDevice::Event event;
    const auto served =
        backend_->paths().Serve("", [&](const StartedPath& path) {
          event = device_->Register(
              {.kernel = kernel,
               .bindings = {Buffer(SaxpyDevice::Range(device_->x)),
                            Buffer(SaxpyDevice::Range(device_->y)),
                            writable ? Writable()
                                     : Constant(std::bit_cast<uint32_t>(two)),
                            Constant(kFloats)},
               .block = {kFloats, 1, 1}});
          return path.path->Add(event.kernel);
        });
    ASSERT_TRUE(served.ok()) << served.status();
    EXPECT_EQ(served->name, writable ? "graph" : "edge");
    device_->y[3] = 1;
    if (writable) std::memcpy(event.ring->parameters(), &two, sizeof(two));
    event.ring->Commit();
    event.ring->RingDoorbell();
    EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
    EXPECT_EQ(device_->y[3], 7.0f);
    served->path->Remove(event.kernel);
    backend_->Cancel(LaunchFilter::Of(*event.kernel),
                     EventStatus::kUnregistered);
  }
}

// Paths where the GPU launches: no argument comes from an entry, but each slot has
// its own quarter of x and y.
class UserEdgeTest : public UserKernelsTest {
 protected:
  explicit UserEdgeTest(std::string path = "edge") : name_(std::move(path)) {}

  static constexpr uint32_t kSlots = 4;
  static constexpr uint32_t kQuarter = kFloats / kSlots;

  TestDevice::Event AddSaxpy(const simt::KernelInfo* kernel,
                             simt::Dim3 grid = {1, 1, 1},
                             simt::Dim3 block = {kQuarter, 1, 1}) {
    path_ = backend_->paths().Find(name_)->path;
    const auto quarters = [](float* data) {
      constexpr uint64_t kBytes = kQuarter * sizeof(float);
      return ParameterBinding{
          .buffer = {reinterpret_cast<std::byte*>(data), kBytes},
          .slot_stride = kBytes};
    };
    auto event = device_->Register(
        {.kernel = kernel,
         .bindings = {quarters(device_->x), quarters(device_->y),
                      Constant(std::bit_cast<uint32_t>(2.0f)),
                      Constant(kQuarter)},
         .grid = grid,
         .block = block,
         .entries = kSlots});
    const auto status = path_->Add(event.kernel);
    EXPECT_TRUE(status.ok()) << status;
    return event;
  }
  // So many events, and how each ended.
  std::vector<Completion> Ring(const TestDevice::Event& event,
                               uint32_t events = kSlots) {
    for (uint32_t i = 0; i < events; ++i) event.ring->Commit();
    event.ring->RingDoorbell();
    std::vector<Completion> ends;
    for (uint32_t i = 0; i < events; ++i) {
      ends.push_back(device_->Wait(*event.ring));
    }
    return ends;
  }
  // Of the kernel that sees the quarter of slot `slot`.
  std::function<bool(const KernelCall&)> OnSlot(uint32_t slot) {
    return [y = device_->y + slot * kQuarter](const KernelCall& call) {
      return call.param<float*>(1) == y;
    };
  }

  const std::string name_;
  LaunchPath* path_ = nullptr;
};

class UserFixedTest : public UserEdgeTest,
                      public ::testing::WithParamInterface<std::string> {
 protected:
  UserFixedTest() : UserEdgeTest(GetParam()) {}
};

INSTANTIATE_TEST_SUITE_P(All, UserFixedTest,
                         ::testing::Values("edge", "stream_wait"),
                         [](const auto& info) { return info.param; });

TEST_P(UserFixedTest, EveryEventComputesWithItsSlotsArguments) {
  Open();
  auto event = AddSaxpy(MustLoad(Saxpy()));
  constexpr int kLaps = 40;  // beyond what one dispatcher may launch
  for (int lap = 1; lap <= kLaps; ++lap) {
    for (const Completion& end : Ring(event)) {
      ASSERT_EQ(end.state, EventState::kDone) << end.status;
    }
    for (uint32_t i = 0; i < kFloats; ++i) {
      ASSERT_EQ(device_->y[i], 1 + 2 * lap * static_cast<float>(i));
    }
  }
  path_->Remove(event.kernel);
  EXPECT_EQ(event.kernel->counts().done, uint64_t{kLaps} * kSlots);
  EXPECT_EQ(fake_.launches("saxpy"), uint64_t{kLaps} * kSlots)
      << "what waits for a ring is let go without one";
}

TEST_P(UserFixedTest, ARefusedEntryRunsNothing) {
  Open();
  auto event = AddSaxpy(MustLoad(Saxpy()));
  ASSERT_EQ(Ring(event, 1)[0].state, EventState::kDone);
  const shm::RingLayout& layout = event.ring->layout();
  auto* header =
      reinterpret_cast<shm::EsqEntryHeader*>(device_->memory->submission().At(
          layout.esq_offset + event.ring->next_slot() * layout.entry_bytes));
  event.ring->Commit();
  header->generation += 1;
  event.ring->RingDoorbell();
  const Completion refused = device_->Wait(*event.ring);
  EXPECT_EQ(refused.state, EventState::kFailed);
  EXPECT_EQ(refused.status,
            static_cast<uint32_t>(EventStatus::kStaleGeneration));
  EXPECT_EQ(Ring(event, 1)[0].state, EventState::kDone);
  path_->Remove(event.kernel);
  EXPECT_EQ(fake_.launches("saxpy"), 2u);
  EXPECT_EQ(event.kernel->counts().refused, 1u);
}

TEST_P(UserFixedTest, AFaultFailsItsOwnEventAndTheModuleIsLoadedAgain) {
  Open();
  auto event = AddSaxpy(MustLoad(Saxpy()));
  fake_.FaultOn("saxpy", OnSlot(2));
  const uint32_t slot_of_first = event.ring->next_slot();
  for (int lap = 0; lap < 2; ++lap) {
    const auto ends = Ring(event);
    for (uint32_t i = 0; i < kSlots; ++i) {
      const bool bad = (slot_of_first + i) % kSlots == 2;
      EXPECT_EQ(ends[i].state, bad ? EventState::kFailed : EventState::kDone);
      if (!bad) continue;
      EXPECT_EQ(ends[i].status,
                static_cast<uint32_t>(EventStatus::kKernelFault));
    }
  }
  EXPECT_THAT(backend_->description(), HasSubstr("context lost"));
  path_->Remove(event.kernel);
}

TEST_P(UserFixedTest, OneThatDoesNotEndIsStopped) {
  Open();
  auto event = AddSaxpy(MustLoad(Saxpy()));
  fake_.HangOn("saxpy", OnSlot(event.ring->next_slot()));
  const auto ends = Ring(event, 2);
  EXPECT_EQ(ends[0].status, static_cast<uint32_t>(EventStatus::kTimedOut));
  EXPECT_EQ(ends[1].state, EventState::kDone);
  path_->Remove(event.kernel);
}

// The dispatchers keep their room beside it, and one of them traps.
TEST_F(UserEdgeTest, OneThatFillsTheGpuAndDoesNotEndIsStopped) {
  fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 2; });
  Open();
  auto event = AddSaxpy(MustLoad(Saxpy()), {64, 1, 1}, {64, 1, 1});
  fake_.HangOn("saxpy", FakeGpu::Nth(1));
  EXPECT_EQ(Ring(event, 1)[0].status,
            static_cast<uint32_t>(EventStatus::kTimedOut));
  EXPECT_EQ(Ring(event, 1)[0].state, EventState::kDone);
  path_->Remove(event.kernel);
}

TEST_P(UserFixedTest, ModulesAreLoadedWhileEverythingIsResident) {
  Open();
  auto event = AddSaxpy(MustLoad(Saxpy()));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Ring(event, 1)[0].state, EventState::kDone);
    auto later = AddSaxpy(MustLoad(Saxpy("later" + std::to_string(i))));
    EXPECT_EQ(Ring(later, 1)[0].state, EventState::kDone);
    EXPECT_EQ(Ring(event, 1)[0].state, EventState::kDone);
    path_->Remove(later.kernel);
  }
  path_->Remove(event.kernel);
}

TEST_F(UserKernelsTest, PathsSayWhyTheyDoNotTakeOne) {
  Open();
  const simt::KernelInfo* kernel = MustLoad(Saxpy());
  auto event =
      device_->Register({.kernel = kernel,
                         .bindings = {Buffer(SaxpyDevice::Range(device_->x)),
                                      Buffer(SaxpyDevice::Range(device_->y)),
                                      Writable(), Constant(kFloats)},
                         .block = {kFloats, 1, 1}});
  const struct {
    std::string path;
    std::string why;
  } cases[] = {
      {"edge",
       "parameter 'a' of kernel 'saxpy' of user.ptx is to be written "
       "with every event"},
      {"stream_wait",
       "launch path stream_wait takes constants and fixed buffers for it"},
      {"pagoda_ring", "launch path pagoda_ring runs kernels as functions"},
      {"pagoda", "launch path pagoda runs kernels as functions"},
      {"persistent",
       "and CUDA calls no kernel, and no function of another "
       "module; use launch path edge or stream_wait, if no parameter is "
       "written with the event, or graph"},
  };
  for (const auto& [path, why] : cases) {
    const auto status = backend_->paths().Find(path)->path->Add(event.kernel);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
}

// And another path serves.
TEST_F(UserKernelsTest, AGpuThatLaunchesNoGraphsSaysSo) {
  fake_.ChangeSettings([](FakeSettings& s) { s.device_graphs = false; });
  Open();
  auto event =
      device_->Register({.kernel = MustLoad(Saxpy()),
                         .bindings = {Buffer(SaxpyDevice::Range(device_->x)),
                                      Buffer(SaxpyDevice::Range(device_->y)),
                                      Constant(0), Constant(kFloats)},
                         .block = {kFloats, 1, 1}});
  const auto status =
      backend_->paths().Find("stream_wait")->path->Add(event.kernel);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("this GPU launches no graphs (instantiate"),
                    HasSubstr("use launch path graph, baseline")));
  const auto served = backend_->paths().Serve("", [&](const StartedPath& path) {
    return path.path->Add(event.kernel);
  });
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ(served->name, "graph");
  served->path->Remove(event.kernel);
  backend_->Cancel(LaunchFilter::Of(*event.kernel), EventStatus::kUnregistered);
}

// The kernel was launched, and then the driver refused what would have told its
// end.
std::atomic<CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned,
                         unsigned, unsigned, unsigned, CUstream, void**,
                         void**)>
    real_launch;
std::atomic<int> launches_to_refuse{0};  // the second of them
CUresult LaunchButForTheSecond(CUfunction function, unsigned gx, unsigned gy,
                               unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, CUstream stream,
                               void** params, void** extra) {
  if (launches_to_refuse.load() > 0 && launches_to_refuse.fetch_sub(1) == 1) {
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  return real_launch.load()(function, gx, gy, gz, bx, by, bz, shared, stream,
                            params, extra);
}

TEST_F(UserKernelsTest, AKernelThatNothingFollowsRunsAgainInANewContext) {
  Driver driver = fake_.driver();
  real_launch = driver.cuLaunchKernel;
  driver.cuLaunchKernel = &LaunchButForTheSecond;
  OpenOn(driver);
  const auto path = backend_->paths().Find("baseline_flag");
  ASSERT_TRUE(path.ok());
  auto event =
      device_->Register({.kernel = MustLoad(Saxpy()),
                         .bindings = {Buffer(SaxpyDevice::Range(device_->x)),
                                      Buffer(SaxpyDevice::Range(device_->y)),
                                      Constant(0), Constant(kFloats)},
                         .block = {kFloats, 1, 1}});
  ASSERT_TRUE(path->path->Add(event.kernel).ok());
  launches_to_refuse = 2;
  event.ring->Commit();
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_THAT(backend_->description(), HasSubstr("context lost 1 time"));
  path->path->Remove(event.kernel);
  backend_->Cancel(LaunchFilter::Of(*event.kernel), EventStatus::kUnregistered);
}

// Background kernels.

class UserBackgroundTest : public UserKernelsTest {
 protected:
  // y += a * x, to its end.
  LaunchResult Run(const simt::KernelInfo* kernel, float a,
                   simt::Dim3 grid = {1, 1, 1}) {
    const auto plan = ArgumentPlan::Make(
        *kernel, {Buffer(SaxpyDevice::Range(device_->x)),
                  Buffer(SaxpyDevice::Range(device_->y)),
                  Constant(std::bit_cast<uint32_t>(a)), Constant(kFloats)});
    EXPECT_TRUE(plan.ok()) << plan.status();
    auto launch = std::make_unique<KernelLaunch>();
    launch->kmd = {.kernel = kernel, .grid = grid, .block = {kFloats, 1, 1}};
    launch->args = std::make_unique<std::byte[]>(kernel->args_size);
    plan->Build(0, nullptr, launch->args.get());
    launch->memory = device_->memory;
    launch->from_host = true;
    auto promise = std::make_shared<std::promise<LaunchResult>>();
    launch->on_end = [promise](const LaunchResult& result) {
      promise->set_value(result);
    };
    auto result = promise->get_future();
    backend_->Submit(std::move(launch));
    return result.get();
  }
};

TEST_F(UserBackgroundTest, RunAndAgainAfterAFault) {
  Open();
  const simt::KernelInfo* kernel = MustLoad(Saxpy());
  fake_.FaultOn("saxpy", FakeGpu::Nth(1));  // once
  // One after the other: they add to the same memory.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Run(kernel, 2).state, EventState::kDone);
  }
  for (uint32_t i = 0; i < kFloats; ++i) {
    EXPECT_EQ(device_->y[i], 1 + 6.0f * static_cast<float>(i));
  }
}

TEST_F(UserBackgroundTest, OneWhoseSliceDoesNotEndRunsWholeFromThenOn) {
  fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 2; });
  Open();
  ASSERT_TRUE(backend_->SetPolicy("gpes").ok());
  const simt::KernelInfo* kernel = MustLoad(Saxpy());
  fake_.HangOn("carillon_slice_saxpy", FakeGpu::Nth(1));
  EXPECT_EQ(Run(kernel, 0, {1000, 1, 1}).state, EventState::kDone);
  EXPECT_EQ(fake_.launches("saxpy"), 1u);
  EXPECT_EQ(Run(kernel, 3, {1000, 1, 1}).state, EventState::kDone);
  EXPECT_EQ(fake_.launches("saxpy"), 2u);
  for (uint32_t i = 0; i < kFloats; ++i) {
    EXPECT_EQ(device_->y[i], 1 + 3.0f * static_cast<float>(i));
  }
  ASSERT_EQ(backend_->figures().slices.whole.size(), 1u);
  EXPECT_EQ(backend_->figures().slices.whole[0].name, "waits");
}

}  // namespace
}  // namespace carillon::gpud::cuda
