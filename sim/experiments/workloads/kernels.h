// The kernels of EDGE's figures and matmul, from the PTX in this binary, ready
// to be launched in one simulated GPU's memory.
#ifndef CARILLON_SIM_EXPERIMENTS_WORKLOADS_KERNELS_H_
#define CARILLON_SIM_EXPERIMENTS_WORKLOADS_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/simt/kernel_info.h"
#include "sim/exec/memory.h"
#include "sim/exec/warp.h"

namespace carillon::sim::figures {

// An array in simulated memory. `values` is the host's view of it.
template <class T>
struct Array {
  DeviceAddress address = 0;
  std::span<T> values;

  // The array as a kernel's argument.
  simt::Span<T> span() const {
    return {reinterpret_cast<T*>(address), values.size()};
  }
  simt::Span<const T> read_only() const {
    return {reinterpret_cast<const T*>(address), values.size()};
  }
  Array part(size_t first, size_t count) const {
    return {address + first * sizeof(T), values.subspan(first, count)};
  }
};

// Not thread safe, but each thread may have an instance of its own.
class Kernels {
 public:
  // `memory` must outlive it. Errors: those of loading PTX.
  static absl::StatusOr<std::unique_ptr<Kernels>> Load(Memory* memory);

  struct Code {
    const Program* program = nullptr;
    const ProgramFunction* function = nullptr;
  };
  // The kernel must be one of the PTX.
  Code Find(const simt::KernelInfo& kernel) const;
  // Makes a launch with the shared memory that the kernel needs. `status` is a
  // word to which the kernel writes its failure.
  template <class Args>
  Launch Make(const simt::KernelInfo& kernel, const Dim3& grid,
              const Dim3& block, const Args& args,
              const Array<uint32_t>& status) const {
    return Make(kernel, grid, block, std::as_bytes(std::span(&args, 1)),
                status);
  }
  // Makes a zeroed array. Once this has failed, it fails for ever; see
  // status().
  template <class T>
  Array<T> Allocate(size_t count, const std::string& name) {
    const auto [address, bytes] = AllocateBytes(count * sizeof(T), name);
    return {address, {reinterpret_cast<T*>(bytes.data()), count}};
  }
  // ResourceExhausted after memory ran out: then the last arrays must not be
  // used.
  const absl::Status& status() const { return status_; }
  Memory& memory() { return *memory_; }

 private:
  explicit Kernels(Memory* memory) : memory_(memory) {}
  Launch Make(const simt::KernelInfo& kernel, const Dim3& grid,
              const Dim3& block, std::span<const std::byte> args,
              const Array<uint32_t>& status) const;
  struct Allocation {
    DeviceAddress address = 0;
    std::span<std::byte> bytes;
  };
  Allocation AllocateBytes(size_t bytes, const std::string& name);

  Memory* const memory_;
  absl::Status status_;
  std::vector<std::shared_ptr<const Program>> programs_;
};

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_WORKLOADS_KERNELS_H_
