// The options of the FPGA.
#ifndef CARILLON_DEVICES_FPGA_FPGA_OPTIONS_H_
#define CARILLON_DEVICES_FPGA_FPGA_OPTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/option_table.h"

namespace carillon::fpga {

// MakeFrameKernel() knows these.
inline constexpr std::string_view kDctKernel = "dct8x8";
inline constexpr std::string_view kConvKernel = "conv5x5";
// MakeFrameSource() makes this one; every other source is a file.
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
  std::string hand_to;  // the device that takes the results on; empty: none
};

struct FpgaOptions {
  std::string source{kCardiacSource};
  std::string kernel{kDctKernel};
  std::string size = "128x128";
  StreamOptions stream;
};

// The table refers to the fields of `options`.
std::vector<Option> OptionTable(FpgaOptions& options);

// Checks options together. Errors: InvalidArgument.
absl::Status Check(const FpgaOptions& options);

}  // namespace carillon::fpga

#endif  // CARILLON_DEVICES_FPGA_FPGA_OPTIONS_H_
