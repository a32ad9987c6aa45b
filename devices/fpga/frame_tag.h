// What travels behind a frame's pixels to the end of an imaging pipeline.
#ifndef CARILLON_DEVICES_FPGA_FRAME_TAG_H_
#define CARILLON_DEVICES_FPGA_FRAME_TAG_H_

#include <cstdint>

#include "base/clock.h"

namespace carillon::fpga {

//   0       8        16       24           32            40      44       48
//   +-------+--------+--------+------------+-------------+-------+--------+
//   | magic | stream | number | exposed ns | deadline ns | width | height |
//   +-------+--------+--------+------------+-------------+-------+--------+
struct FrameTag {
  // "FRAMETAG", little endian.
  static constexpr uint64_t kMagic = 0x474154454d415246;

  uint64_t magic = kMagic;
  uint64_t stream = 0;  // another one for each start of the source
  uint64_t number = 0;  // from 0 on; a frame that was dropped has one, too
  Nanoseconds exposed_ns = 0;   // by the testbed's time
  Nanoseconds deadline_ns = 0;  // when the next frame is due; 0: no rate
  uint32_t width = 0;
  uint32_t height = 0;
};
static_assert(sizeof(FrameTag) == 48);

}  // namespace carillon::fpga

#endif  // CARILLON_DEVICES_FPGA_FRAME_TAG_H_
