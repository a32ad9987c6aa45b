// The functions of the driver for green contexts.
#include <algorithm>
#include <cstring>

#include "gpu_daemon/backends/cuda/fake/fake_call.h"

namespace carillon::gpud::cuda {
namespace {

// The driver keeps what else it knows of a resource in its padding.
CUdevResource SmResource(SmRange sms) {
  CUdevResource resource = {};
  resource.type =
      sms.count != 0 ? CU_DEV_RESOURCE_TYPE_SM : CU_DEV_RESOURCE_TYPE_INVALID;
  resource.sm.smCount = sms.count;
  std::memcpy(resource._internal_padding, &sms.first, sizeof(sms.first));
#if CUDA_VERSION >= 13000
  resource.sm.minSmPartitionSize = 8;
  resource.sm.smCoscheduledAlignment = 8;
#endif
  return resource;
}

SmRange SmsOf(const CUdevResource& resource) {
  SmRange sms = {.count = resource.sm.smCount};
  std::memcpy(&sms.first, resource._internal_padding, sizeof(sms.first));
  return sms;
}

}  // namespace
}  // namespace carillon::gpud::cuda

using namespace carillon::gpud::cuda;  // NOLINT: all below are C functions

extern "C" {

CUresult CUDAAPI cuDeviceGetDevResource(CUdevice device,
                                        CUdevResource* resource,
                                        CUdevResourceType type) {
  return Call(__func__, [&](State& state, Lock&) {
    if (!IsDevice(state, device)) return CUDA_ERROR_INVALID_DEVICE;
    if (!state.settings.green_contexts) return CUDA_ERROR_NOT_SUPPORTED;
    if (type != CU_DEV_RESOURCE_TYPE_SM) {
      return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    }
    *resource = SmResource({.count = state.settings.sms});
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
    uint32_t first = SmsOf(*input).first;
    for (unsigned i = 0; i < *groups; ++i, first += sms) {
      result[i] = SmResource({.first = first, .count = sms});
    }
    if (remaining != nullptr) {
      *remaining = SmResource(
          {.first = first, .count = input->sm.smCount - *groups * sms});
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
    state.resource_descs[handle] = SmsOf(*resources);
    *desc = As<CUdevResourceDesc>(handle);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx* green, CUdevResourceDesc desc,
                                  CUdevice device, unsigned flags) {
  return Call(__func__, [&](State& state, Lock&) -> CUresult {
    if (!state.settings.green_contexts) return CUDA_ERROR_NOT_SUPPORTED;
    if (!IsDevice(state, device)) return CUDA_ERROR_INVALID_DEVICE;
    const SmRange sms = Find(state, state.resource_descs, desc);
    if (flags != CU_GREEN_CTX_DEFAULT_STREAM || sms.count == 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const RootPtr before = state.primaries[device].root;
    if (before != nullptr && before->fault != CUDA_SUCCESS) {
      return before->fault;
    }
    uint64_t primary = 0;
    const CUresult result = state.Retain(device, primary);
    if (result != CUDA_SUCCESS) return result;
    const RootPtr root = state.primaries[device].root;
    const uint64_t handle = State::NewHandle();
    state.greens[handle] = {root, sms, state.AddContext(root, sms)};
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
                                        unsigned flags, int priority) {
  return Call(__func__, [&](State& state, Lock& lock) -> CUresult {
    const State::Green green = Find(state, state.greens, handle);
    if (green.root == nullptr || green.root->destroyed) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    if (green.root->fault != CUDA_SUCCESS) return green.root->fault;
    if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    const CUresult quiet = state.AwaitQuiet(lock, green.root);
    if (quiet != CUDA_SUCCESS) return quiet;
    const uint64_t made = State::NewHandle();
    state.streams[made] = state.NewStream(green.root);
    state.streams[made]->place = {.sms = green.sms, .priority = priority};
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
