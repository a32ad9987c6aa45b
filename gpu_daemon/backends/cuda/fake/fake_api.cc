// The functions of the driver, under their own names: what a table points to,
// and what libcuda.so.1 exports.
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "gpu_daemon/backends/cuda/fake/fake_state.h"

namespace carillon::gpud::cuda {
namespace {

using State = FakeGpu::State;

// "cuMemAlloc_v2" is asked for as "cuMemAlloc".
std::string PlainName(std::string_view name) {
  const size_t version = name.rfind("_v");
  return std::string(name.substr(0, version));
}

// Runs `body(state, lock)` for a call of `name`. Always: also before cuInit.
template <bool kAlways = false, class Body>
CUresult Call(const char* name, Body body) {
  State* state = CurrentFake();
  if (state == nullptr) return CUDA_ERROR_DEINITIALIZED;
  Lock lock(state->mutex);
  const auto failure = state->failures.find(PlainName(name));
  if (failure != state->failures.end() && failure->second.count > 0) {
    --failure->second.count;
    return failure->second.result;
  }
  if (!kAlways && !state->initialised) return CUDA_ERROR_NOT_INITIALIZED;
  return body(*state, lock);
}

// The same in the thread's context: `body(state, lock, root)`.
template <class Body>
CUresult InContext(const char* name, Body body) {
  return Call(name, [&](State& state, Lock& lock) -> CUresult {
    if (current_context == 0) return CUDA_ERROR_INVALID_CONTEXT;
    const auto context = state.contexts.find(current_context);
    if (context == state.contexts.end()) {
      ++state.stale_uses;
      return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    const RootPtr root = context->second.root;
    if (root->fault != CUDA_SUCCESS) return root->fault;
    return body(state, lock, root);
  });
}

template <class Handle>
uint64_t Number(Handle handle) {
  return reinterpret_cast<uint64_t>(handle);
}
template <class Handle>
Handle As(uint64_t number) {
  return reinterpret_cast<Handle>(number);
}

// The object of a handle; nullptr, and counted, when there is none.
template <class Table, class Handle>
auto Find(State& state, Table& table, Handle handle) {
  const auto found = table.find(Number(handle));
  if (found != table.end()) return found->second;
  ++state.stale_uses;
  return decltype(found->second){};
}

template <class Table, class Handle>
CUresult Erase(State& state, Table& table, Handle handle) {
  if (table.erase(Number(handle)) != 0) return CUDA_SUCCESS;
  ++state.stale_uses;
  return CUDA_ERROR_INVALID_HANDLE;
}

// Of this context; 0 is its default stream.
StreamPtr FindStream(State& state, const RootPtr& root, CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) {
    return root->default_stream;
  }
  const StreamPtr stream = Find(state, state.streams, handle);
  return stream != nullptr && stream->root == root ? stream : nullptr;
}

bool IsDevice(const State& state, CUdevice device) {
  return device >= 0 && device < state.settings.devices;
}

// Puts work into a stream.
CUresult Enqueue(State& state, const RootPtr& root, CUstream handle,
                 std::function<void()> work) {
  const StreamPtr stream = FindStream(state, root, handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  state.Push(*stream, std::move(work));
  return CUDA_SUCCESS;
}

// The same in the default stream, and waits for it.
CUresult DoNow(State& state, Lock& lock, const RootPtr& root,
               std::function<void()> work) {
  const StreamPtr stream = root->default_stream;
  state.Push(*stream, std::move(work));
  return state.WaitIdle(lock, *stream);
}

bool AllReachable(const State& state, const RootPtr& root, CUdeviceptr address,
                  uint64_t size) {
  return size == 0 || state.FindRange(*root, address, size) != nullptr;
}

bool IsPinned(const State& state, const RootPtr& root, const void* address,
              uint64_t size) {
  return AllReachable(state, root, Number(address), size);
}

// A copy within the GPU's reach: at least one side is `device`.
CUresult CopyNow(const char* name, CUdeviceptr device, void* to,
                 const void* from, size_t size) {
  return InContext(name, [&](State& state, Lock& lock, const RootPtr& root) {
    if (!AllReachable(state, root, device, size)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return DoNow(state, lock, root, [=] { std::memcpy(to, from, size); });
  });
}

void* Pointer(CUdeviceptr address) { return As<void*>(address); }

template <class Word>
CUresult Memset(const char* name, CUdeviceptr address, Word value, size_t count,
                CUstream stream) {
  return InContext(name, [&](State& state, Lock&, const RootPtr& root) {
    if (address % sizeof(Word) != 0 ||
        !AllReachable(state, root, address, count * sizeof(Word))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return Enqueue(state, root, stream, [=] {
      std::fill_n(static_cast<Word*>(Pointer(address)), count, value);
    });
  });
}

template <class Word>
bool Satisfied(Word now, Word value, unsigned flags) {
  using Signed = std::make_signed_t<Word>;
  switch (flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return static_cast<Signed>(now - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & value) != 0;
    default:
      return static_cast<Word>(~(now | value)) != 0;
  }
}

template <class Word>
CUresult WaitValue(const char* name, CUstream handle, CUdeviceptr address,
                   Word value, unsigned flags) {
  return InContext(name, [&](State& state, Lock&, const RootPtr& root) {
    if (!state.settings.stream_memory_operations) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (address % sizeof(Word) != 0 ||
        !AllReachable(state, root, address, sizeof(Word))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return Enqueue(state, root, handle, [=, root = root.get()] {
      // Writer: whoever it is that the stream waits for. Acquire: what it wrote
      // before is there for the kernels behind this.
      const std::atomic_ref<Word> word(*static_cast<Word*>(Pointer(address)));
      for (uint32_t looks = 0;
           !Satisfied(word.load(std::memory_order_acquire), value, flags) &&
           !root->stopped.load(std::memory_order_relaxed);
           ++looks) {
        // The reference machine has fewer cores than a test has streams.
        if (looks < 64) {
          sched_yield();
        } else {
          std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
      }
    });
  });
}

template <class Word>
CUresult WriteValue(const char* name, CUstream handle, CUdeviceptr address,
                    Word value) {
  return InContext(name, [&](State& state, Lock&, const RootPtr& root) {
    if (!state.settings.stream_memory_operations) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (address % sizeof(Word) != 0 ||
        !AllReachable(state, root, address, sizeof(Word))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return Enqueue(state, root, handle, [=] {
      // Readers: whoever waits for it. Release: all work of the stream before.
      std::atomic_ref<Word>(*static_cast<Word*>(Pointer(address)))
          .store(value, std::memory_order_release);
    });
  });
}

CUresult LaunchInStream(State& state, const RootPtr& root, CUfunction handle,
                        const unsigned* grid, const unsigned* block,
                        unsigned shared_bytes, CUstream stream, void** params,
                        void** extra) {
  const FunctionPtr function = Find(state, state.functions, handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (function->form == Function::Form::kNone) return CUDA_ERROR_NOT_SUPPORTED;
  auto launch = std::make_shared<LaunchSpec>();
  const CUresult result = state.MakeLaunch(function, grid, block, shared_bytes,
                                           params, extra, *launch);
  if (result != CUDA_SUCCESS) return result;
  return Enqueue(state, root, stream, [&state, root = root.get(), launch] {
    state.Run(*root, *launch, nullptr);
  });
}

CUresult MakeNode(State& state, const CUDA_KERNEL_NODE_PARAMS& params,
                  LaunchSpec& launch) {
  const FunctionPtr function = Find(state, state.functions, params.func);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (function->form == Function::Form::kNone) return CUDA_ERROR_NOT_SUPPORTED;
  const std::array grid = {params.gridDimX, params.gridDimY, params.gridDimZ};
  const std::array block = {params.blockDimX, params.blockDimY,
                            params.blockDimZ};
  return state.MakeLaunch(function, grid.data(), block.data(),
                          params.sharedMemBytes, params.kernelParams,
                          params.extra, launch);
}

// A stream does nothing before all that was put into `before` is done.
CUresult Upload(State& state, const RootPtr& root, const ExecPtr& exec,
                CUstream stream) {
  return Enqueue(state, root, stream, [&state, exec] {
    std::lock_guard lock(state.mutex);
    exec->uploaded = true;
  });
}

struct ErrorName {
  CUresult result;
  const char* name;
  const char* sentence;
};
#define CARILLON_ERROR(result, sentence) \
  ErrorName { result, #result, sentence }
constexpr ErrorName kErrors[] = {
    CARILLON_ERROR(CUDA_SUCCESS, "no error"),
    CARILLON_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    CARILLON_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    CARILLON_ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    CARILLON_ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    CARILLON_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    CARILLON_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    CARILLON_ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    CARILLON_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    CARILLON_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU,
                   "no kernel image is available for execution on the device"),
    CARILLON_ERROR(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    CARILLON_ERROR(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                   "the provided PTX was compiled with an unsupported "
                   "toolchain."),
    CARILLON_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    CARILLON_ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    CARILLON_ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    CARILLON_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS,
                   "an illegal memory access was encountered"),
    CARILLON_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                   "too many resources requested for launch"),
    CARILLON_ERROR(CUDA_ERROR_LAUNCH_TIMEOUT,
                   "the launch timed out and was terminated"),
    CARILLON_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    CARILLON_ERROR(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    CARILLON_ERROR(
        CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        "part or all of the requested memory range is already mapped"),
    CARILLON_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
                   "pointer does not correspond to a registered memory region"),
    CARILLON_ERROR(CUDA_ERROR_ILLEGAL_INSTRUCTION,
                   "an illegal instruction was encountered"),
    CARILLON_ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    CARILLON_ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    CARILLON_ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    CARILLON_ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    CARILLON_ERROR(CUDA_ERROR_INVALID_RESOURCE_TYPE, "invalid resource type"),
    CARILLON_ERROR(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
                   "invalid resource configuration"),
    CARILLON_ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef CARILLON_ERROR

const ErrorName* FindError(CUresult result) {
  const auto* found = std::ranges::find(kErrors, result, &ErrorName::result);
  return found == std::end(kErrors) ? nullptr : found;
}

// What the log options of cuModuleLoadDataEx ask for.
void WriteLog(const std::string& log, unsigned count, CUjit_option* options,
              void** values) {
  char* buffer = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) {
      buffer = static_cast<char*>(values[i]);
    }
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      size = Number(values[i]);
    }
  }
  if (buffer == nullptr || size == 0) return;
  const size_t length = std::min(log.size(), size - 1);
  std::memcpy(buffer, log.data(), length);
  buffer[length] = '\0';
}

CUresult LoadImage(const char* name, CUmodule* module, const void* image,
                   std::string& log) {
  return InContext(name, [&](State& state, Lock&, const RootPtr& root) {
    auto loaded = std::make_shared<Module>();
    loaded->root = root;
    const FakeSettings& settings = state.settings;
    const CUresult result =
        ParseImage(image, settings.driver_version,
                   settings.compute_major * 10 + settings.compute_minor,
                   loaded->image, log);
    if (result != CUDA_SUCCESS) return result;
    const uint64_t handle = State::NewHandle();
    state.modules[handle] = std::move(loaded);
    *module = As<CUmodule>(handle);
    return CUDA_SUCCESS;
  });
}

int Attribute(const FakeSettings& settings, CUdevice_attribute attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return settings.compute_major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return settings.compute_minor;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return static_cast<int>(settings.sms);
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 0x7fffffff;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return 2048;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return 227 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return 228 << 10;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return 1'980'000;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
      return 1;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
      return settings.host_pointers ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
      return settings.stream_memory_operations ? 1 : 0;
    default:
      return 0;
  }
}

CUdevResource SmResource(uint32_t sms) {
  CUdevResource resource = {};
  resource.type =
      sms != 0 ? CU_DEV_RESOURCE_TYPE_SM : CU_DEV_RESOURCE_TYPE_INVALID;
  resource.sm.smCount = sms;
#if CUDA_VERSION >= 13000
  resource.sm.minSmPartitionSize = 8;
  resource.sm.smCoscheduledAlignment = 8;
#endif
  return resource;
}

}  // namespace
}  // namespace carillon::gpud::cuda

using namespace carillon::gpud::cuda;  // NOLINT: all below are C functions

extern "C" {

// --- The driver and its devices.

CUresult CUDAAPI cuInit(unsigned flags) {
  return Call<true>(__func__, [&](State& state, Lock&) {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (state.settings.devices == 0) return CUDA_ERROR_NO_DEVICE;
    state.initialised = true;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDriverGetVersion(int* version) {
  return Call<true>(__func__, [&](State& state, Lock&) {
    *version = state.settings.driver_version;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGetErrorName(CUresult result, const char** name) {
  const ErrorName* error = FindError(result);
  *name = error != nullptr ? error->name : nullptr;
  return error != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGetErrorString(CUresult result, const char** sentence) {
  const ErrorName* error = FindError(result);
  *sentence = error != nullptr ? error->sentence : nullptr;
  return error != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuDeviceGetCount(int* count) {
  return Call(__func__, [&](State& state, Lock&) {
    *count = state.settings.devices;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) {
  return Call(__func__, [&](State& state, Lock&) {
    if (!IsDevice(state, ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetName(char* name, int length, CUdevice device) {
  return Call(__func__, [&](State& state, Lock&) {
    if (!IsDevice(state, device)) return CUDA_ERROR_INVALID_DEVICE;
    std::snprintf(name, static_cast<size_t>(length), "Fake GPU %d", device);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                      CUdevice device) {
  return Call(__func__, [&](State& state, Lock&) {
    if (!IsDevice(state, device)) return CUDA_ERROR_INVALID_DEVICE;
    *value = Attribute(state.settings, attribute);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return Call(__func__, [&](State& state, Lock&) {
    if (!IsDevice(state, device)) return CUDA_ERROR_INVALID_DEVICE;
    std::memset(uuid, 0xfa, sizeof(*uuid));
    uuid->bytes[15] = static_cast<char>(device);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  return Call(__func__, [&](State& state, Lock&) {
    if (!IsDevice(state, device)) return CUDA_ERROR_INVALID_DEVICE;
    std::snprintf(id, static_cast<size_t>(length), "0000:%02x:00.0",
                  device + 1);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  return Call(__func__, [&](State& state, Lock&) {
    if (!IsDevice(state, device)) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = state.settings.memory_bytes;
    return CUDA_SUCCESS;
  });
}

// --- Contexts.

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return Call(__func__, [&](State& state, Lock&) {
    if (!IsDevice(state, device)) return CUDA_ERROR_INVALID_DEVICE;
    uint64_t handle = 0;
    const CUresult result = state.Retain(device, handle);
    *context = As<CUcontext>(handle);
    return result;
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) {
  return Call(__func__, [&](State& state, Lock& lock) {
    if (!IsDevice(state, device)) return CUDA_ERROR_INVALID_DEVICE;
    return state.Release(lock, device);
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice device) {
  return Call(__func__, [&](State& state, Lock& lock) {
    if (!IsDevice(state, device)) return CUDA_ERROR_INVALID_DEVICE;
    const RootPtr root = std::exchange(state.primaries[device].root, nullptr);
    if (root != nullptr) state.Destroy(lock, root);
    return CUDA_SUCCESS;
  });
}

// Not in every toolkit's header.
CUresult CUDAAPI cuCtxCreate_v2(CUcontext* context, unsigned, CUdevice device) {
  return Call(__func__, [&](State& state, Lock&) {
    if (!IsDevice(state, device)) return CUDA_ERROR_INVALID_DEVICE;
    current_context = state.AddContext(state.NewRoot(device, false), false);
    *context = As<CUcontext>(current_context);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxDestroy(CUcontext handle) {
  return Call(__func__, [&](State& state, Lock& lock) -> CUresult {
    const Context context = Find(state, state.contexts, handle);
    if (context.root == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (context.root->primary) return CUDA_ERROR_INVALID_CONTEXT;
    state.Destroy(lock, context.root);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext handle) {
  return Call(__func__, [&](State& state, Lock&) {
    if (handle != nullptr &&
        Find(state, state.contexts, handle).root == nullptr) {
      return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    current_context = Number(handle);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext* handle) {
  return Call(__func__, [&](State&, Lock&) {
    *handle = As<CUcontext>(current_context);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxSynchronize() {
  return InContext(__func__,
                   [&](State& state, Lock& lock, const RootPtr& root) {
                     return state.WaitIdle(lock, *root);
                   });
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return InContext(__func__, [&](State&, Lock&, const RootPtr&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return CUDA_SUCCESS;
  });
}

// --- Memory.

CUresult CUDAAPI cuMemGetInfo(size_t* free_bytes, size_t* total) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr&) {
    *total = state.settings.memory_bytes;
    *free_bytes = state.settings.memory_bytes - state.memory_used;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr* address, size_t size) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    uint64_t start = 0;
    const CUresult result =
        state.Allocate(root, size, MemoryRange::Kind::kDevice, start);
    *address = start;
    return result;
  });
}

CUresult CUDAAPI cuMemFree(CUdeviceptr address) {
  return InContext(__func__, [&](State& state, Lock& lock, const RootPtr&) {
    return address == 0 ? CUDA_SUCCESS
                        : state.Free(lock, address, MemoryRange::Kind::kDevice);
  });
}

CUresult CUDAAPI cuMemHostAlloc(void** address, size_t size, unsigned) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    uint64_t start = 0;
    const CUresult result =
        state.Allocate(root, size, MemoryRange::Kind::kPinned, start);
    *address = As<void*>(start);
    return result;
  });
}

CUresult CUDAAPI cuMemFreeHost(void* address) {
  return InContext(__func__, [&](State& state, Lock& lock, const RootPtr&) {
    return state.Free(lock, Number(address), MemoryRange::Kind::kPinned);
  });
}

CUresult CUDAAPI cuMemHostRegister(void* address, size_t size, unsigned) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    if (address == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t start = Number(address);
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t first = start / page * page;
    std::vector<unsigned char> resident((start + size - first + page - 1) /
                                        page);
    // Fails when some of it is not mapped.
    if (mincore(As<void*>(first), start + size - first, resident.data()) != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const auto after = state.memory.lower_bound(start + size);
    if (after != state.memory.begin()) {
      const auto& [other, range] = *std::prev(after);
      if (other + range.size > start) {
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
      }
    }
    state.memory[start] = {size, MemoryRange::Kind::kRegistered, root};
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemHostUnregister(void* address) {
  return InContext(__func__, [&](State& state, Lock& lock, const RootPtr&) {
    return state.Free(lock, Number(address), MemoryRange::Kind::kRegistered);
  });
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr* device, void* host,
                                           unsigned flags) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    const MemoryRange* range = state.FindRange(*root, Number(host), 1);
    if (flags != 0 || range == nullptr ||
        range->kind == MemoryRange::Kind::kDevice) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    // Where the GPU has addresses of its own, none that a CPU could follow.
    *device = state.settings.host_pointers ? Number(host)
                                           : Number(host) | uint64_t{1} << 60;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t size) {
  return CopyNow(__func__, to, Pointer(to), from, size);
}

CUresult CUDAAPI cuMemcpyDtoH(void* to, CUdeviceptr from, size_t size) {
  return CopyNow(__func__, from, to, Pointer(from), size);
}

CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t size) {
  return InContext(
      __func__, [&](State& state, Lock& lock, const RootPtr& root) {
        if (!AllReachable(state, root, to, size) ||
            !AllReachable(state, root, from, size)) {
          return CUDA_ERROR_INVALID_VALUE;
        }
        return DoNow(state, lock, root,
                     [=] { std::memcpy(Pointer(to), Pointer(from), size); });
      });
}

// As a GPU: from memory that is not pinned the bytes are taken at once.
CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void* from,
                                   size_t size, CUstream stream) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    if (!AllReachable(state, root, to, size)) return CUDA_ERROR_INVALID_VALUE;
    if (IsPinned(state, root, from, size)) {
      return Enqueue(state, root, stream,
                     [=] { std::memcpy(Pointer(to), from, size); });
    }
    auto staged = std::make_shared<std::vector<std::byte>>(size);
    std::memcpy(staged->data(), from, size);
    return Enqueue(state, root, stream,
                   [=] { std::memcpy(Pointer(to), staged->data(), size); });
  });
}

// As a GPU: into memory that is not pinned this waits for all before it.
CUresult CUDAAPI cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t size,
                                   CUstream handle) {
  return InContext(
      __func__, [&](State& state, Lock& lock, const RootPtr& root) -> CUresult {
        if (!AllReachable(state, root, from, size))
          return CUDA_ERROR_INVALID_VALUE;
        const StreamPtr stream = FindStream(state, root, handle);
        if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        state.Push(*stream, [=] { std::memcpy(to, Pointer(from), size); });
        if (IsPinned(state, root, to, size)) return CUDA_SUCCESS;
        return state.WaitIdle(lock, *stream);
      });
}

CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from,
                                   size_t size, CUstream stream) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    if (!AllReachable(state, root, to, size) ||
        !AllReachable(state, root, from, size)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return Enqueue(state, root, stream,
                   [=] { std::memcpy(Pointer(to), Pointer(from), size); });
  });
}

CUresult CUDAAPI cuMemsetD8(CUdeviceptr address, unsigned char value,
                            size_t count) {
  return Memset<unsigned char>(__func__, address, value, count, nullptr);
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr address, unsigned char value,
                                 size_t count, CUstream stream) {
  return Memset<unsigned char>(__func__, address, value, count, stream);
}

CUresult CUDAAPI cuMemsetD32(CUdeviceptr address, unsigned value,
                             size_t count) {
  return Memset<unsigned>(__func__, address, value, count, nullptr);
}

CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr address, unsigned value,
                                  size_t count, CUstream stream) {
  return Memset<unsigned>(__func__, address, value, count, stream);
}

// --- Streams and events.

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* stream, unsigned, int) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    const uint64_t handle = State::NewHandle();
    state.streams[handle] = state.NewStream(root);
    *stream = As<CUstream>(handle);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamDestroy(CUstream handle) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr&) {
    const StreamPtr stream = Find(state, state.streams, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    // What is in it is still done.
    stream->closing = true;
    state.changed.notify_all();
    return Erase(state, state.streams, handle);
  });
}

CUresult CUDAAPI cuStreamQuery(CUstream handle) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    const StreamPtr stream = FindStream(state, root, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return stream->idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
  return InContext(
      __func__, [&](State& state, Lock& lock, const RootPtr& root) -> CUresult {
        const StreamPtr stream = FindStream(state, root, handle);
        if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        return state.WaitIdle(lock, *stream);
      });
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent handle, unsigned) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    const std::shared_ptr<Event> event = Find(state, state.events, handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return Enqueue(state, root, stream, [&state, root = root.get(), event] {
      Lock lock(state.mutex);
      state.changed.wait(lock, [&] {
        return event->pending == 0 ||
               root->stopped.load(std::memory_order_relaxed);
      });
    });
  });
}

CUresult CUDAAPI cuStreamWaitValue32(CUstream stream, CUdeviceptr address,
                                     cuuint32_t value, unsigned flags) {
  return WaitValue<uint32_t>(__func__, stream, address, value, flags);
}

CUresult CUDAAPI cuStreamWaitValue64(CUstream stream, CUdeviceptr address,
                                     cuuint64_t value, unsigned flags) {
  return WaitValue<uint64_t>(__func__, stream, address, value, flags);
}

CUresult CUDAAPI cuStreamWriteValue32(CUstream stream, CUdeviceptr address,
                                      cuuint32_t value, unsigned) {
  return WriteValue<uint32_t>(__func__, stream, address, value);
}

CUresult CUDAAPI cuStreamWriteValue64(CUstream stream, CUdeviceptr address,
                                      cuuint64_t value, unsigned) {
  return WriteValue<uint64_t>(__func__, stream, address, value);
}

CUresult CUDAAPI cuEventCreate(CUevent* event, unsigned flags) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    auto made = std::make_shared<Event>();
    made->root = root;
    made->timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
    const uint64_t handle = State::NewHandle();
    state.events[handle] = std::move(made);
    *event = As<CUevent>(handle);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuEventDestroy(CUevent event) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr&) {
    return Erase(state, state.events, event);
  });
}

CUresult CUDAAPI cuEventRecord(CUevent handle, CUstream stream) {
  return InContext(
      __func__, [&](State& state, Lock&, const RootPtr& root) -> CUresult {
        const std::shared_ptr<Event> event = Find(state, state.events, handle);
        if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        const CUresult result = Enqueue(state, root, stream, [&state, event] {
          std::lock_guard lock(state.mutex);
          --event->pending;
          event->time = std::chrono::steady_clock::now();
          state.changed.notify_all();
        });
        if (result != CUDA_SUCCESS) return result;
        ++event->pending;
        event->recorded = true;
        return CUDA_SUCCESS;
      });
}

CUresult CUDAAPI cuEventQuery(CUevent handle) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr&) {
    const std::shared_ptr<Event> event = Find(state, state.events, handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return event->pending == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult CUDAAPI cuEventSynchronize(CUevent handle) {
  return InContext(
      __func__, [&](State& state, Lock& lock, const RootPtr& root) -> CUresult {
        const std::shared_ptr<Event> event = Find(state, state.events, handle);
        if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        state.changed.wait(lock, [&] {
          return event->pending == 0 ||
                 root->stopped.load(std::memory_order_relaxed);
        });
        return root->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : root->fault;
      });
}

CUresult CUDAAPI cuEventElapsedTime(float* milliseconds, CUevent start,
                                    CUevent end) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr&) {
    const std::shared_ptr<Event> from = Find(state, state.events, start);
    const std::shared_ptr<Event> to = Find(state, state.events, end);
    if (from == nullptr || to == nullptr || !from->timed || !to->timed ||
        !from->recorded || !to->recorded) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    if (from->pending != 0 || to->pending != 0) return CUDA_ERROR_NOT_READY;
    *milliseconds =
        std::chrono::duration<float, std::milli>(to->time - from->time).count();
    return CUDA_SUCCESS;
  });
}

// --- Modules and functions.

CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void* image) {
  std::string log;
  return LoadImage(__func__, module, image, log);
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule* module, const void* image,
                                    unsigned count, CUjit_option* options,
                                    void** values) {
  std::string log;
  const CUresult result = LoadImage(__func__, module, image, log);
  WriteLog(log, count, options, values);
  return result;
}

CUresult CUDAAPI cuModuleUnload(CUmodule handle) {
  return InContext(
      __func__, [&](State& state, Lock& lock, const RootPtr& root) -> CUresult {
        const std::shared_ptr<Module> module =
            Find(state, state.modules, handle);
        if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        for (const auto& [name, function] : module->functions) {
          state.functions.erase(function);
        }
        for (const auto& [name, global] : module->globals) {
          const CUresult result =
              state.Free(lock, global.first, MemoryRange::Kind::kDevice);
          if (result != CUDA_SUCCESS) return result;
        }
        return Erase(state, state.modules, handle);
      });
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction* function, CUmodule handle,
                                     const char* name) {
  return InContext(
      __func__, [&](State& state, Lock&, const RootPtr&) -> CUresult {
        const std::shared_ptr<Module> module =
            Find(state, state.modules, handle);
        if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        uint64_t& known = module->functions[name];
        if (known == 0) {
          FunctionPtr made = state.MakeFunction(module->image, name);
          if (made == nullptr) {
            module->functions.erase(name);
            return CUDA_ERROR_NOT_FOUND;
          }
          known = State::NewHandle();
          state.functions[known] = std::move(made);
        }
        *function = As<CUfunction>(known);
        return CUDA_SUCCESS;
      });
}

CUresult CUDAAPI cuModuleGetGlobal(CUdeviceptr* address, size_t* size,
                                   CUmodule handle, const char* name) {
  return InContext(
      __func__, [&](State& state, Lock&, const RootPtr& root) -> CUresult {
        const std::shared_ptr<Module> module =
            Find(state, state.modules, handle);
        if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        const auto global =
            std::ranges::find(module->image.globals, name, &FakeGlobal::name);
        if (global == module->image.globals.end()) return CUDA_ERROR_NOT_FOUND;
        auto& [start, bytes] = module->globals[name];
        if (start == 0) {
          const CUresult result = state.Allocate(
              root, global->size, MemoryRange::Kind::kDevice, start);
          if (result != CUDA_SUCCESS) {
            module->globals.erase(name);
            return result;
          }
          bytes = global->size;
          std::memset(As<void*>(start), 0, bytes);
        }
        if (address != nullptr) *address = start;
        if (size != nullptr) *size = bytes;
        return CUDA_SUCCESS;
      });
}

CUresult CUDAAPI cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                                    CUfunction handle) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr&) {
    const FunctionPtr function = Find(state, state.functions, handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    switch (attribute) {
      case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        return CUDA_SUCCESS;
      case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = function->kernel != nullptr
                     ? static_cast<int>(function->kernel->registers_per_thread)
                     : 32;
        return CUDA_SUCCESS;
      case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = function->largest_dynamic_shared;
        return CUDA_SUCCESS;
      case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = 0;
        return CUDA_SUCCESS;
      default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
  });
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction handle,
                                    CUfunction_attribute attribute, int value) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr&) {
    const FunctionPtr function = Find(state, state.functions, handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (value < 0 || value > 227 << 10) return CUDA_ERROR_INVALID_VALUE;
    function->largest_dynamic_shared = value;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction handle, size_t index,
                                    size_t* offset, size_t* size) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr&) {
    const FunctionPtr function = Find(state, state.functions, handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (index >= function->params.size()) return CUDA_ERROR_INVALID_VALUE;
    if (offset != nullptr) *offset = function->params[index].offset;
    if (size != nullptr) *size = function->params[index].size;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned grid_x,
                                unsigned grid_y, unsigned grid_z,
                                unsigned block_x, unsigned block_y,
                                unsigned block_z, unsigned shared_bytes,
                                CUstream stream, void** params, void** extra) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    const std::array grid = {grid_x, grid_y, grid_z};
    const std::array block = {block_x, block_y, block_z};
    return LaunchInStream(state, root, function, grid.data(), block.data(),
                          shared_bytes, stream, params, extra);
  });
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig* config,
                                  CUfunction function, void** params,
                                  void** extra) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    const std::array grid = {config->gridDimX, config->gridDimY,
                             config->gridDimZ};
    const std::array block = {config->blockDimX, config->blockDimY,
                              config->blockDimZ};
    return LaunchInStream(state, root, function, grid.data(), block.data(),
                          config->sharedMemBytes, config->hStream, params,
                          extra);
  });
}

// --- Graphs.

CUresult CUDAAPI cuGraphCreate(CUgraph* graph, unsigned) {
  // Graphs belong to no context.
  return Call(__func__, [&](State& state, Lock&) {
    const uint64_t handle = State::NewHandle();
    state.graphs[handle] = std::make_shared<Graph>();
    *graph = As<CUgraph>(handle);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphDestroy(CUgraph handle) {
  return Call(__func__, [&](State& state, Lock&) {
    std::erase_if(state.node_graphs, [&](const auto& entry) {
      return entry.second == Number(handle);
    });
    return Erase(state, state.graphs, handle);
  });
}

CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode* node, CUgraph handle,
                                      const CUgraphNode* dependencies,
                                      size_t count,
                                      const CUDA_KERNEL_NODE_PARAMS* params) {
  return InContext(
      __func__, [&](State& state, Lock&, const RootPtr&) -> CUresult {
        const std::shared_ptr<Graph> graph = Find(state, state.graphs, handle);
        if (graph == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        for (size_t i = 0; i < count; ++i) {
          const auto other = state.node_graphs.find(Number(dependencies[i]));
          if (other == state.node_graphs.end() ||
              other->second != Number(handle)) {
            return CUDA_ERROR_INVALID_VALUE;
          }
        }
        GraphNode made;
        const CUresult result = MakeNode(state, *params, made.launch);
        if (result != CUDA_SUCCESS) return result;
        made.handle = State::NewHandle();
        state.node_graphs[made.handle] = Number(handle);
        *node = As<CUgraphNode>(made.handle);
        graph->nodes.push_back(std::move(made));
        return CUDA_SUCCESS;
      });
}

CUresult CUDAAPI
cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                              const CUkernelNodeAttrValue* value) {
  return Call(__func__, [&](State& state, Lock&) {
    if (value == nullptr || !state.node_graphs.contains(Number(node))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    switch (attribute) {
      // They change nothing that a kernel here would see.
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        return CUDA_SUCCESS;
      default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
  });
}

CUresult CUDAAPI cuGraphInstantiateWithParams(
    CUgraphExec* exec, CUgraph handle, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return InContext(
      __func__, [&](State& state, Lock&, const RootPtr& root) -> CUresult {
        params->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
        const std::shared_ptr<Graph> graph = Find(state, state.graphs, handle);
        if (graph == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        auto made = std::make_shared<Exec>();
        made->root = root;
        made->nodes = graph->nodes;
        made->device_launch =
            (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0;
        if (made->device_launch && made->nodes.empty()) {
          params->result_out = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
          return CUDA_ERROR_INVALID_VALUE;
        }
        if (state.settings.graph_exec_bytes != 0) {
          const CUresult result =
              state.Allocate(root, state.settings.graph_exec_bytes,
                             MemoryRange::Kind::kDevice, made->memory);
          if (result != CUDA_SUCCESS) return result;
        }
        made->handle = State::NewHandle();
        if ((params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) {
          const CUresult result =
              Upload(state, root, made, params->hUploadStream);
          if (result != CUDA_SUCCESS) return result;
        }
        *exec = As<CUgraphExec>(made->handle);
        state.execs[made->handle] = std::move(made);
        params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
        return CUDA_SUCCESS;
      });
}

CUresult CUDAAPI
cuGraphExecKernelNodeSetParams(CUgraphExec handle, CUgraphNode node,
                               const CUDA_KERNEL_NODE_PARAMS* params) {
  return InContext(
      __func__, [&](State& state, Lock&, const RootPtr&) -> CUresult {
        const ExecPtr exec = Find(state, state.execs, handle);
        if (exec == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        const auto found =
            std::ranges::find(exec->nodes, Number(node), &GraphNode::handle);
        if (found == exec->nodes.end()) return CUDA_ERROR_INVALID_VALUE;
        LaunchSpec launch;
        const CUresult result = MakeNode(state, *params, launch);
        if (result != CUDA_SUCCESS) return result;
        found->launch = std::move(launch);
        // The copy on the GPU is the old one.
        exec->uploaded = false;
        return CUDA_SUCCESS;
      });
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec handle, CUstream stream) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    const ExecPtr exec = Find(state, state.execs, handle);
    if (exec == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return Upload(state, root, exec, stream);
  });
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec handle, CUstream stream) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    const ExecPtr exec = Find(state, state.execs, handle);
    if (exec == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return Enqueue(state, root, stream, [&state, exec] {
      {
        // Never beside itself: launches by the host wait for each other.
        Lock lock(state.mutex);
        exec->uploaded = true;
        state.changed.wait(lock, [&] {
          return !exec->busy ||
                 exec->root->stopped.load(std::memory_order_relaxed);
        });
        if (exec->root->stopped.load(std::memory_order_relaxed)) return;
        exec->busy = true;
      }
      state.RunGraph(exec->root, exec);
    });
  });
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec handle) {
  return InContext(
      __func__, [&](State& state, Lock& lock, const RootPtr&) -> CUresult {
        const ExecPtr exec = Find(state, state.execs, handle);
        if (exec == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        if (exec->memory != 0) {
          const CUresult result =
              state.Free(lock, exec->memory, MemoryRange::Kind::kDevice);
          if (result != CUDA_SUCCESS) return result;
        }
        return Erase(state, state.execs, handle);
      });
}

// --- Green contexts.

CUresult CUDAAPI cuDeviceGetDevResource(CUdevice device,
                                        CUdevResource* resource,
                                        CUdevResourceType type) {
  return Call(__func__, [&](State& state, Lock&) {
    if (!IsDevice(state, device)) return CUDA_ERROR_INVALID_DEVICE;
    if (!state.settings.green_contexts) return CUDA_ERROR_NOT_SUPPORTED;
    if (type != CU_DEV_RESOURCE_TYPE_SM) {
      return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    }
    *resource = SmResource(state.settings.sms);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDevSmResourceSplitByCount(CUdevResource* result,
                                             unsigned* groups,
                                             const CUdevResource* input,
                                             CUdevResource* remaining,
                                             unsigned flags, unsigned count) {
  return Call(__func__, [&](State& state, Lock&) {
    if (!state.settings.green_contexts) return CUDA_ERROR_NOT_SUPPORTED;
    if (groups == nullptr || input == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (input->type != CU_DEV_RESOURCE_TYPE_SM) {
      return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    }
    // An H100 gives whole clusters of 8 SMs, or pairs when asked to.
    const unsigned step =
        (flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING) != 0 ? 2 : 8;
    const unsigned sms = (std::max(count, step) + step - 1) / step * step;
    const unsigned possible = input->sm.smCount / sms;
    if (possible == 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    if (result == nullptr) {
      *groups = possible;
      return CUDA_SUCCESS;
    }
    *groups = std::min(*groups, possible);
    std::fill_n(result, *groups, SmResource(sms));
    if (remaining != nullptr) {
      *remaining = SmResource(input->sm.smCount - *groups * sms);
    }
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDevResourceGenerateDesc(CUdevResourceDesc* desc,
                                           CUdevResource* resources,
                                           unsigned count) {
  return Call(__func__, [&](State& state, Lock&) {
    if (!state.settings.green_contexts) return CUDA_ERROR_NOT_SUPPORTED;
    if (count != 1) return CUDA_ERROR_INVALID_VALUE;
    if (resources->type != CU_DEV_RESOURCE_TYPE_SM) {
      return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    }
    const uint64_t handle = State::NewHandle();
    state.resource_descs[handle] = resources->sm.smCount;
    *desc = As<CUdevResourceDesc>(handle);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx* green, CUdevResourceDesc desc,
                                  CUdevice device, unsigned flags) {
  return Call(__func__, [&](State& state, Lock&) -> CUresult {
    if (!state.settings.green_contexts) return CUDA_ERROR_NOT_SUPPORTED;
    if (!IsDevice(state, device)) return CUDA_ERROR_INVALID_DEVICE;
    if (flags != CU_GREEN_CTX_DEFAULT_STREAM ||
        Find(state, state.resource_descs, desc) == 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    uint64_t primary = 0;
    const CUresult result = state.Retain(device, primary);
    if (result != CUDA_SUCCESS) return result;
    const RootPtr root = state.primaries[device].root;
    if (root->fault != CUDA_SUCCESS) return root->fault;
    const uint64_t handle = State::NewHandle();
    state.greens[handle] = {root, state.AddContext(root, true)};
    *green = As<CUgreenCtx>(handle);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx handle) {
  return Call(__func__, [&](State& state, Lock& lock) -> CUresult {
    const State::Green green = Find(state, state.greens, handle);
    if (green.root == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    state.contexts.erase(green.context);
    state.greens.erase(Number(handle));
    return state.Release(lock, green.root->device);
  });
}

CUresult CUDAAPI cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx handle,
                                        unsigned flags, int) {
  return Call(__func__, [&](State& state, Lock&) -> CUresult {
    const State::Green green = Find(state, state.greens, handle);
    if (green.root == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (green.root->fault != CUDA_SUCCESS) return green.root->fault;
    if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t made = State::NewHandle();
    state.streams[made] = state.NewStream(green.root);
    *stream = As<CUstream>(made);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxFromGreenCtx(CUcontext* context, CUgreenCtx handle) {
  return Call(__func__, [&](State& state, Lock&) {
    const State::Green green = Find(state, state.greens, handle);
    if (green.root == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *context = As<CUcontext>(green.context);
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
