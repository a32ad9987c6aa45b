// The memory that one launch can reach, by its arguments.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_REMOTE_ARGUMENT_RANGES_H_
#define CARILLON_GPU_DAEMON_BACKENDS_REMOTE_ARGUMENT_RANGES_H_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/simt/kernel_info.h"
#include "kernels/simt/types.h"

namespace carillon::gpud {

struct ArgumentRange {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
};

// What a buffer parameter of kind kReadBuffer lets the kernel read, and one of
// kWriteBuffer write. `args`: as ArgumentPlan::Build() has made them. Requires a
// buffer with a count (simt::BufferForm::kSpan).
inline ArgumentRange RangeOf(const simt::ParamInfo& info,
                             const std::byte* args) {
  assert(info.is_buffer() && info.buffer_form == simt::BufferForm::kSpan);
  std::byte* data;
  uint64_t count;
  std::memcpy(&data, args + info.offset, sizeof(data));
  std::memcpy(&count, args + info.offset + sizeof(data), sizeof(count));
  return {data, count * info.element_size};
}

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_REMOTE_ARGUMENT_RANGES_H_
