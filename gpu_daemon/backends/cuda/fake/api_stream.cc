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
  return InContext(
      __func__, [&](State& state, Lock& lock, const RootPtr& root) -> CUresult {
        const CUresult quiet = state.AwaitQuiet(lock, root);
        if (quiet != CUDA_SUCCESS) return quiet;
        const uint64_t handle = State::NewHandle();
        state.streams[handle] = state.NewStream(root);
        state.streams[handle]->place.priority = priority;
        *stream = As<CUstream>(handle);
        return CUDA_SUCCESS;
      });
}

CUresult CUDAAPI cuStreamSetAttribute(CUstream handle, CUstreamAttrID attribute,
                                      const CUstreamAttrValue* value) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    const StreamPtr stream = FindStream(state, root, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (attribute != CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    stream->place.memory_domain = value->memSyncDomain;
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

CUresult CUDAAPI cuStreamBeginCapture(CUstream handle,
                                      CUstreamCaptureMode mode) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    const StreamPtr stream = FindStream(state, root, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    // Any other mode forbids calls that make things, in this thread or in all.
    if (mode != CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_NOT_SUPPORTED;
    if (stream == root->default_stream) {
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    stream->capture = std::make_shared<Graph>();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    const StreamPtr stream = FindStream(state, root, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    const uint64_t made = State::NewHandle();
    for (GraphNode& node : stream->capture->nodes) {
      node.handle = State::NewHandle();
      state.node_graphs[node.handle] = made;
    }
    state.graphs[made] = std::move(stream->capture);
    stream->capture = nullptr;
    *graph = As<CUgraph>(made);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamQuery(CUstream handle) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    const StreamPtr stream = FindStream(state, root, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture != nullptr) {
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    // A driver may say so between a graph and its tail launch: here from the
    // first one on, whatever still runs.
    return stream->idle() || stream->relaunched ? CUDA_SUCCESS
                                                : CUDA_ERROR_NOT_READY;
  });
}

CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
  return InContext(
      __func__, [&](State& state, Lock& lock, const RootPtr& root) -> CUresult {
        const StreamPtr stream = FindStream(state, root, handle);
        if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        if (stream->capture != nullptr) {
          return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
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
    return Enqueue(state, root, stream, [=, &state, root = root.get()] {
      // Writer: whoever it is that the stream waits for. Acquire: what it wrote
      // before is there for the kernels behind this.
      const auto word = [&] {
        const void* seen = state.HostMemory(Pointer(address));
        return std::atomic_ref(
            *static_cast<uint32_t*>(const_cast<void*>(seen)));
      };
      for (uint32_t looks = 0;
           !Satisfied(word().load(std::memory_order_acquire), value, flags) &&
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
    return Enqueue(state, root, stream, [=, &state] {
      const void* seen = state.HostMemory(Pointer(address));
      // Readers: whoever waits for it. Release: all work of the stream before.
      std::atomic_ref(*static_cast<uint32_t*>(const_cast<void*>(seen)))
          .store(value, std::memory_order_release);
    });
  });
}

CUresult CUDAAPI cuEventCreate(CUevent* event, unsigned flags) {
  return InContext(
      __func__, [&](State& state, Lock& lock, const RootPtr& root) -> CUresult {
        const CUresult quiet = state.AwaitQuiet(lock, root);
        if (quiet != CUDA_SUCCESS) return quiet;
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
