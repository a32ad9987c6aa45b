// The kernels of the figures, from the PTX in this binary, ready to be launched
// in one simulated GPU's memory. Each is loaded when it is first asked for, and
// by itself: where its code and data lie depends on no kernel that a run does
// not use.
#ifndef CARILLON_SIM_EXPERIMENTS_WORKLOADS_KERNELS_H_
#define CARILLON_SIM_EXPERIMENTS_WORKLOADS_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <map>
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
  // The kernel must be one of the PTX. Errors: ResourceExhausted (memory).
  absl::StatusOr<Code> Find(const simt::KernelInfo& kernel);
  // Makes a launch with the shared memory that the kernel needs. `status` is a
  // word to which the kernel writes its failure. Once this has failed, it fails
  // for ever; see status().
  template <class Args>
  Launch Make(const simt::KernelInfo& kernel, const Dim3& grid,
              const Dim3& block, const Args& args,
              const Array<uint32_t>& status) {
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
  // ResourceExhausted after memory ran out: then the last arrays and launches
  // must not be used.
  const absl::Status& status() const { return status_; }
  Memory& memory() { return *memory_; }

 private:
  using Modules = std::vector<std::shared_ptr<const ptx::Module>>;

  Kernels(const Modules& modules, Memory* memory)
      : modules_(modules), memory_(memory) {}
  static absl::StatusOr<Modules> ParseModules();
  Launch Make(const simt::KernelInfo& kernel, const Dim3& grid,
              const Dim3& block, std::span<const std::byte> args,
              const Array<uint32_t>& status);
  struct Allocation {
    DeviceAddress address = 0;
    std::span<std::byte> bytes;
  };
  Allocation AllocateBytes(size_t bytes, const std::string& name);

  const Modules& modules_;
  Memory* const memory_;
  absl::Status status_;
  std::map<std::string, std::shared_ptr<const Program>> programs_;  // by kernel
};

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_WORKLOADS_KERNELS_H_
