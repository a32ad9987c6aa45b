// The functions of the driver for memory.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

#include "gpu_daemon/backends/cuda/fake/fake_call.h"

namespace carillon::gpud::cuda {
namespace {

template <class Word>
CUresult Memset(const char* name, CUdeviceptr address, Word value,
                size_t count) {
  return InContext(name, [&](State& state, Lock&, const RootPtr& root) {
    if (address % sizeof(Word) != 0 ||
        !AllReachable(state, root, address, count * sizeof(Word))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return Enqueue(state, root, nullptr, [=] {
      std::fill_n(static_cast<Word*>(Pointer(address)), count, value);
    });
  });
}

// While kernels run that look at these words: each is there as a whole; in one
// order, and in the next copy in the other.
void CopyWords(void* to, const void* from, size_t size) {
  static std::atomic<uint32_t> copies{0};
  const bool last_first = copies.fetch_add(1) % 2 != 0;
  const size_t count = size / sizeof(uint64_t);
  auto* const words = static_cast<uint64_t*>(to);
  auto* const source = static_cast<uint64_t*>(const_cast<void*>(from));
  for (size_t n = 0; n < count; ++n) {
    const size_t i = last_first ? count - 1 - n : n;
    std::atomic_ref(words[i]).store(
        std::atomic_ref(source[i]).load(std::memory_order_acquire),
        std::memory_order_release);
  }
}

// From or to memory of the host's that is pinned: all that gpud copies so.
CUresult CopyInStream(const char* name, CUdeviceptr device, const void* host,
                      void* to, const void* from, size_t size,
                      CUstream stream) {
  return InContext(name, [&](State& state, Lock&, const RootPtr& root) {
    if (!AllReachable(state, root, device, size)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (state.FindRange(*root, Number(host), size) == nullptr) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    const bool in_words =
        (Number(to) | Number(from) | size) % sizeof(uint64_t) == 0;
    return Enqueue(state, root, stream, [=] {
      in_words ? CopyWords(to, from, size)
               : static_cast<void>(std::memcpy(to, from, size));
    });
  });
}

}  // namespace
}  // namespace carillon::gpud::cuda

using namespace carillon::gpud::cuda;  // NOLINT: all below are C functions

extern "C" {

CUresult CUDAAPI cuMemGetInfo(size_t* free_bytes, size_t* total) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr&) {
    *total = state.settings.memory_bytes;
    *free_bytes = state.settings.memory_bytes - state.memory_used;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr* address, size_t size) {
  return InContext(
      __func__, [&](State& state, Lock& lock, const RootPtr& root) -> CUresult {
        const CUresult quiet = state.AwaitQuiet(lock, root);
        if (quiet != CUDA_SUCCESS) return quiet;
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
  return InContext(
      __func__, [&](State& state, Lock& lock, const RootPtr& root) -> CUresult {
        const CUresult quiet = state.AwaitQuiet(lock, root);
        if (quiet != CUDA_SUCCESS) return quiet;
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
  return InContext(
      __func__, [&](State& state, Lock& lock, const RootPtr& root) -> CUresult {
        const CUresult quiet = state.AwaitQuiet(lock, root);
        if (quiet != CUDA_SUCCESS) return quiet;
        if (address == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
        const uint64_t start = Number(address);
        const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
        const uint64_t first = start / page * page;
        std::vector<unsigned char> resident((start + size - first + page - 1) /
                                            page);
        // Fails when some of it is not mapped.
        if (mincore(As<void*>(first), start + size - first, resident.data()) !=
            0) {
          return CUDA_ERROR_INVALID_VALUE;
        }
        auto after = state.memory.lower_bound(start + size);
        while (after != state.memory.begin()) {
          const auto before = std::prev(after);
          const auto& [other, range] = *before;
          if (other + range.size <= start) break;
          // What was left behind of other memory, which has been unmapped since.
          if (!range.left_behind || other == start) {
            return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
          }
          after = state.memory.erase(before);
        }
        state.memory[start] = {size, MemoryRange::Kind::kRegistered, root};
        ++state.memory_changes;
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
        range->kind == MemoryRange::Kind::kDevice ||
        range->kind == MemoryRange::Kind::kMapped) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    // Where the GPU has addresses of its own, none that a CPU could follow.
    *device = state.settings.host_pointers ? Number(host)
                                           : Number(host) | uint64_t{1} << 60;
    return CUDA_SUCCESS;
  });
}

// From pageable memory the call returns when the bytes are on their way: they
// are there behind it in the default stream, and for no other stream before that
// one was waited for. From pinned memory they are there at once.
CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t size) {
  return InContext(
      __func__, [&](State& state, Lock& lock, const RootPtr& root) -> CUresult {
        if (!AllReachable(state, root, to, size)) {
          return CUDA_ERROR_INVALID_VALUE;
        }
        if (state.FindRange(*root, Number(from), size) != nullptr) {
          return DoNow(state, lock, root,
                       [=] { std::memcpy(Pointer(to), from, size); });
        }
        const StreamPtr stream = root->default_stream;
        const CUresult before = state.WaitIdle(lock, *stream);
        if (before != CUDA_SUCCESS) return before;
        const auto* bytes = static_cast<const std::byte*>(from);
        state.PushLate(*stream,
                       [to, staged = std::vector(bytes, bytes + size)] {
                         std::memcpy(Pointer(to), staged.data(), staged.size());
                       });
        return CUDA_SUCCESS;
      });
}

CUresult CUDAAPI cuMemcpyDtoH(void* to, CUdeviceptr from, size_t size) {
  return InContext(
      __func__, [&](State& state, Lock& lock, const RootPtr& root) {
        if (!AllReachable(state, root, from, size)) {
          return CUDA_ERROR_INVALID_VALUE;
        }
        return DoNow(state, lock, root,
                     [=] { std::memcpy(to, Pointer(from), size); });
      });
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void* from,
                                   size_t size, CUstream stream) {
  return CopyInStream(__func__, to, from, Pointer(to), from, size, stream);
}

CUresult CUDAAPI cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t size,
                                   CUstream stream) {
  return CopyInStream(__func__, from, to, to, Pointer(from), size, stream);
}

CUresult CUDAAPI cuMemsetD8(CUdeviceptr address, unsigned char value,
                            size_t count) {
  return Memset<unsigned char>(__func__, address, value, count);
}

CUresult CUDAAPI cuMemsetD32(CUdeviceptr address, unsigned value,
                             size_t count) {
  return Memset<unsigned>(__func__, address, value, count);
}

}  // extern "C"
