// Products of square matrices of small integers. Floats hold them exactly, so
// results are compared bit by bit.
#include <random>

#include "base/status.h"
#include "devices/cpu_host/workload.h"
#include "fmt/format.h"

namespace carillon::cpu_host {
namespace {

constexpr uint32_t kTile = 16;
constexpr uint32_t kSamples = 64;  // elements that each run compares

class Matmul : public Workload {
 public:
  explicit Matmul(const WorkloadOptions& options)
      : n_(options.size), priority_(options.priority), random_(options.seed) {}

  uint64_t submission_bytes() const override {
    return 2 * bytes() + shm::kPageSize;
  }
  uint64_t completion_bytes() const override {
    return bytes() + shm::kPageSize;
  }

  absl::Status Prepare(edge::Device& device) override {
    edge::Buffer buffers[3];
    for (int i = 0; i < 3; ++i) {
      ASSIGN_OR_RETURN(
          buffers[i],
          device.AllocateBuffer(
              i < 2 ? edge::Place::kInput : edge::Place::kOutput, bytes()));
    }
    a_ = reinterpret_cast<float*>(buffers[0].bytes.data());
    b_ = reinterpret_cast<float*>(buffers[1].bytes.data());
    c_ = reinterpret_cast<const float*>(buffers[2].bytes.data());
    Fill(b_);
    const uint32_t tiles = (n_ + kTile - 1) / kTile;
    spec_.kernel = "matmul";
    spec_.grid = {tiles, tiles, 1};
    spec_.block = {kTile, kTile, 1};
    spec_.priority = priority_;
    spec_.parameters = {edge::Fixed("a", buffers[0]),
                        edge::Fixed("b", buffers[1]),
                        edge::Fixed("c", buffers[2]), edge::Constant("n", n_)};
    return absl::OkStatus();
  }

  absl::StatusOr<RunFigures> Run(edge::Device& device) override {
    // A new matrix each time keeps the last run's result from passing for this
    // one's.
    Fill(a_);
    RunFigures figures;
    RETURN_IF_ERROR(LaunchAndCount(device, spec_, &figures));
    return figures;
  }

  std::string Verify() const override {
    for (uint32_t i = 0; i < kSamples; ++i) {
      const uint64_t element =
          (i * 0x9e3779b97f4a7c15ull) % (uint64_t{n_} * n_);
      const uint64_t row = element / n_;
      const uint64_t column = element % n_;
      float expected = 0;
      for (uint64_t k = 0; k < n_; ++k)
        expected += a_[row * n_ + k] * b_[k * n_ + column];
      if (c_[element] == expected) continue;
      return fmt::format("element ({}, {}) is {}, expected {}", row, column,
                         c_[element], expected);
    }
    return "";
  }

 private:
  uint64_t bytes() const { return uint64_t{n_} * n_ * sizeof(float); }
  // Integers from -8 to 8: sums of 4096 products stay below 2^24.
  void Fill(float* matrix) {
    for (uint64_t i = 0; i < uint64_t{n_} * n_; ++i) {
      matrix[i] = static_cast<float>(static_cast<int>(random_() % 17) - 8);
    }
  }

  const uint32_t n_;
  const uint32_t priority_;
  std::mt19937 random_;
  float* a_ = nullptr;
  float* b_ = nullptr;
  const float* c_ = nullptr;
  edge::Device::LaunchSpec spec_;
};

}  // namespace

std::unique_ptr<Workload> MakeMatmul(const WorkloadOptions& options) {
  return std::make_unique<Matmul>(options);
}

}  // namespace carillon::cpu_host
