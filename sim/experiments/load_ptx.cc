#include "sim/experiments/load_ptx.h"

#include <string>
#include <utility>

#include "base/status.h"
#include "sim/experiments/isr_ptx.h"
#include "sim/lower/lower.h"

namespace carillon::sim::figures {

absl::StatusOr<std::shared_ptr<const Program>> LoadPtx(
    std::span<const std::byte> text, const char* file, Memory* memory) {
  ASSIGN_OR_RETURN(
      auto module,
      ptx::ParseModule(
          std::string(reinterpret_cast<const char*>(text.data()), text.size()),
          file));
  return Lower(std::make_shared<const ptx::Module>(std::move(module)), memory);
}

absl::StatusOr<std::shared_ptr<const Program>> LoadRoutine(Memory* memory) {
  return LoadPtx(IsrPtx(), "isr.ptx", memory);
}

}  // namespace carillon::sim::figures
