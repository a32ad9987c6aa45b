// The file that a user's kernels come from. NVIDIA's driver takes an address and
// believes what it finds there; so the bounds are checked before.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_MODULE_IMAGE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_MODULE_IMAGE_H_

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/status.h"

namespace carillon::gpud::cuda {

// Whether an image that passed CheckModuleImage() is PTX text.
bool IsPtx(std::span<const std::byte> image);

// OK for what has the outer form of a fatbin, a cubin or PTX text and lies
// whole within `image`. Whether it is good inside, the driver says. Errors:
// InvalidArgument, naming `file` and what it is instead.
absl::Status CheckModuleImage(std::span<const std::byte> image,
                              const std::string& file);

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_MODULE_IMAGE_H_
