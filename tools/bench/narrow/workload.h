// The narrow tasks of `carillon bench narrow` (Pagoda, TOPC'19, Tables 3 and 4):
// which kernels, on what data, and whether they have computed it.
#ifndef CARILLON_TOOLS_BENCH_NARROW_WORKLOAD_H_
#define CARILLON_TOOLS_BENCH_NARROW_WORKLOAD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/narrow/tasks.h"
#include "kernels/simt/kernel_info.h"

namespace carillon::bench {

// All data of a workload lie in one piece of memory, wherever that is.
struct NarrowArgument {
  std::string_view name;  // the kernel's
  // A buffer: where in that memory, and how long.
  bool is_buffer = false;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  // A value: its bits, of 4 bytes.
  uint32_t bits = 0;
};

// A part of that memory.
struct NarrowRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// A launch of one block.
struct NarrowUnit {
  const simt::KernelInfo* kernel = nullptr;
  uint32_t threads = 0;
  // It begins when all of its group with a lower phase have ended.
  uint32_t group = 0;
  uint32_t phase = 0;
  std::vector<NarrowArgument> arguments;
  // What is copied for it before and behind it, where copies count; 0 bytes:
  // nothing.
  NarrowRange in;
  NarrowRange out;
};

class NarrowWorkload {
 public:
  static constexpr uint32_t kMostTasks = 32'768;  // as many as the paper's

  // "mb", "fb", ...: the paper's order, as far as it has one.
  static const std::vector<std::string>& Names();
  // NotFound: none has that name.
  static absl::Status CheckName(std::string_view name);

  // At least `count` tasks, so that every group is whole; `threads` each, or as
  // `sizes` have them (0). Errors: NotFound (name), InvalidArgument (count is 0,
  // or above kMostTasks; threads are no multiple of 32 up to
  // 1024; an MTB holds 992).
  static absl::StatusOr<NarrowWorkload> Make(
      std::string_view name, uint32_t count, uint64_t seed,
      uint32_t threads = 0,
      kernels::NarrowSizes sizes = kernels::NarrowSizes::kPagoda);

  const std::string& name() const { return name_; }
  const std::vector<NarrowUnit>& tasks() const { return tasks_; }
  uint64_t bytes() const { return initial_.size(); }
  // What the memory holds before the first task.
  std::span<const std::byte> initial() const { return initial_; }
  // The kernel's argument struct, with the memory at `base`.
  static std::vector<std::byte> ArgumentsOf(const NarrowUnit& task,
                                            uint64_t base);

  // Compares what all tasks have written with the references. DataLoss names the
  // first that is wrong, and its task.
  absl::Status Check(std::span<const std::byte> memory) const;

 private:
  class Builder;
  // Compares one result.
  struct Result {
    size_t task;  // the last one that has a part in it
    std::function<bool(std::span<const std::byte> memory)> is_right;
  };

  std::string name_;
  std::vector<NarrowUnit> tasks_;
  std::vector<std::byte> initial_;
  std::vector<Result> results_;
};

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_NARROW_WORKLOAD_H_
