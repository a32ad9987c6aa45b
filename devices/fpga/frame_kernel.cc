#include "devices/fpga/frame_kernel.h"

#include <array>
#include <cmath>
#include <cstring>

#include "base/status.h"
#include "devices/fpga/fpga_options.h"
#include "devices/fpga/references.h"
#include "fmt/format.h"

namespace carillon::fpga {
namespace {

uint32_t DivideUp(uint64_t count, uint32_t by) {
  return static_cast<uint32_t>((count + by - 1) / by);
}

class DctKernel : public FrameKernel {
 public:
  static constexpr uint32_t kThreads = 64;

  DctKernel(uint32_t width, uint32_t height)
      : width_(width),
        height_(height),
        coefficients_(DctBlocks(width, height) * 64) {}

  uint64_t result_bytes() const override {
    return coefficients_ * sizeof(float);
  }

  absl::Status Prepare(edge::Device&, const FrameBuffers& buffers,
                       edge::EventSpec* spec) override {
    spec->kernel = kDctKernel;
    spec->grid = {DivideUp(DctBlocks(width_, height_), kThreads), 1, 1};
    spec->block = {kThreads, 1, 1};
    spec->parameters = {
        edge::Fixed("image", buffers.frames,
                    {.length = buffers.frame_bytes,
                     .slot_stride = buffers.frame_stride}),
        edge::Fixed(
            "coefficients", buffers.results,
            {.length = result_bytes(), .slot_stride = buffers.result_stride}),
        edge::Constant("width", width_), edge::Constant("height", height_)};
    return absl::OkStatus();
  }

  std::string Check(const GreyImage& frame,
                    std::span<const std::byte> result) const override {
    const std::vector<double> expected = Dct8x8(frame);
    const std::vector<float> found = Coefficients(result);
    for (uint64_t i = 0; i < expected.size(); ++i) {
      // Written so that a NaN counts as wrong.
      if (std::fabs(found[i] - expected[i]) <= kDctTolerance) continue;
      return fmt::format("coefficient {} of block {} is {}, expected {:.3f}",
                         i % 64, i / 64, found[i], expected[i]);
    }
    return "";
  }

  GreyImage ToImage(std::span<const std::byte> result) const override {
    return InverseDct8x8(width_, height_, Coefficients(result).data());
  }

  // Shows magnitudes on a logarithmic scale, each block in its pixels' place.
  GreyImage ToPicture(std::span<const std::byte> result) const override {
    const std::vector<float> coefficients = Coefficients(result);
    const uint32_t blocks_x = DivideUp(width_, 8);
    GreyImage picture{.width = blocks_x * 8,
                      .height = DivideUp(height_, 8) * 8,
                      .pixels = {}};
    picture.pixels.resize(uint64_t{picture.width} * picture.height);
    for (uint64_t i = 0; i < coefficients.size(); ++i) {
      const uint64_t block = i / 64;
      const uint64_t x = block % blocks_x * 8 + i % 8;
      const uint64_t y = block / blocks_x * 8 + i % 64 / 8;
      // The largest magnitude is 1024.
      const double shade = 25.5 * std::log2(1 + std::fabs(coefficients[i]));
      picture.pixels[y * picture.width + x] =
          shade < 255 ? static_cast<uint8_t>(std::lround(shade)) : 255;
    }
    return picture;
  }

 private:
  // Copies the result out of shared memory.
  std::vector<float> Coefficients(std::span<const std::byte> result) const {
    std::vector<float> coefficients(coefficients_);
    std::memcpy(coefficients.data(), result.data(), result_bytes());
    return coefficients;
  }

  const uint32_t width_;
  const uint32_t height_;
  const uint64_t coefficients_;
};

class ConvKernel : public FrameKernel {
 public:
  static constexpr uint32_t kThreads = 16;  // a side
  static constexpr uint32_t kShift = kSmoothingShift;
  static constexpr const auto& kWeights = kSmoothingWeights;

  ConvKernel(uint32_t width, uint32_t height)
      : width_(width), height_(height) {}

  uint64_t result_bytes() const override { return uint64_t{width_} * height_; }
  uint64_t extra_input_bytes() const override { return sizeof(kWeights); }

  absl::Status Prepare(edge::Device& device, const FrameBuffers& buffers,
                       edge::EventSpec* spec) override {
    ASSIGN_OR_RETURN(auto weights, device.AllocateBuffer(edge::Place::kInput,
                                                         sizeof(kWeights)));
    std::memcpy(weights.bytes.data(), kWeights.data(), sizeof(kWeights));
    spec->kernel = kConvKernel;
    spec->grid = {DivideUp(width_, kThreads), DivideUp(height_, kThreads), 1};
    spec->block = {kThreads, kThreads, 1};
    spec->parameters = {edge::Fixed("image", buffers.frames,
                                    {.length = buffers.frame_bytes,
                                     .slot_stride = buffers.frame_stride}),
                        edge::Fixed("weights", weights),
                        edge::Fixed("out", buffers.results,
                                    {.length = result_bytes(),
                                     .slot_stride = buffers.result_stride}),
                        edge::Constant("width", width_),
                        edge::Constant("height", height_),
                        edge::Constant("shift", kShift)};
    return absl::OkStatus();
  }

  std::string Check(const GreyImage& frame,
                    std::span<const std::byte> result) const override {
    const GreyImage expected = Conv5x5(frame, kWeights, kShift);
    const GreyImage found = ToImage(result);
    for (uint64_t i = 0; i < expected.pixels.size(); ++i) {
      if (found.pixels[i] == expected.pixels[i]) continue;
      return fmt::format("pixel ({}, {}) is {}, expected {}", i % width_,
                         i / width_, found.pixels[i], expected.pixels[i]);
    }
    return "";
  }

  GreyImage ToImage(std::span<const std::byte> result) const override {
    GreyImage image{.width = width_, .height = height_, .pixels = {}};
    image.pixels.resize(result_bytes());
    std::memcpy(image.pixels.data(), result.data(), result_bytes());
    return image;
  }

 private:
  const uint32_t width_;
  const uint32_t height_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FrameKernel>> MakeFrameKernel(
    const std::string& name, uint32_t width, uint32_t height) {
  if (name == kDctKernel) return std::make_unique<DctKernel>(width, height);
  if (name == kConvKernel) return std::make_unique<ConvKernel>(width, height);
  return absl::NotFoundError(
      fmt::format("no frame kernel '{}'; there are {} and {}", name, kDctKernel,
                  kConvKernel));
}

}  // namespace carillon::fpga
