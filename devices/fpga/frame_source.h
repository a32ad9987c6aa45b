// Provides frames. A source is one class here and one line in
// MakeFrameSource().
#ifndef CARILLON_DEVICES_FPGA_FRAME_SOURCE_H_
#define CARILLON_DEVICES_FPGA_FRAME_SOURCE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "devices/fpga/cardiac_wave.h"

namespace carillon::fpga {

// Not thread safe.
class FrameSource {
 public:
  virtual ~FrameSource() = default;
  virtual uint32_t width() const = 0;
  virtual uint32_t height() const = 0;
  // Writes frame `index` row by row; frames may be asked for in any order.
  virtual void Render(uint64_t index, std::span<uint8_t> pixels) = 0;
  // The wave that the frames show, if any.
  virtual const CardiacWave* wave() const { return nullptr; }
};

// `source` is "cardiac", a PGM or PPM file, or a directory of such files, which
// are shown in the order of their names, again and again. `width` and `height`
// are the size of cardiac frames. Errors: NotFound, InvalidArgument (no image,
// a malformed one, images of different sizes).
absl::StatusOr<std::unique_ptr<FrameSource>> MakeFrameSource(
    const std::string& source, uint32_t width, uint32_t height);

}  // namespace carillon::fpga

#endif  // CARILLON_DEVICES_FPGA_FRAME_SOURCE_H_
