// What the functions of the fake driver have in common. Internal to this package.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_CALL_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_CALL_H_

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "gpu_daemon/backends/cuda/fake/fake_state.h"

namespace carillon::gpud::cuda {

using State = FakeGpu::State;

// "cuMemAlloc_v2" is asked for as "cuMemAlloc".
inline std::string PlainName(std::string_view name) {
  const size_t version = name.rfind("_v");
  return std::string(name.substr(0, version));
}

// Runs `body(state, lock)` for a call of `name`. Always: also before cuInit.
template <bool kAlways = false, class Body>
CUresult Call(const char* name, Body body) {
  State* state = CurrentFake();
  if (state == nullptr) return CUDA_ERROR_DEINITIALIZED;
  Lock lock(state->mutex);
  const std::string plain = PlainName(name);
  ++state->calls[plain];
  const auto failure = state->failures.find(plain);
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
    if (state.lasting_fault != CUDA_SUCCESS) return state.lasting_fault;
    if (current_context == 0) return CUDA_ERROR_INVALID_CONTEXT;
    const auto context = state.contexts.find(current_context);
    if (context == state.contexts.end()) {
      ++state.stale_uses;
      return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    const RootPtr root = context->second.root;
    if (root->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
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
inline StreamPtr FindStream(State& state, const RootPtr& root,
                            CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) {
    return root->default_stream;
  }
  const StreamPtr stream = Find(state, state.streams, handle);
  return stream != nullptr && stream->root == root ? stream : nullptr;
}

inline bool IsDevice(const State& state, CUdevice device) {
  return device >= 0 && device < state.settings.devices;
}

// Puts work into a stream.
inline CUresult Enqueue(State& state, const RootPtr& root, CUstream handle,
                        std::function<void()> work) {
  const StreamPtr stream = FindStream(state, root, handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  state.Push(*stream, std::move(work));
  return CUDA_SUCCESS;
}

// The same in the default stream, and waits for it.
inline CUresult DoNow(State& state, Lock& lock, const RootPtr& root,
                      std::function<void()> work) {
  const StreamPtr stream = root->default_stream;
  state.Push(*stream, std::move(work));
  return state.WaitIdle(lock, *stream);
}

inline bool AllReachable(const State& state, const RootPtr& root,
                         CUdeviceptr address, uint64_t size) {
  return size == 0 || state.FindRange(*root, address, size) != nullptr;
}

inline void* Pointer(CUdeviceptr address) { return As<void*>(address); }

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_CALL_H_
