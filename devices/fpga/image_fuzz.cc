// Any bytes as a netpbm file: they are refused with a sentence, or give an
// image with as many pixels as it says, which is the same after it is written
// and read again.
#include "base/testing/fuzz_input.h"
#include "devices/fpga/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace carillon::fpga;
  const auto image = ParseNetpbm({reinterpret_cast<const char*>(data), size});
  if (!image.ok()) {
    FUZZ_CHECK(image.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(!image.status().message().empty());
    return 0;
  }
  FUZZ_CHECK(image->width >= 1 && image->width <= kMaxImageSide);
  FUZZ_CHECK(image->height >= 1 && image->height <= kMaxImageSide);
  FUZZ_CHECK(image->pixels.size() == uint64_t{image->width} * image->height);
  const auto again = ParseNetpbm(FormatPgm(*image));
  FUZZ_CHECK(again.ok() && *again == *image);
  return 0;
}
