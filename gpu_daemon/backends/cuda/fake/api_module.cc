// The functions of the driver for modules, kernels and their launches.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "gpu_daemon/backends/cuda/fake/fake_call.h"
#include "kernels/registry.h"

namespace carillon::gpud::cuda {
namespace {

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

// Whose inline form a word of our own fatbins points to; the fake's is its
// KernelInfo. nullptr: another word.
const simt::KernelInfo* InlineKernel(const Module& module,
                                     std::string_view name) {
  constexpr std::string_view kPrefix = "carillon_inline_";
  if (!module.image.is_fatbin || module.image.code != nullptr ||
      !name.starts_with(kPrefix)) {
    return nullptr;
  }
  const simt::KernelInfo* kernel =
      simt::FindKernel(name.substr(kPrefix.size()));
  return kernel != nullptr && kernel->runs_inline() ? kernel : nullptr;
}

CUresult LoadImage(const char* name, CUmodule* module, const void* image,
                   std::string& log) {
  return InContext(
      name, [&](State& state, Lock& lock, const RootPtr& root) -> CUresult {
        const CUresult quiet = state.AwaitQuiet(lock, root);
        if (quiet != CUDA_SUCCESS) return quiet;
        auto loaded = std::make_shared<Module>();
        loaded->root = root;
        const FakeSettings& settings = state.settings;
        const ExecutingGpu* const gpu = ExecutingGpu::Find();
        const CUresult result = gpu != nullptr
                                    ? gpu->load(image, loaded->image, log)
                                    : ParseImage(image, settings.driver_version,
                                                 settings.compute_major * 10 +
                                                     settings.compute_minor,
                                                 loaded->image, log);
        if (result != CUDA_SUCCESS) return result;
        const uint64_t handle = State::NewHandle();
        state.modules[handle] = std::move(loaded);
        *module = As<CUmodule>(handle);
        return CUDA_SUCCESS;
      });
}

CUresult FunctionOf(State& state, Module& module, const std::string& name,
                    CUfunction& function) {
  uint64_t& known = module.functions[name];
  if (known == 0) {
    FunctionPtr made = state.MakeFunction(module.image, name);
    if (made == nullptr) {
      module.functions.erase(name);
      return CUDA_ERROR_NOT_FOUND;
    }
    known = State::NewHandle();
    state.functions[known] = std::move(made);
  }
  function = As<CUfunction>(known);
  return CUDA_SUCCESS;
}

CUresult LaunchInStream(State& state, Lock& lock, const RootPtr& root,
                        CUfunction handle, const unsigned* grid,
                        const unsigned* block, unsigned shared_bytes,
                        CUstream stream, void** params, void** extra) {
  const FunctionPtr function = Find(state, state.functions, handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (function->form == Function::Form::kNone) return CUDA_ERROR_NOT_SUPPORTED;
  auto launch = std::make_shared<LaunchSpec>();
  const CUresult result = state.MakeLaunch(function, grid, block, shared_bytes,
                                           params, extra, *launch);
  if (result != CUDA_SUCCESS) return result;
  const StreamPtr where = FindStream(state, root, stream);
  if (where == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  launch->place = where->place;
  if (where->capture != nullptr) {
    where->capture->nodes.push_back({.handle = 0, .launch = *launch});
    return CUDA_SUCCESS;
  }
  const CUresult taken = state.TakeStack(lock, *root, function->local_bytes);
  if (taken != CUDA_SUCCESS) return taken;
  if (const uint32_t depth = state.settings.stream_depth; depth != 0) {
    state.changed.wait(lock, [&] {
      return where->work.size() < depth ||
             root->stopped.load(std::memory_order_relaxed);
    });
    if (root->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (root->fault != CUDA_SUCCESS) return root->fault;
  }
  return Enqueue(state, root, stream, [&state, root = root.get(), launch] {
    state.Run(*root, *launch, nullptr);
  });
}

}  // namespace

}  // namespace carillon::gpud::cuda

using namespace carillon::gpud::cuda;  // NOLINT: all below are C functions

extern "C" {

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
          const auto of_code = state.memory.find(global.first);
          if (module->image.code != nullptr && of_code != state.memory.end()) {
            state.memory.erase(of_code);
            ++state.memory_changes;
            continue;
          }
          const CUresult result =
              state.Free(lock, global.first, MemoryRange::Kind::kDevice);
          if (result != CUDA_SUCCESS) return result;
        }
        return Erase(state, state.modules, handle);
      });
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction* function, CUmodule handle,
                                     const char* name) {
  return InContext(__func__,
                   [&](State& state, Lock&, const RootPtr&) -> CUresult {
                     const std::shared_ptr<Module> module =
                         Find(state, state.modules, handle);
                     if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
                     return FunctionOf(state, *module, name, *function);
                   });
}

CUresult CUDAAPI cuModuleGetFunctionCount(unsigned* count, CUmodule handle) {
  return InContext(
      __func__, [&](State& state, Lock&, const RootPtr&) -> CUresult {
        const std::shared_ptr<Module> module =
            Find(state, state.modules, handle);
        if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        *count =
            static_cast<unsigned>(state.FunctionNames(module->image).size());
        return CUDA_SUCCESS;
      });
}

CUresult CUDAAPI cuModuleEnumerateFunctions(CUfunction* functions,
                                            unsigned count, CUmodule handle) {
  return InContext(
      __func__, [&](State& state, Lock&, const RootPtr&) -> CUresult {
        const std::shared_ptr<Module> module =
            Find(state, state.modules, handle);
        if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        const auto names = state.FunctionNames(module->image);
        for (unsigned i = 0; i < std::min<size_t>(count, names.size()); ++i) {
          const CUresult result =
              FunctionOf(state, *module, names[i], functions[i]);
          if (result != CUDA_SUCCESS) return result;
        }
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
        const auto* inlined = InlineKernel(*module, name);
        if (global == module->image.globals.end() && inlined == nullptr) {
          return CUDA_ERROR_NOT_FOUND;
        }
        auto& [start, bytes] = module->globals[name];
        if (start == 0 && module->image.code != nullptr) {
          // Of no context, as what is mapped: only the module gives it back.
          start = global->address;
          bytes = global->size;
          state.memory[start] = {bytes, MemoryRange::Kind::kMapped, nullptr};
          ++state.memory_changes;
        }
        if (start == 0) {
          bytes = global != module->image.globals.end() ? global->size
                                                        : sizeof(inlined);
          const CUresult result =
              state.Allocate(root, bytes, MemoryRange::Kind::kDevice, start);
          if (result != CUDA_SUCCESS) {
            module->globals.erase(name);
            return result;
          }
          std::memset(As<void*>(start), 0, bytes);
          if (inlined != nullptr) {
            std::memcpy(As<void*>(start), &inlined, sizeof(inlined));
          }
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
                     : static_cast<int>(function->registers);
        return CUDA_SUCCESS;
      case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = function->LargestDynamicShared();
        return CUDA_SUCCESS;
      case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = static_cast<int>(function->local_bytes);
        return CUDA_SUCCESS;
      case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = function->static_shared();
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
    if (value < 0 || value > (227 << 10) - function->static_shared()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
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
  return InContext(__func__, [&](State& state, Lock& lock,
                                 const RootPtr& root) {
    const std::array grid = {grid_x, grid_y, grid_z};
    const std::array block = {block_x, block_y, block_z};
    return LaunchInStream(state, lock, root, function, grid.data(),
                          block.data(), shared_bytes, stream, params, extra);
  });
}

}  // extern "C"
