// In place of on_driver.cc where there is no CUDA toolkit.
#include "tools/bench/narrow/on_driver.h"

namespace carillon::bench {

absl::StatusOr<std::unique_ptr<NarrowDriver>> NarrowDriver::Open() {
  return absl::UnimplementedError("built without CUDA");
}

}  // namespace carillon::bench
