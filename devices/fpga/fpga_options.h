// What the FPGA can be told.
#ifndef CARILLON_DEVICES_FPGA_FPGA_OPTIONS_H_
#define CARILLON_DEVICES_FPGA_FPGA_OPTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/option_table.h"

namespace carillon::fpga {

// Frame kernels (MakeFrameKernel()).
inline constexpr std::string_view kDctKernel = "dct8x8";
inline constexpr std::string_view kConvKernel = "conv5x5";
// The source that is no file (MakeFrameSource()).
inline constexpr std::string_view kCardiacSource = "cardiac";

struct StreamOptions {
  double fps = 0;       // 0: as fast as the ring allows
  uint64_t frames = 0;  // 0: until stopped
  bool check = false;   // compare every result with the reference
  std::string store;    // directory for the results; empty: none
  // The result itself rather than the image that it stands for.
  bool store_picture = false;
  uint32_t ring = 8;
  uint32_t priority = 0;
};

struct FpgaOptions {
  std::string source{kCardiacSource};
  std::string kernel{kDctKernel};
  std::string size = "128x128";
  StreamOptions stream;
};

// Refers to `options`' fields.
std::vector<Option> OptionTable(FpgaOptions& options);

// What no single option tells: InvalidArgument.
absl::Status Check(const FpgaOptions& options);

}  // namespace carillon::fpga

#endif  // CARILLON_DEVICES_FPGA_FPGA_OPTIONS_H_
