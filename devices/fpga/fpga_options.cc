#include "devices/fpga/fpga_options.h"

#include "devices/fpga/image.h"
#include "devices/sdk/device_options.h"
#include "shm/layout.h"

namespace carillon::fpga {

using enum OptionType;

std::vector<Option> OptionTable(FpgaOptions& options) {
  constexpr uint64_t kMaxPath = 4096;
  StreamOptions& stream = options.stream;
  return {
      {.flag = "--source",
       .key = "source",
       .type = kPath,
       .field = &options.source,
       .min = 1,
       .max = kMaxPath,
       .choices = {kCardiacSource},
       .help = "frames: a synthetic cardiac wave, or a PGM or PPM file, or a "
               "folder of them"},
      ChoiceOption("--kernel", "kernel", &options.kernel,
                   {kDctKernel, kConvKernel},
                   "event kernel that every frame launches"),
      {.flag = "--size",
       .key = "size",
       .type = kDimensions,
       .field = &options.size,
       .min = 1,
       .max = kMaxImageSide,
       .help = "of a cardiac frame, pixels"},
      {.flag = "--fps",
       .key = "fps",
       .type = kDecimal,
       .field = &stream.fps,
       .max = 1'000'000,
       .help = "frames a second; 0: as fast as they are done"},
      IntegerOption("--frames", "frames", &stream.frames, 0, 1'000'000'000'000,
                    "ends after this many; 0: never"),
      BooleanOption("--check", "check", &stream.check,
                    "compare every result with the known answer"),
      PathOption("--store", "store", &stream.store,
                 "folder to write results to (needs `frames`)"),
      BooleanOption("--store-raw", "store_raw", &stream.store_picture,
                    "store coefficients, not the image that they stand for"),
      edge::RingOption(stream.ring, shm::kMaxRingEntries),
      edge::PriorityOption(stream.priority,
                           "of the device's event kernels; 7 is the highest"),
      edge::DeviceOption("--hand-to", "hand_to", stream.hand_to,
                         "hand each processed frame on to this device, a "
                         "cpu_host with `take_from` (needs kernel conv5x5, "
                         "source cardiac)"),
  };
}

absl::Status Check(const FpgaOptions& options) {
  if (!options.stream.hand_to.empty() &&
      (options.kernel != kConvKernel || options.source != kCardiacSource)) {
    return absl::InvalidArgumentError(
        "--hand-to: the device that takes the frames knows only those of "
        "--source cardiac (source) and --kernel conv5x5 (kernel)");
  }
  if (options.stream.store.empty() || options.stream.frames != 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "--store: it would fill the disk; say how many --frames (frames)");
}

}  // namespace carillon::fpga
