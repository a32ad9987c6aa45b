// For a program that is carried to a GPU: a simulated one would be half of it.
#include "tools/bench/narrow/simulated.h"

namespace carillon::bench {

const std::vector<std::string>& SimulatedPaths() {
  static const auto* const none = new std::vector<std::string>;
  return *none;
}

absl::StatusOr<sim::timing::Config> LoadSimulatedGpu(const std::string&) {
  return absl::UnimplementedError(
      "--backend sim: this program was built for GPUs, without a simulated "
      "one; "
      "the repository's narrow_bench has it");
}

absl::StatusOr<NarrowOutcome> RunSimulated(const NarrowWorkload&,
                                           std::string_view,
                                           const SimulatedOptions&) {
  return LoadSimulatedGpu("").status();
}

}  // namespace carillon::bench
