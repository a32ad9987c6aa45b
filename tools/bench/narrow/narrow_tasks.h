// What the host and narrow_tasks.cu agree on: the narrow tasks' kernels in two
// forms that the catalogue of gpud does not have, as tasks of a MasterKernel
// (Pagoda, TOPC'19, 4.1) and as blocks of a fused launch.
#ifndef CARILLON_TOOLS_BENCH_NARROW_NARROW_TASKS_H_
#define CARILLON_TOOLS_BENCH_NARROW_NARROW_TASKS_H_

#include <cstddef>
#include <cstdint>

namespace carillon::bench {

// The order is narrow_tasks.cu's.
#define CARILLON_NARROW_KERNELS(X)                                            \
  X(mandelbrot)                                                               \
  X(filter_bank)                                                              \
  X(beam_fir)                                                                 \
  X(beam_form) X(conv_rows) X(conv_columns) X(dct8x8_shared) X(matmul_shared) \
      X(slud_lu0) X(slud_fwd) X(slud_bdiv) X(slud_bmod) X(triple_des)

enum class NarrowKernel : uint32_t {
#define CARILLON_NARROW_NAME(name) name,
  CARILLON_NARROW_KERNELS(CARILLON_NARROW_NAME)
#undef CARILLON_NARROW_NAME
};

// The arguments of a task.
inline constexpr uint32_t kNarrowArgsBytes = 128;
struct alignas(16) NarrowRecord {
  // Receives the kernel's status if it fails; in GPU memory.
  uint32_t* status;
  uint32_t kernel;   // NarrowKernel
  uint32_t threads;  // of the task's block; a fused launch may have more
  std::byte args[kNarrowArgsBytes];
};
static_assert(sizeof(NarrowRecord) == 16 + kNarrowArgsBytes);

// Of the kernel of it that needs most.
inline constexpr uint32_t kNarrowSharedBytes = 4608;

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_NARROW_NARROW_TASKS_H_
