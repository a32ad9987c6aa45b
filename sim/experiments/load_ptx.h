// Loads kernels that are not workloads: persistent blocks and the interrupt
// routine.
#ifndef CARILLON_SIM_EXPERIMENTS_LOAD_PTX_H_
#define CARILLON_SIM_EXPERIMENTS_LOAD_PTX_H_

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "sim/exec/memory.h"
#include "sim/exec/program.h"

namespace carillon::sim::figures {

// `file` is for messages. Errors: those of the parser and of Lower().
absl::StatusOr<std::shared_ptr<const Program>> LoadPtx(
    std::span<const std::byte> text, const char* file, Memory* memory);
// Loads sim/timing/edge/isr.cu, for timing::Interrupts.
absl::StatusOr<std::shared_ptr<const Program>> LoadRoutine(Memory* memory);

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_LOAD_PTX_H_
