// Launches of every kernel on random inputs, for a CPU and a GPU alike.
#ifndef CARILLON_TOOLS_GPU_CHECK_KERNEL_CASES_H_
#define CARILLON_TOOLS_GPU_CHECK_KERNEL_CASES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gpu_daemon/event/kernel_metadata.h"

namespace carillon::gpu_check {

enum class Compare {
  kNot,     // an input, or what may differ (memcached's table)
  kBytes,   // must be the same
  kFloats,  // within kFloatTolerance: a GPU fuses multiplications and additions
};

// Relative to the larger of 1 and the largest magnitude in the buffer.
inline constexpr float kFloatTolerance = 1e-4f;

// Memory that a case's launches share.
struct Buffer {
  std::vector<std::byte> initial;
  Compare compare = Compare::kNot;
};

struct CaseLaunch {
  gpud::KernelMetadata kmd;
  // A parameter's value: a buffer (an index into Case::buffers), or a number.
  std::map<std::string, size_t> buffers;
  std::map<std::string, uint64_t> numbers;
  // Before the launch these replace a buffer's bytes in host memory.
  std::map<size_t, std::vector<std::byte>> inputs;
};

// One or more launches, one after another.
struct Case {
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<CaseLaunch> launches;
};

// Cases of every kernel that is linked in, valid and invalid ones. Another seed
// gives other sizes and contents. `missing` receives the kernels without a
// case.
std::vector<Case> MakeCases(uint64_t seed, std::vector<std::string>* missing);

// The case's buffers in one piece of memory, each at a multiple of 256.
class Arena {
 public:
  static uint64_t BytesFor(const Case& one);
  // `memory` has BytesFor() bytes, aligned to 256. Copies the initial bytes.
  Arena(const Case& one, std::span<std::byte> memory);

  std::span<std::byte> buffer(size_t index) const {
    return memory_.subspan(offsets_[index], sizes_[index]);
  }
  // KernelInfo::args_size bytes, with this arena's addresses, or with those of
  // a copy of it at `base` (which is not dereferenced).
  std::vector<std::byte> Args(const CaseLaunch& launch,
                              std::byte* base = nullptr) const;
  void Feed(const CaseLaunch& launch) const;

 private:
  std::span<std::byte> memory_;
  std::vector<uint64_t> offsets_;
  std::vector<uint64_t> sizes_;
};

// Runs one launch on this CPU. Returns the kernel's status: 0, or its failure.
uint32_t RunOnCpu(const CaseLaunch& launch, const std::vector<std::byte>& args);

// Compares what the launches so far have left. Error: DataLoss says which
// buffer differs where.
absl::Status CompareArenas(const Case& one, const Arena& expected,
                           const Arena& found);

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_KERNEL_CASES_H_
