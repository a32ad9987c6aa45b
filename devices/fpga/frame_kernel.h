// What the device knows of each image kernel: how to register it for frames,
// what its results must be, and how to show them. A kernel is one class and one
// line in MakeFrameKernel().
#ifndef CARILLON_DEVICES_FPGA_FRAME_KERNEL_H_
#define CARILLON_DEVICES_FPGA_FRAME_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/fpga/image.h"
#include "devices/sdk/edge.h"

namespace carillon::fpga {

// The frames and results of a ring: slot i reads frame i of `frames` and writes
// result i of `results`.
struct FrameBuffers {
  edge::Buffer frames;
  edge::Buffer results;
  uint64_t frame_bytes = 0;  // the pixels, and what lies behind them
  uint64_t frame_stride = 0;
  uint64_t result_stride = 0;
};

// Works for one size of frame. Not thread safe.
class FrameKernel {
 public:
  virtual ~FrameKernel() = default;
  virtual uint64_t result_bytes() const = 0;
  // The bytes of the kernel's own input buffers in the submission aperture,
  // besides the frames.
  virtual uint64_t extra_input_bytes() const { return 0; }
  // Sets kernel, grid, block and parameters of `spec`; may allocate buffers.
  virtual absl::Status Prepare(edge::Device& device,
                               const FrameBuffers& buffers,
                               edge::EventSpec* spec) = 0;
  // Compares a result with the plain reference. Empty if it is right, otherwise
  // a description of the first difference.
  virtual std::string Check(const GreyImage& frame,
                            std::span<const std::byte> result) const = 0;
  // The processed image that a result represents.
  virtual GreyImage ToImage(std::span<const std::byte> result) const = 0;
  // The result itself as a picture; the same as ToImage() if the result is one.
  virtual GreyImage ToPicture(std::span<const std::byte> result) const {
    return ToImage(result);
  }
};

// Errors: NotFound, naming the known kernels.
absl::StatusOr<std::unique_ptr<FrameKernel>> MakeFrameKernel(
    const std::string& name, uint32_t width, uint32_t height);

}  // namespace carillon::fpga

#endif  // CARILLON_DEVICES_FPGA_FRAME_KERNEL_H_
