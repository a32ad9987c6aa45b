// Loads kernels from PTX and gives them memory, for tests and benchmarks.
#ifndef CARILLON_SIM_TIMING_KERNEL_RUNNER_H_
#define CARILLON_SIM_TIMING_KERNEL_RUNNER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/exec/functional.h"
#include "sim/timing/gpu.h"

namespace carillon::sim::timing {

// Ends the process with a message on any failure.
class KernelRunner {
 public:
  // Loads PTX text, or a file of sim/testdata.
  void Load(std::string ptx);
  void LoadFile(const std::string& name);

  DeviceAddress Allocate(uint64_t bytes);
  // Allocates `count` values, each computed from its index.
  DeviceAddress Floats(uint64_t count, float (*value)(uint64_t));
  template <class T>
  std::span<T> At(DeviceAddress address, uint64_t count) {
    return {reinterpret_cast<T*>(Bytes(address, count * sizeof(T)).data()),
            count};
  }

  // Takes 64-bit parameters (such as pointers) first, then 32-bit ones.
  Launch MakeLaunch(const char* kernel, Dim3 grid, Dim3 block,
                    const std::vector<uint64_t>& wide,
                    const std::vector<uint32_t>& narrow = {}) const;

  // The anchors (anchor_test.cc): launches with their memory.
  Launch VectorAdd(uint32_t count);
  Launch MatrixProduct(uint32_t n);

  Memory& memory() { return memory_; }
  const Program& program() const { return *program_; }
  // The output of the launch that VectorAdd() or MatrixProduct() made last.
  std::span<const float> output();

 private:
  void Use(ptx::Module module);

  std::span<std::byte> Bytes(DeviceAddress address, uint64_t bytes);

  Memory memory_;
  std::shared_ptr<const Program> program_;
  std::vector<std::shared_ptr<const Program>> earlier_;
  DeviceAddress output_ = 0;
  uint64_t output_count_ = 0;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_KERNEL_RUNNER_H_
