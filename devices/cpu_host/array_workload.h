// A workload of arrays in, arrays out, and numbers: always the same launches, one
// after the other. What a kernel of kernels/background needs is a class derived
// from this.
#ifndef CARILLON_DEVICES_CPU_HOST_ARRAY_WORKLOAD_H_
#define CARILLON_DEVICES_CPU_HOST_ARRAY_WORKLOAD_H_

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
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
  // The first launch.
  ArrayWorkload(std::string kernel, const edge::Dim3& grid,
                const edge::Dim3& block, const WorkloadOptions& options);

  // What follows is for the constructor.
  //
  // A further launch, once those before it have ended.
  void AddLaunch(std::string kernel, const edge::Dim3& grid,
                 const edge::Dim3& block);
  // Make an array, which is also the argument of this name for the launch that
  // was added last. An array's number counts from 0, in the order of the calls.
  template <class T>
  void AddInput(std::string name, uint64_t count) {
    Add<T>(Role::kInput, std::move(name), count);
  }
  template <class T>
  void AddOutput(std::string name, uint64_t count) {
    Add<T>(Role::kOutput, std::move(name), count);
  }
  // An output that begins each run as a copy of its input().
  template <class T>
  void AddState(std::string name, uint64_t count) {
    Add<T>(Role::kState, std::move(name), count);
  }
  // Only kernels see it.
  template <class T>
  void AddScratch(std::string name, uint64_t count) {
    Add<T>(Role::kScratch, std::move(name), count);
  }
  // Makes an array of another launch an argument of the last one.
  void Use(std::string name, size_t array) {
    launches_.back().arguments.push_back({std::move(name), array});
  }
  void AddConstant(edge::Parameter constant) {
    launches_.back().spec.parameters.push_back(std::move(constant));
  }

  template <class T>
  std::span<T> input(size_t array) {
    return View<T>(arrays_[array].written, array);
  }
  template <class T>
  std::span<const T> input(size_t array) const {
    return View<const T>(arrays_[array].written, array);
  }
  template <class T>
  std::span<const T> output(size_t array) const {
    return View<const T>(arrays_[array].read, array);
  }

  // Of one run, after Fill() and after states have been reset: all launches, if
  // a workload does not decide otherwise.
  virtual absl::Status RunLaunches(edge::Device& device, RunFigures* figures);
  absl::Status RunLaunch(size_t launch, edge::Device& device,
                         RunFigures* figures);
  // Copies a state's input() to it.
  absl::Status Reset(size_t state, edge::Device& device, RunFigures* figures);

  // What an output has at these places; for a workload that says so, something
  // that follows from it.
  virtual std::vector<double> Found(size_t array,
                                    std::span<const uint64_t> places) const;

 private:
  enum class Role { kInput, kOutput, kState, kScratch };
  struct Array {
    std::string name;
    Role role = Role::kInput;
    uint64_t bytes = 0;
    uint64_t count = 0;
    double (*at)(const std::byte* data, uint64_t i) = nullptr;
    std::byte* written = nullptr;     // by this process: inputs and states
    const std::byte* read = nullptr;  // by this process: outputs and states
    edge::Buffer buffer;              // the kernels'
    edge::Device::LaunchSpec reset;   // of a state

    bool is_written() const {
      return role == Role::kInput || role == Role::kState;
    }
    bool is_read() const {
      return role == Role::kOutput || role == Role::kState;
    }
  };
  struct Argument {
    std::string name;
    size_t array = 0;
  };
  struct Launch {
    edge::Device::LaunchSpec spec;
    std::vector<Argument> arguments;
  };

  template <class T>
  void Add(Role role, std::string name, uint64_t count) {
    Use(name, arrays_.size());
    Array array{.name = std::move(name),
                .role = role,
                .bytes = count * sizeof(T),
                .count = count};
    if constexpr (std::is_arithmetic_v<T>) {
      array.at = [](const std::byte* data, uint64_t i) {
        return static_cast<double>(reinterpret_cast<const T*>(data)[i]);
      };
    }
    arrays_.push_back(std::move(array));
  }
  template <class T, class Byte>
  std::span<T> View(Byte* bytes, size_t array) const {
    return {reinterpret_cast<T*>(bytes), arrays_[array].bytes / sizeof(T)};
  }
  absl::Status PrepareArray(edge::Device& device, Array* array);

  // New inputs for each run keep the last run's result from passing for this
  // one's.
  virtual void Fill(std::mt19937& random) = 0;
  // The same by definition. Empty: this output is not compared.
  virtual std::vector<double> Expected(
      size_t array, std::span<const uint64_t> places) const = 0;
  virtual double tolerance() const = 0;

  std::mt19937 random_;
  const uint32_t priority_;
  std::vector<Array> arrays_;
  std::vector<Launch> launches_;
};

// The numbers at these places.
template <class T>
std::vector<double> At(const T& numbers, std::span<const uint64_t> places) {
  std::vector<double> found;
  for (const uint64_t place : places) {
    found.push_back(static_cast<double>(numbers[place]));
  }
  return found;
}

}  // namespace carillon::cpu_host

#endif  // CARILLON_DEVICES_CPU_HOST_ARRAY_WORKLOAD_H_
