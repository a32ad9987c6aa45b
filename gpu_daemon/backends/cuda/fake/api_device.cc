// The functions of the driver for itself, devices and contexts.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "gpu_daemon/backends/cuda/fake/fake_call.h"

namespace carillon::gpud::cuda {
namespace {

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

int Attribute(const FakeSettings& settings, CUdevice_attribute attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return settings.compute_major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return settings.compute_minor;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return static_cast<int>(settings.sms);
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return static_cast<int>(settings.threads_per_sm);
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return 227 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return 228 << 10;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return 1'980'000;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
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

}  // namespace
}  // namespace carillon::gpud::cuda

using namespace carillon::gpud::cuda;  // NOLINT: all below are C functions

extern "C" {

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
    const ExecutingGpu* const gpu = ExecutingGpu::Find();
    std::snprintf(name, static_cast<size_t>(length), "%s %d",
                  gpu != nullptr ? gpu->name.c_str() : "Fake GPU", device);
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

CUresult CUDAAPI cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  return Call(__func__, [&](State& state, Lock&) {
    if (!IsDevice(state, device)) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = state.settings.memory_bytes;
    return CUDA_SUCCESS;
  });
}

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
    if (state.lasting_fault != CUDA_SUCCESS) return state.lasting_fault;
    // What runs there and has not faulted is waited for, however long.
    if (const RootPtr now = state.primaries[device].root; now != nullptr) {
      state.WaitIdle(lock, *now);
    }
    const RootPtr root = std::exchange(state.primaries[device].root, nullptr);
    if (root != nullptr) state.Destroy(lock, root);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext handle) {
  return Call(__func__, [&](State& state, Lock&) {
    if (handle != nullptr &&
        Find(state, state.contexts, handle).root == nullptr) {
      return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    const auto next = state.contexts.find(Number(handle));
    const std::thread::id self = std::this_thread::get_id();
    if (next != state.contexts.end() && next->second.sms != SmRange()) {
      // A green context is current to one thread at a time.
      std::thread::id& current_in = next->second.current_in;
      if (current_in != std::thread::id() && current_in != self) {
        return CUDA_ERROR_ILLEGAL_STATE;
      }
      current_in = self;
    }
    const auto before = state.contexts.find(current_context);
    if (before != state.contexts.end() && before != next) {
      before->second.current_in = {};
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

CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) {
  return InContext(
      __func__, [&](State& state, Lock& lock, const RootPtr& root) -> CUresult {
        if (limit != CU_LIMIT_STACK_SIZE) return CUDA_ERROR_UNSUPPORTED_LIMIT;
        if (value > 512 << 10) return CUDA_ERROR_INVALID_VALUE;
        const CUresult idle = state.AwaitIdle(lock, *root);
        if (idle != CUDA_SUCCESS) return idle;
        root->stack_limit = value;
        return CUDA_SUCCESS;
      });
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return InContext(__func__, [&](State&, Lock&, const RootPtr&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
