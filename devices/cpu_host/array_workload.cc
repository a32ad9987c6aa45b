#include "devices/cpu_host/array_workload.h"

#include <cmath>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace carillon::cpu_host {
namespace {

constexpr uint32_t kSamples = 64;  // elements of an output that a run compares
constexpr uint32_t kEchoThreads = 256;

// echo copies words.
uint64_t WholeWords(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

// Each array begins on a page of its own, at most.
uint64_t RoomOf(uint64_t bytes) { return bytes + shm::kPageSize; }

}  // namespace

ArrayWorkload::ArrayWorkload(std::string kernel, const edge::Dim3& grid,
                             const edge::Dim3& block,
                             const WorkloadOptions& options)
    : random_(options.seed), priority_(options.priority) {
  AddLaunch(std::move(kernel), grid, block);
}

void ArrayWorkload::AddLaunch(std::string kernel, const edge::Dim3& grid,
                              const edge::Dim3& block) {
  launches_.push_back({.spec = {.kernel = std::move(kernel),
                                .grid = grid,
                                .block = block,
                                .priority = priority_}});
}

uint64_t ArrayWorkload::submission_bytes() const {
  uint64_t bytes = shm::kPageSize;
  for (const Array& array : arrays_) {
    if (array.is_written()) bytes += RoomOf(array.bytes);
  }
  return bytes;
}
uint64_t ArrayWorkload::completion_bytes() const {
  uint64_t bytes = shm::kPageSize;
  for (const Array& array : arrays_) {
    if (array.is_read()) bytes += RoomOf(array.bytes);
  }
  return bytes;
}

absl::Status ArrayWorkload::Prepare(edge::Device& device) {
  for (Array& array : arrays_) RETURN_IF_ERROR(PrepareArray(device, &array));
  for (Launch& launch : launches_) {
    for (const auto& [name, array] : launch.arguments) {
      launch.spec.parameters.push_back(edge::Fixed(
          name, arrays_[array].buffer, {.length = arrays_[array].bytes}));
    }
  }
  return absl::OkStatus();
}

absl::Status ArrayWorkload::PrepareArray(edge::Device& device, Array* array) {
  const auto allocate = [&](edge::Place place) {
    return device.AllocateBuffer(place, WholeWords(array->bytes));
  };
  if (array->role == Role::kScratch) {
    ASSIGN_OR_RETURN(array->buffer, allocate(edge::Place::kGpuMemory));
  }
  if (array->is_written()) {
    ASSIGN_OR_RETURN(array->buffer, allocate(edge::Place::kInput));
    array->written = array->buffer.bytes.data();
  }
  if (array->is_read()) {
    const edge::Buffer input = array->buffer;
    ASSIGN_OR_RETURN(array->buffer, allocate(edge::Place::kOutput));
    array->read = array->buffer.bytes.data();
    if (array->role == Role::kState) {
      const auto words = static_cast<uint32_t>(WholeWords(array->bytes) / 4);
      array->reset = {.kernel = "echo",
                      .grid = {(words + kEchoThreads - 1) / kEchoThreads, 1, 1},
                      .block = {kEchoThreads, 1, 1},
                      .priority = priority_,
                      .parameters = {edge::Fixed("in", input),
                                     edge::Fixed("out", array->buffer)}};
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<RunFigures> ArrayWorkload::Run(edge::Device& device) {
  Fill(random_);
  RunFigures figures;
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (arrays_[i].role == Role::kState) {
      RETURN_IF_ERROR(Reset(i, device, &figures));
    }
  }
  RETURN_IF_ERROR(RunLaunches(device, &figures));
  return figures;
}

absl::Status ArrayWorkload::RunLaunches(edge::Device& device,
                                        RunFigures* figures) {
  for (size_t i = 0; i < launches_.size(); ++i) {
    RETURN_IF_ERROR(RunLaunch(i, device, figures));
  }
  return absl::OkStatus();
}

absl::Status ArrayWorkload::RunLaunch(size_t launch, edge::Device& device,
                                      RunFigures* figures) {
  return LaunchAndCount(device, launches_[launch].spec, figures);
}

absl::Status ArrayWorkload::Reset(size_t state, edge::Device& device,
                                  RunFigures* figures) {
  return LaunchAndCount(device, arrays_[state].reset, figures);
}

std::vector<double> ArrayWorkload::Found(
    size_t array, std::span<const uint64_t> places) const {
  std::vector<double> found;
  for (const uint64_t place : places) {
    found.push_back(arrays_[array].at(arrays_[array].read, place));
  }
  return found;
}

std::string ArrayWorkload::Verify() const {
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const Array& array = arrays_[i];
    if (!array.is_read()) continue;
    std::vector<uint64_t> places;
    for (uint32_t sample = 0; sample < kSamples; ++sample) {
      places.push_back(sample * 0x9e3779b97f4a7c15ull % array.count);
    }
    const std::vector<double> expected = Expected(i, places);
    if (expected.empty()) continue;
    const std::vector<double> found = Found(i, places);
    for (uint32_t sample = 0; sample < kSamples; ++sample) {
      // Written so that a NaN counts as different.
      if (std::abs(found[sample] - expected[sample]) <= tolerance()) continue;
      return fmt::format("{} {} is {}, expected {}", array.name, places[sample],
                         found[sample], expected[sample]);
    }
  }
  return "";
}

}  // namespace carillon::cpu_host
