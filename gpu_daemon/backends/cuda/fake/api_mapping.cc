// The functions of the driver for device memory that is mapped by hand. It
// belongs to no context, and survives a fault.
#include <sys/mman.h>
#include <unistd.h>

#include "gpu_daemon/backends/cuda/fake/fake_call.h"

using namespace carillon::gpud::cuda;  // NOLINT: all below are C functions

namespace {

constexpr size_t kGranularity = 2 << 20;

// Makes [address, address + size) unusable, but keeps it.
bool Blank(CUdeviceptr address, size_t size) {
  return mmap(Pointer(address), size, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
              0) != MAP_FAILED;
}

}  // namespace

extern "C" {

CUresult CUDAAPI
cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp*,
                              CUmemAllocationGranularity_flags) {
  return Call(__func__, [&](State&, Lock&) {
    *granularity = kGranularity;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* address, size_t size, size_t,
                                     CUdeviceptr, unsigned long long) {
  return Call(__func__, [&](State& state, Lock&) {
    if (size == 0 || size % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
    void* start = mmap(nullptr, size, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = Number(start);
    state.reservations[*address] = size;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr address, size_t size) {
  return Call(__func__, [&](State& state, Lock&) {
    const auto found = state.reservations.find(address);
    if (found == state.reservations.end() || found->second != size ||
        state.memory.contains(address)) {
      ++state.stale_uses;
      return CUDA_ERROR_INVALID_VALUE;
    }
    munmap(Pointer(address), size);
    state.reservations.erase(found);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                             const CUmemAllocationProp*, unsigned long long) {
  return Call(__func__, [&](State& state, Lock& lock) -> CUresult {
    if (size == 0 || size % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
    if (const RootPtr root = state.primaries[0].root; root != nullptr) {
      const CUresult quiet = state.AwaitQuiet(lock, root);
      if (quiet != CUDA_SUCCESS) return quiet;
    }
    const uint64_t limit = state.settings.memory_bytes;
    if (state.memory_used > limit || size > limit - state.memory_used) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const int file = memfd_create("fake GPU memory", MFD_CLOEXEC);
    if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    if (ftruncate(file, static_cast<off_t>(size)) != 0) {
      close(file);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *handle = State::NewHandle();
    state.physical[*handle] = {size, file};
    state.memory_used += size;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  return Call(__func__, [&](State& state, Lock&) {
    const auto found = state.physical.find(handle);
    if (found == state.physical.end()) {
      ++state.stale_uses;
      return CUDA_ERROR_INVALID_VALUE;
    }
    // What is mapped stays until it is unmapped.
    close(found->second.file);
    state.memory_used -= found->second.size;
    state.physical.erase(found);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                          CUmemGenericAllocationHandle handle,
                          unsigned long long) {
  return Call(__func__, [&](State& state, Lock&) {
    const auto reservation = state.reservations.find(address);
    const auto found = state.physical.find(handle);
    if (reservation == state.reservations.end() ||
        found == state.physical.end() || offset != 0 ||
        size > reservation->second || size > found->second.size ||
        state.memory.contains(address)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (mmap(Pointer(address), size, PROT_NONE, MAP_SHARED | MAP_FIXED,
             found->second.file, 0) == MAP_FAILED) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    state.memory[address] = {size, MemoryRange::Kind::kMapped, nullptr};
    ++state.memory_changes;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr address, size_t size,
                                const CUmemAccessDesc*, size_t) {
  return Call(__func__, [&](State& state, Lock&) {
    const auto found = state.memory.find(address);
    if (found == state.memory.end() || found->second.size != size ||
        found->second.kind != MemoryRange::Kind::kMapped ||
        mprotect(Pointer(address), size, PROT_READ | PROT_WRITE) != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t size) {
  return Call(__func__, [&](State& state, Lock&) {
    const auto found = state.memory.find(address);
    if (found == state.memory.end() || found->second.size != size ||
        found->second.kind != MemoryRange::Kind::kMapped) {
      ++state.stale_uses;
      return CUDA_ERROR_INVALID_VALUE;
    }
    state.memory.erase(found);
    ++state.memory_changes;
    return Blank(address, size) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  });
}

}  // extern "C"
