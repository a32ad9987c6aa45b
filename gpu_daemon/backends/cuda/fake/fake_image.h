// What is in the images that modules are loaded from.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_IMAGE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_IMAGE_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cuda/fake/fake_gpu.h"

namespace carillon::gpud::cuda {

struct FakeParam {
  uint32_t offset = 0;
  uint32_t size = 0;
};

struct FakeEntry {
  std::string name;
  std::vector<FakeParam> params;
  uint32_t local_bytes = 0;  // of stack, a thread
  uint32_t static_shared_bytes = 0;
  uint32_t registers = 32;  // a thread
  KernelFunction run;       // empty: as its name says
};

struct FakeGlobal {
  std::string name;
  uint64_t size = 0;
  uint64_t address = 0;  // 0: it has none yet
};

struct FakeImage {
  bool is_fatbin = false;
  std::vector<FakeEntry> entries;  // none: a fatbin of compressed PTX
  std::vector<FakeGlobal> globals;
  std::shared_ptr<const void> code;  // what `run` and globals need
};

// Parameters one after another, each aligned to its size (at most 8; structs
// too, whose alignment is not known).
std::vector<FakeParam> PlaceParams(std::span<const uint32_t> sizes);

// Errors: INVALID_IMAGE, neither fatbin nor cubin nor PTX; INVALID_PTX, with a
// sentence in `log`; UNSUPPORTED_PTX_VERSION, newer than the driver;
// NO_BINARY_FOR_GPU, all of it is for other GPUs. `compute`: major * 10 + minor.
CUresult ParseImage(const void* image, int driver_version, int compute,
                    FakeImage& parsed, std::string& log);

// The PTX in a fatbin. Errors: InvalidArgument, it is no fatbin, has none, or is
// compressed by zstd.
absl::StatusOr<std::string> PtxOfFatbin(const void* image);

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_IMAGE_H_
