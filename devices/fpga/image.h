// Grey images, and reading and writing them as netpbm files.
#ifndef CARILLON_DEVICES_FPGA_IMAGE_H_
#define CARILLON_DEVICES_FPGA_IMAGE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace carillon::fpga {

inline constexpr uint32_t kMaxImageSide = 8192;

struct GreyImage {
  uint32_t width = 0;
  uint32_t height = 0;
  std::vector<uint8_t> pixels;  // row by row

  friend bool operator==(const GreyImage&, const GreyImage&) = default;
};

// Reads a PGM or PPM image, text (P2, P3) or binary (P5, P6), with samples of 8
// or 16 bits. Samples are scaled to 0..255; colours become luma (BT.601).
// Ignores bytes after the image, since netpbm files may hold several. Errors:
// InvalidArgument, with what is wrong and where.
absl::StatusOr<GreyImage> ParseNetpbm(std::string_view file);

std::string FormatPgm(const GreyImage& image);

// The same for files. Errors: those of ReadFile(), InvalidArgument (as
// ParseNetpbm, naming the file), Internal (cannot be written).
absl::StatusOr<GreyImage> ReadImage(const std::string& path);
absl::Status WritePgm(const std::string& path, const GreyImage& image);

}  // namespace carillon::fpga

#endif  // CARILLON_DEVICES_FPGA_IMAGE_H_
