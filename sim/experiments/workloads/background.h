// The background kernels of EDGE's figures as whole programs, and those of PEP's
// evaluation in one launch each: their buffers, their sequence of launches, and
// the check of their output.
//
//   auto background = *MakeBackground("BFS", Size::kSmall, &kernels);
//   background->Start(seed);
//   while (auto launch = background->Next()) Run(*launch);  // one by one
//   background->Check();
#ifndef CARILLON_SIM_EXPERIMENTS_WORKLOADS_BACKGROUND_H_
#define CARILLON_SIM_EXPERIMENTS_WORKLOADS_BACKGROUND_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/experiments/workloads/kernels.h"

namespace carillon::sim::figures {

enum class Size : uint8_t {
  kSmall,  // for tests
  kFull,   // EDGE's, where the papers or the artifact say it
};

// Not thread safe.
class Background {
 public:
  virtual ~Background() = default;

  std::string_view name() const { return name_; }
  // Describes the size: "512x512 matrices".
  const std::string& size() const { return size_; }

  // The registers per thread to launch it with; 0: what its kernels need.
  virtual uint32_t registers() const { return 0; }

  // Fills the buffers from the seed and rewinds to the first launch.
  void Start(uint32_t seed);
  // The next launch, once the previous one has ended; none after the last.
  virtual std::optional<Launch> Next() = 0;
  // Checks the output after the last launch. Errors: Internal (a kernel
  // failed), DataLoss ("BFS: cost 17 is 3, not 4").
  absl::Status Check() const;

 protected:
  Background(std::string_view name, std::string size, Kernels* kernels);

  virtual void Fill(std::mt19937& random) = 0;
  virtual absl::Status CheckOutput() const = 0;
  template <class Args>
  Launch Make(const simt::KernelInfo& kernel, const Dim3& grid,
              const Dim3& block, const Args& args) const {
    return kernels_->Make(kernel, grid, block, args, failure_);
  }
  // `kernel` of Next()'s sequence; counts from 0.
  uint32_t step_ = 0;

 private:
  const std::string_view name_;
  const std::string size_;
  Kernels* const kernels_;
  const Array<uint32_t> failure_;
};

// EDGE's are BP, BFS, KMN, LUD, SRAD, SC, MM, CONV1, CONV2, HRTWL and HOTSP.
// pep_kernels.h says which are PEP's.
std::vector<std::string_view> BackgroundNames();
// `kernels` must outlive it. Errors: NotFound (names those there are),
// ResourceExhausted (memory).
absl::StatusOr<std::unique_ptr<Background>> MakeBackground(
    std::string_view name, Size size, Kernels* kernels);

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_WORKLOADS_BACKGROUND_H_
