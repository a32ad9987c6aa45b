#include "devices/cpu_host/array_workload.h"

#include <cmath>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace carillon::cpu_host {
namespace {

constexpr uint32_t kSamples = 64;  // elements of an output that a run compares

}  // namespace

ArrayWorkload::ArrayWorkload(std::string kernel, const edge::Dim3& grid,
                             const edge::Dim3& block,
                             const WorkloadOptions& options)
    : random_(options.seed) {
  spec_.kernel = std::move(kernel);
  spec_.grid = grid;
  spec_.block = block;
  spec_.priority = options.priority;
}

uint64_t ArrayWorkload::BytesOf(bool outputs) const {
  uint64_t bytes = 0;
  // Each array begins on a page of its own, at most.
  for (const Array& array : arrays_) {
    if (array.is_output() == outputs) bytes += array.bytes + shm::kPageSize;
  }
  return bytes + shm::kPageSize;
}
uint64_t ArrayWorkload::submission_bytes() const { return BytesOf(false); }
uint64_t ArrayWorkload::completion_bytes() const { return BytesOf(true); }

absl::Status ArrayWorkload::Prepare(edge::Device& device) {
  for (Array& array : arrays_) {
    ASSIGN_OR_RETURN(
        const edge::Buffer buffer,
        device.AllocateBuffer(
            array.is_output() ? edge::Place::kOutput : edge::Place::kInput,
            array.bytes));
    array.data = buffer.bytes.data();
    spec_.parameters.push_back(edge::Fixed(array.name, buffer));
  }
  return absl::OkStatus();
}

absl::StatusOr<RunFigures> ArrayWorkload::Run(edge::Device& device) {
  Fill(random_);
  RunFigures figures;
  RETURN_IF_ERROR(LaunchAndCount(device, spec_, &figures));
  return figures;
}

std::string ArrayWorkload::Verify() const {
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const Array& array = arrays_[i];
    if (!array.is_output()) continue;
    std::vector<uint64_t> places;
    for (uint32_t sample = 0; sample < kSamples; ++sample) {
      places.push_back(sample * 0x9e3779b97f4a7c15ull % array.count);
    }
    const std::vector<double> expected = Expected(i, places);
    for (uint32_t sample = 0; sample < kSamples; ++sample) {
      const double found = array.at(array.data, places[sample]);
      // Written so that a NaN counts as different.
      if (std::abs(found - expected[sample]) <= tolerance()) continue;
      return fmt::format("{} {} is {}, expected {}", array.name, places[sample],
                         found, expected[sample]);
    }
  }
  return "";
}

}  // namespace carillon::cpu_host
