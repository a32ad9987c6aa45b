// The functions of the driver for streams and events.
#include <sched.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "gpu_daemon/backends/cuda/fake/fake_call.h"

namespace carillon::gpud::cuda {
namespace {

bool Satisfied(uint32_t now, uint32_t value, unsigned flags) {
  switch (flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return static_cast<int32_t>(now - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & value) != 0;
    default:
      return ~(now | value) != 0;
  }
}

}  // namespace
}  // namespace carillon::gpud::cuda

using namespace carillon::gpud::cuda;  // NOLINT: all below are C functions

extern "C" {

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* stream, unsigned,
                                            int priority) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    const uint64_t handle = State::NewHandle();
    state.streams[handle] = state.NewStream(root);
    state.streams[handle]->place.priority = priority;
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

CUresult CUDAAPI cuStreamWaitValue32(CUstream stream, CUdeviceptr address,
                                     cuuint32_t value, unsigned flags) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    if (!state.settings.stream_memory_operations) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (address % sizeof(uint32_t) != 0 ||
        !AllReachable(state, root, address, sizeof(uint32_t))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return Enqueue(state, root, stream, [=, root = root.get()] {
      // Writer: whoever it is that the stream waits for. Acquire: what it wrote
      // before is there for the kernels behind this.
      const std::atomic_ref<uint32_t> word(
          *static_cast<uint32_t*>(Pointer(address)));
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

CUresult CUDAAPI cuStreamWriteValue32(CUstream stream, CUdeviceptr address,
                                      cuuint32_t value, unsigned) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    if (!state.settings.stream_memory_operations) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (address % sizeof(uint32_t) != 0 ||
        !AllReachable(state, root, address, sizeof(uint32_t))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return Enqueue(state, root, stream, [=] {
      // Readers: whoever waits for it. Release: all work of the stream before.
      std::atomic_ref<uint32_t>(*static_cast<uint32_t*>(Pointer(address)))
          .store(value, std::memory_order_release);
    });
  });
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

}  // extern "C"
