// NVIDIA's management library, loaded at run time: power, and the GPU's name.
#ifndef CARILLON_TOOLS_BENCH_LAUNCH_NVML_H_
#define CARILLON_TOOLS_BENCH_LAUNCH_NVML_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace carillon::bench {

// The GPU that a CUDA program sees as its first one. One thread.
class Nvml {
 public:
  // Errors: Unavailable, with the reason (no library, no driver, no GPU).
  static absl::StatusOr<std::unique_ptr<Nvml>> Load();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::string gpu() const;     // "NVIDIA H200"
  std::string driver() const;  // its version

  // The present power, as the driver averages it. Errors: Unavailable.
  absl::StatusOr<double> Watts() const;
  // The energy used since the driver was loaded. Errors: Unavailable (GPUs
  // before Volta).
  absl::StatusOr<uint64_t> Millijoules() const;

 private:
  struct Library;
  explicit Nvml(std::unique_ptr<Library> library);

  const std::unique_ptr<Library> library_;
};

// Measures the mean power from its construction to Mean().
class PowerMeter {
 public:
  explicit PowerMeter(const Nvml* nvml);
  // Takes a sample; call it every 20 ms or so.
  void Sample();
  struct Result {
    double watts = 0;
    bool by_energy = false;  // by the energy counter; else the mean of samples
  };
  // Errors: Unavailable.
  absl::StatusOr<Result> Mean();

 private:
  const Nvml* const nvml_;
  const std::chrono::steady_clock::time_point start_;
  std::optional<uint64_t> start_millijoules_;
  double sum_watts_ = 0;
  uint64_t samples_ = 0;
};

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_LAUNCH_NVML_H_
