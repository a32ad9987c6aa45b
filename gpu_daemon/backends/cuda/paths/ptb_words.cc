#include "gpu_daemon/backends/cuda/paths/ptb_words.h"

#include "base/status.h"

namespace carillon::gpud::cuda {

absl::StatusOr<PtbWords> PtbWords::Make(const Driver& driver, size_t places) {
  PtbWords made;
  ASSIGN_OR_RETURN(
      made.taken_,
      DeviceBytes::Make(driver, places * sizeof(simt::BlocksTaken)));
  ASSIGN_OR_RETURN(made.words_,
                   PinnedBytes::Make(driver, places * sizeof(Words)));
  return made;
}

}  // namespace carillon::gpud::cuda
