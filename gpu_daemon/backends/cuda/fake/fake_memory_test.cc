// Memory, modules and green contexts of the fake GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "gpu_daemon/backends/cuda/edge/cuda_module.h"
#include "gpu_daemon/backends/cuda/fake/fake_gpu_fixture.h"
#include "kernels/all_kernels.h"
#include "kernels/registry.h"

namespace carillon::gpud::cuda {
namespace {

using ::testing::HasSubstr;

// --- Memory.

TEST_F(FakeGpuTest, DeviceMemoryIsLimited) {
  gpu_.ChangeSettings([](FakeSettings& s) { s.memory_bytes = 10000; });
  {
    const DeviceBytes some = *DeviceBytes::Make(driver_, 8000);
    const absl::StatusOr<DeviceBytes> more = DeviceBytes::Make(driver_, 4000);
    EXPECT_EQ(more.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(more.status().message()),
                HasSubstr("allocate 4000 bytes of GPU memory"));
    size_t free_bytes = 0;
    size_t total = 0;
    EXPECT_EQ(driver_.cuMemGetInfo(&free_bytes, &total), CUDA_SUCCESS);
    EXPECT_EQ(free_bytes, 2000u);
    EXPECT_EQ(total, 10000u);
  }
  EXPECT_TRUE(DeviceBytes::Make(driver_, 9000).ok());
}

TEST_F(FakeGpuTest, HostMemoryIsRegisteredOnceAndUsedWhileItIs) {
  constexpr size_t kSize = 8 << 12;
  auto* memory =
      static_cast<std::byte*>(mmap(nullptr, kSize, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  const CUfunction null_event = FunctionOf("carillon_null_event");
  EXPECT_NE(null_event, nullptr);
  CUdeviceptr address = 0;
  EXPECT_EQ(driver_.cuMemHostGetDevicePointer(&address, memory, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(driver_.cuMemHostUnregister(memory),
            CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  {
    const absl::StatusOr<HostRegistration> first =
        HostRegistration::Make(driver_, {memory, kSize / 2});
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ(driver_.cuMemHostGetDevicePointer(&address, memory + 100, 0),
              CUDA_SUCCESS);
    EXPECT_EQ(address, reinterpret_cast<CUdeviceptr>(memory + 100));
    EXPECT_EQ(HostRegistration::Make(driver_, {memory + kSize / 4, kSize / 2})
                  .status()
                  .code(),
              absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(gpu_.live_objects().registrations, 1u);
  }
  EXPECT_EQ(gpu_.live_objects().registrations, 0u);
  ASSERT_EQ(munmap(memory + kSize / 2, kSize / 2), 0);
  EXPECT_EQ(HostRegistration::Make(driver_, {memory, kSize}).status().code(),
            absl::StatusCode::kInvalidArgument);
  gpu_.ChangeSettings([](FakeSettings& s) { s.host_pointers = false; });
  EXPECT_EQ(
      HostRegistration::Make(driver_, {memory, kSize / 2}).status().code(),
      absl::StatusCode::kUnimplemented);
  EXPECT_EQ(gpu_.live_objects().registrations, 0u);
  munmap(memory, kSize / 2);
}

TEST_F(FakeGpuTest, AFaultLeavesHostMemoryRegisteredForNobody) {
  constexpr size_t kSize = 4096;
  void* memory = mmap(nullptr, kSize, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(driver_.cuMemHostRegister(memory, kSize, 0), CUDA_SUCCESS);
  gpu_.ChangeSettings([](FakeSettings& s) { s.faults_stay = false; });
  gpu_.FaultOn("carillon_trap", FakeGpu::Nth(1));
  gpu_.DefineKernel("carillon_trap", {},
                    [](KernelCall&) { return CUDA_SUCCESS; });
  ASSERT_EQ(driver_.cuLaunchKernel(FunctionOf("carillon_trap"), 1, 1, 1, 1, 1,
                                   1, 0, nullptr, nullptr, nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuStreamSynchronize(nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
  Rebuild();
  CUdeviceptr address = 0;
  EXPECT_EQ(driver_.cuMemHostGetDevicePointer(&address, memory, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(driver_.cuMemHostRegister(memory, kSize, 0),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  {
    const auto again = HostRegistration::Make(
        driver_, {static_cast<std::byte*>(memory), kSize});
    EXPECT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(driver_.cuMemHostGetDevicePointer(&address, memory, 0),
              CUDA_SUCCESS);
  }
  EXPECT_EQ(gpu_.live_objects().registrations, 0u);
  EXPECT_EQ(driver_.cuMemHostRegister(memory, kSize, 0), CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuMemHostUnregister(memory), CUDA_SUCCESS);
  EXPECT_EQ(gpu_.stale_uses(), 0u);
  munmap(memory, kSize);
}

TEST_F(FakeGpuTest, MappedMemoryOutlivesTheContext) {
  constexpr size_t kSize = 2 << 20;
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp where = {};
  CUmemAccessDesc access = {};
  ASSERT_EQ(driver_.cuMemAddressReserve(&address, kSize, 0, 0, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuMemCreate(&handle, kSize, &where, 0), CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuMemMap(address, 2 * kSize, 0, handle, 0),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(driver_.cuMemMap(address, kSize, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuMemSetAccess(address, kSize, &access, 1), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuMemsetD32(address, 77, 4), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  Rebuild();
  ASSERT_EQ(driver_.cuMemUnmap(address, kSize), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuMemMap(address, kSize, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuMemSetAccess(address, kSize, &access, 1), CUDA_SUCCESS);
  uint32_t word = 0;
  ASSERT_EQ(driver_.cuMemcpyDtoH(&word, address, sizeof(word)), CUDA_SUCCESS);
  EXPECT_EQ(word, 77u);
  EXPECT_EQ(gpu_.live_objects().mappings, 2u);
  EXPECT_EQ(driver_.cuMemAddressFree(address, kSize), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(driver_.cuMemUnmap(address, kSize), CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuMemAddressFree(address, kSize), CUDA_SUCCESS);
  EXPECT_EQ(gpu_.live_objects().mappings, 0u);
  EXPECT_EQ(gpu_.memory_used(), 0u);
}

TEST_F(FakeGpuTest, ABufferThatIsNotRegisteredIsAFault) {
  const DeviceBytes memory = *DeviceBytes::Make(driver_, 4096);
  std::vector<float> host(4);
  kernels::VectorAddArgs args = {
      {host.data(), 4}, {memory.as<float>(), 4}, {memory.as<float>(64), 4}};
  auto* fail_status = memory.as<uint32_t>(1024);
  void* params[] = {&args, &fail_status};
  ASSERT_EQ(driver_.cuLaunchKernel(FunctionOf("carillon_vector_add"), 1, 1, 1,
                                   4, 1, 1, 0, nullptr, params, nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(FakeGpuTest, ACopyFromPageableMemoryIsLateForOtherStreams) {
  const DeviceBytes memory = *DeviceBytes::Make(driver_, sizeof(uint64_t));
  const Stream stream = NewStream();
  uint64_t seen = 0;  // by the kernel, for which each copy is waited for
  const CUfunction look = Define("look", [&](KernelCall&, uint64_t address) {
    seen = *reinterpret_cast<const uint64_t*>(address);
    return CUDA_SUCCESS;
  });
  const auto see = [&] {
    EXPECT_EQ(LaunchIn(stream.get(), look, memory.address()), CUDA_SUCCESS);
    EXPECT_EQ(driver_.cuStreamSynchronize(stream.get()), CUDA_SUCCESS);
    return seen;
  };
  uint64_t word = 0;
  const auto copy = [&] {
    ++word;
    EXPECT_EQ(driver_.cuMemcpyHtoD(memory.address(), &word, sizeof(word)),
              CUDA_SUCCESS);
  };
  EXPECT_TRUE(Eventually([&] {
    copy();
    const bool late = see() != word;
    // What became of the variable meanwhile is nothing to the copy.
    const uint64_t copied = std::exchange(word, ~uint64_t{0});
    EXPECT_EQ(driver_.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
    word = copied;
    EXPECT_EQ(see(), word);
    return late;
  }));
  for (int i = 0; i < 10; ++i) {
    copy();
    EXPECT_EQ(driver_.cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(see(), word);
    const PinnedBytes pinned = *PinnedBytes::Make(driver_, sizeof(uint64_t));
    *pinned.as<uint64_t>() = 7;
    EXPECT_EQ(driver_.cuMemcpyHtoD(memory.address(), pinned.data(), 8),
              CUDA_SUCCESS);
    EXPECT_EQ(see(), 7u);
  }
}

// --- Modules.

constexpr char kPtx[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 counter[16];
.visible .entry scale(
	.param .align 8 .b8 scale_param_0[24],
	.param .u32 scale_param_1,
	.param .u64 .ptr .global .align 4 scale_param_2
)
.maxntid 128
{ ret; }
.visible .entry nothing()
{ ret; }
)";

std::span<const std::byte> Text(const char* text) {
  return std::as_bytes(std::span(text, std::strlen(text) + 1));
}

TEST_F(FakeGpuTest, APtxFileHasTheKernelsThatItNames) {
  const absl::StatusOr<Module> module = LoadModule(driver_, Text(kPtx));
  ASSERT_TRUE(module.ok()) << module.status();
  const absl::StatusOr<CUfunction> scale =
      FindFunction(driver_, module->get(), "scale");
  ASSERT_TRUE(scale.ok()) << scale.status();
  const std::pair<size_t, size_t> params[] = {{0, 24}, {24, 4}, {32, 8}};
  size_t offset = 0;
  size_t size = 0;
  for (size_t i = 0; i < std::size(params); ++i) {
    ASSERT_EQ(driver_.cuFuncGetParamInfo(*scale, i, &offset, &size),
              CUDA_SUCCESS);
    EXPECT_EQ(std::pair(offset, size), params[i]) << i;
  }
  EXPECT_EQ(driver_.cuFuncGetParamInfo(*scale, 3, &offset, &size),
            CUDA_ERROR_INVALID_VALUE);
  const absl::StatusOr<CUfunction> nothing =
      FindFunction(driver_, module->get(), "nothing");
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(driver_.cuFuncGetParamInfo(*nothing, 0, &offset, &size),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(
      FindFunction(driver_, module->get(), "carillon_echo").status().code(),
      absl::StatusCode::kNotFound);
  // It has no CPU form.
  EXPECT_EQ(driver_.cuLaunchKernel(*nothing, 1, 1, 1, 1, 1, 1, 0, nullptr,
                                   nullptr, nullptr),
            CUDA_ERROR_NOT_SUPPORTED);
  CUdeviceptr counter = 0;
  EXPECT_EQ(
      driver_.cuModuleGetGlobal(&counter, &size, module->get(), "counter"),
      CUDA_SUCCESS);
  EXPECT_EQ(size, 64u);
}

TEST_F(FakeGpuTest, ABadImageIsRefusedWithItsReason) {
  const auto load = [&](const std::string& text) {
    return LoadModule(driver_, Text(text.c_str())).status();
  };
  CUmodule module = nullptr;
  EXPECT_EQ(driver_.cuModuleLoadData(&module, "garbage"),
            CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(load("garbage").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(load("// no version\n").ToString(),
              HasSubstr("Missing .version directive"));
  EXPECT_THAT(load(".version 99.0\n.target sm_80\n").ToString(),
              HasSubstr("UNSUPPORTED_PTX_VERSION"));
  EXPECT_THAT(load(".version 8.0\n.target sm_120\n").ToString(),
              HasSubstr("NO_BINARY_FOR_GPU"));
  EXPECT_THAT(load(".version 8.0\n.target sm_80\n.visible .entry x(.param {")
                  .ToString(),
              HasSubstr("INVALID_PTX"));
  EXPECT_EQ(gpu_.live_objects().modules, 0u);
}

TEST_F(FakeGpuTest, OurFatbinHasEveryKernelForEveryGpu) {
  absl::StatusOr<Module> module = LoadModule(driver_, CudaModule());
  ASSERT_TRUE(module.ok()) << module.status();
  for (const simt::KernelInfo* kernel : simt::AllKernels()) {
    const std::string name = "carillon_" + std::string(kernel->name);
    EXPECT_TRUE(FindFunction(driver_, module->get(), name.c_str()).ok())
        << name;
  }
  const absl::StatusOr<CUfunction> add =
      FindFunction(driver_, module->get(), "carillon_vector_add");
  ASSERT_TRUE(add.ok()) << add.status();
  size_t offset = 0;
  size_t size = 0;
  ASSERT_EQ(driver_.cuFuncGetParamInfo(*add, 0, &offset, &size), CUDA_SUCCESS);
  EXPECT_EQ(size, sizeof(kernels::VectorAddArgs));
  EXPECT_EQ(FindFunction(driver_, module->get(), "carillon_no_such_kernel")
                .status()
                .code(),
            absl::StatusCode::kNotFound);
  // Machine code for 8.x and 9.x, PTX for what is newer, nothing for older.
  const std::pair<int, CUresult> majors[] = {
      {7, CUDA_ERROR_NO_BINARY_FOR_GPU}, {8, CUDA_SUCCESS}, {12, CUDA_SUCCESS}};
  for (const auto& [major, result] : majors) {
    gpu_.ChangeSettings(
        [major = major](FakeSettings& s) { s.compute_major = major; });
    CUmodule loaded = nullptr;
    EXPECT_EQ(driver_.cuModuleLoadData(&loaded, CudaModule().data()), result)
        << major;
  }
}

// --- Green contexts.

TEST_F(FakeGpuTest, GreenContextsShareTheSms) {
  CUdevResource all = {};
  ASSERT_EQ(driver_.cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM),
            CUDA_SUCCESS);
  EXPECT_EQ(all.sm.smCount, 132u);
  CUdevResource group = {};
  CUdevResource rest = {};
  unsigned groups = 1;
  ASSERT_EQ(
      driver_.cuDevSmResourceSplitByCount(&group, &groups, &all, &rest, 0, 9),
      CUDA_SUCCESS);
  EXPECT_EQ(group.sm.smCount, 16u);
  EXPECT_EQ(rest.sm.smCount, 116u);
  ASSERT_EQ(driver_.cuDevSmResourceSplitByCount(nullptr, &groups, &all, nullptr,
                                                0, 1),
            CUDA_SUCCESS);
  EXPECT_EQ(groups, 16u);
  EXPECT_EQ(
      driver_.cuDevSmResourceSplitByCount(&group, &groups, &all, &rest, 0, 133),
      CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);

  CUdevResourceDesc desc = nullptr;
  ASSERT_EQ(driver_.cuDevResourceGenerateDesc(&desc, &group, 1), CUDA_SUCCESS);
  CUgreenCtx handle = nullptr;
  ASSERT_EQ(
      driver_.cuGreenCtxCreate(&handle, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM),
      CUDA_SUCCESS);
  const GreenContext green(&driver_, handle);
  CUstream stream = nullptr;
  ASSERT_EQ(driver_.cuGreenCtxStreamCreate(&stream, green.get(),
                                           CU_STREAM_NON_BLOCKING, 0),
            CUDA_SUCCESS);
  const Stream owner(&driver_, stream);
  std::atomic<uint64_t> ran = 0;
  const CUfunction note = Define("note", [&](KernelCall&, uint64_t) {
    ran.fetch_add(1);
    return CUDA_SUCCESS;
  });
  ASSERT_EQ(LaunchIn(stream, note, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(ran.load(), 1u);

  gpu_.ChangeSettings([](FakeSettings& s) { s.green_contexts = false; });
  EXPECT_EQ(driver_.cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM),
            CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(FakeGpuTest, AGraphsNodeBelongsToTheContextThatItWasMadeIn) {
  const CUfunction note = Define(
      "carillon_test_note", [](KernelCall&, uint64_t) { return CUDA_SUCCESS; });
  CUdevResource all = {};
  CUdevResource some = {};
  CUdevResource rest = {};
  unsigned groups = 1;
  CUdevResourceDesc desc = nullptr;
  CUgreenCtx handle = nullptr;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  driver_.cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM);
  driver_.cuDevSmResourceSplitByCount(&some, &groups, &all, &rest, 0, 8);
  driver_.cuDevResourceGenerateDesc(&desc, &some, 1);
  driver_.cuGreenCtxCreate(&handle, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM);
  const GreenContext green(&driver_, handle);
  driver_.cuCtxFromGreenCtx(&context, handle);
  ASSERT_EQ(driver_.cuGreenCtxStreamCreate(&stream, handle,
                                           CU_STREAM_NON_BLOCKING, 0),
            CUDA_SUCCESS);
  const Stream of_green(&driver_, stream);
  const auto sms_of = [&](const Graph& graph) {
    gpu_.ForgetLaunches();
    const GraphExec exec = *Instantiate(driver_, graph.get(), 0);
    EXPECT_EQ(driver_.cuGraphLaunch(exec.get(), stream), CUDA_SUCCESS);
    EXPECT_EQ(driver_.cuStreamSynchronize(stream), CUDA_SUCCESS);
    return gpu_.places().at("carillon_test_note").sms;
  };
  uint64_t param = 0;
  void* params[] = {&param};
  CUDA_KERNEL_NODE_PARAMS node = {};
  node.func = note;
  node.gridDimX = node.gridDimY = node.gridDimZ = 1;
  node.blockDimX = node.blockDimY = node.blockDimZ = 1;
  node.kernelParams = params;
  CUgraphNode made = nullptr;
  const auto make_in = [&](CUcontext current) {
    Graph graph = *MakeGraph(driver_);
    driver_.cuCtxSetCurrent(current);
    EXPECT_EQ(
        driver_.cuGraphAddKernelNode(&made, graph.get(), nullptr, 0, &node),
        CUDA_SUCCESS);
    driver_.cuCtxSetCurrent(context_);
    return graph;
  };
  EXPECT_EQ(sms_of(make_in(context_)), std::set<uint32_t>{FakeSettings().sms});
  EXPECT_EQ(sms_of(make_in(context)), std::set<uint32_t>{8});

  ASSERT_EQ(
      driver_.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
      CUDA_SUCCESS);
  ASSERT_EQ(LaunchIn(stream, note, 0), CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuStreamQuery(stream),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph graph = nullptr;
  ASSERT_EQ(driver_.cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  const Graph captured(&driver_, graph);
  EXPECT_EQ(gpu_.launches("carillon_test_note"), 1u) << "it was not launched";
  EXPECT_EQ(sms_of(captured), std::set<uint32_t>{8});

  // And stays there.
  size_t count = 1;
  ASSERT_EQ(driver_.cuGraphGetRootNodes(graph, &made, &count), CUDA_SUCCESS);
  const GraphExec exec = *Instantiate(driver_, graph, 0);
  EXPECT_EQ(driver_.cuGraphExecKernelNodeSetParams(exec.get(), made, &node),
            CUDA_ERROR_INVALID_VALUE);
  driver_.cuCtxSetCurrent(context);
  EXPECT_EQ(driver_.cuGraphExecKernelNodeSetParams(exec.get(), made, &node),
            CUDA_SUCCESS);
  driver_.cuCtxSetCurrent(context_);
}

TEST_F(FakeGpuTest, AGpuKeepsThePagesThatItWasGiven) {
  alignas(4096) static uint32_t page[1024] = {};
  page[0] = 1;
  ASSERT_EQ(driver_.cuMemHostRegister(page, sizeof(page), 0), CUDA_SUCCESS);
  gpu_.FreePages(page, sizeof(page));
  const auto address = reinterpret_cast<CUdeviceptr>(page);
  page[0] = 2;
  {
    const Stream stream = NewStream();
    ASSERT_EQ(driver_.cuStreamWaitValue32(stream.get(), address, 2,
                                          CU_STREAM_WAIT_VALUE_GEQ),
              CUDA_SUCCESS);
    EXPECT_EQ(driver_.cuStreamQuery(stream.get()), CUDA_ERROR_NOT_READY);
    ASSERT_EQ(driver_.cuStreamWriteValue32(nullptr, address, 3, 0),
              CUDA_SUCCESS);
    EXPECT_EQ(driver_.cuStreamSynchronize(stream.get()), CUDA_SUCCESS);
    EXPECT_EQ(page[0], 2u) << "the GPU has written to its own";
  }
  // Registered again, the pages are the same ones.
  ASSERT_EQ(driver_.cuMemHostUnregister(page), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuMemHostRegister(page, sizeof(page), 0), CUDA_SUCCESS);
  const Stream stream = NewStream();
  ASSERT_EQ(driver_.cuStreamWaitValue32(stream.get(), address, 2,
                                        CU_STREAM_WAIT_VALUE_EQ),
            CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuStreamSynchronize(stream.get()), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuMemHostUnregister(page), CUDA_SUCCESS);
}

}  // namespace
}  // namespace carillon::gpud::cuda
