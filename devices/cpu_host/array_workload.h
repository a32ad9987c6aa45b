// A workload of one launch a run: arrays in, arrays out, and numbers. What a
// kernel of kernels/background needs is a class derived from this.
#ifndef CARILLON_DEVICES_CPU_HOST_ARRAY_WORKLOAD_H_
#define CARILLON_DEVICES_CPU_HOST_ARRAY_WORKLOAD_H_

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "devices/cpu_host/workload.h"

namespace carillon::cpu_host {

class ArrayWorkload : public Workload {
 public:
  uint64_t submission_bytes() const override;
  uint64_t completion_bytes() const override;
  absl::Status Prepare(edge::Device& device) override;
  absl::StatusOr<RunFigures> Run(edge::Device& device) override;
  // Compares some elements of each output.
  std::string Verify() const override;

 protected:
  ArrayWorkload(std::string kernel, const edge::Dim3& grid,
                const edge::Dim3& block, const WorkloadOptions& options);

  // For the constructor: an array's number counts from 0, in the order of the
  // calls, inputs and outputs together.
  template <class T>
  void AddInput(std::string name, uint64_t count) {
    arrays_.push_back({.name = std::move(name), .bytes = count * sizeof(T)});
  }
  template <class T>
  void AddOutput(std::string name, uint64_t count) {
    arrays_.push_back({.name = std::move(name),
                       .bytes = count * sizeof(T),
                       .count = count,
                       .at = [](const std::byte* data, uint64_t i) {
                         return static_cast<double>(
                             reinterpret_cast<const T*>(data)[i]);
                       }});
  }
  void AddConstant(edge::Parameter constant) {
    spec_.parameters.push_back(std::move(constant));
  }

  template <class T>
  std::span<T> input(size_t array) {
    return {reinterpret_cast<T*>(arrays_[array].data),
            arrays_[array].bytes / sizeof(T)};
  }
  template <class T>
  std::span<const T> input(size_t array) const {
    return {reinterpret_cast<const T*>(arrays_[array].data),
            arrays_[array].bytes / sizeof(T)};
  }

 private:
  struct Array {
    std::string name;
    uint64_t bytes = 0;
    // Of an output: its elements, and how to read one.
    uint64_t count = 0;
    double (*at)(const std::byte* data, uint64_t i) = nullptr;
    std::byte* data = nullptr;

    bool is_output() const { return at != nullptr; }
  };

  uint64_t BytesOf(bool outputs) const;
  // New inputs for each run keep the last run's result from passing for this
  // one's.
  virtual void Fill(std::mt19937& random) = 0;
  // What an output has at these places, by definition.
  virtual std::vector<double> Expected(
      size_t array, std::span<const uint64_t> places) const = 0;
  virtual double tolerance() const = 0;

  std::mt19937 random_;
  std::vector<Array> arrays_;
  edge::Device::LaunchSpec spec_;
};

}  // namespace carillon::cpu_host

#endif  // CARILLON_DEVICES_CPU_HOST_ARRAY_WORKLOAD_H_
