// Which kernels have a task form, for MTBs of the CUDA back-end (Pagoda 3: a task
// is a function of the device, and not a kernel). pagoda_master.cu makes the forms.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_TASK_KERNELS_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_TASK_KERNELS_H_

#include <cstdint>
#include <string_view>

#include "gpu_daemon/backends/cuda/pagoda/task_table.h"
#include "kernels/simt/kernel_info.h"

namespace carillon::gpud {

// Of a thread of the MasterKernel (Pagoda 4.1), so that a block of 32 warps has
// half an SM's.
inline constexpr uint32_t kTaskRegisters = 32;

// Every kernel that has a task form: WhyNoTask() says nothing of it.
#define CARILLON_TASK_KERNELS(DO) \
  DO(beam_fir)                    \
  DO(beam_form)                   \
  DO(bfs_commit)                  \
  DO(bfs_expand)                  \
  DO(bfs_level)                   \
  DO(black_scholes)               \
  DO(bp_adjust)                   \
  DO(bp_forward)                  \
  DO(conv5x5)                     \
  DO(conv_columns)                \
  DO(conv_rows)                   \
  DO(crc32)                       \
  DO(dct8x8_plain)                \
  DO(dct8x8_shared)               \
  DO(echo)                        \
  DO(fail_if)                     \
  DO(fib_write)                   \
  DO(filter_bank)                 \
  DO(hotspot)                     \
  DO(ipv6_forward)                \
  DO(kmn_invert)                  \
  DO(kmn_point)                   \
  DO(lud_diagonal)                \
  DO(lud_internal)                \
  DO(lud_perimeter)               \
  DO(mandelbrot)                  \
  DO(matmul_plain)                \
  DO(matmul_shared)               \
  DO(null_event)                  \
  DO(pathfinder)                  \
  DO(reduce)                      \
  DO(sa_write)                    \
  DO(sc)                          \
  DO(slud_bdiv)                   \
  DO(slud_bmod)                   \
  DO(slud_fwd)                    \
  DO(slud_lu0)                    \
  DO(srad_v1)                     \
  DO(srad_v1_extract)             \
  DO(srad_v2_1)                   \
  DO(srad_v2_2)                   \
  DO(triple_des)                  \
  DO(vector_add)

// TaskEntry::kernel.
enum class TaskKernel : uint64_t {
#define CARILLON_TASK_NUMBER(name) name,
  CARILLON_TASK_KERNELS(CARILLON_TASK_NUMBER)
#undef CARILLON_TASK_NUMBER
};

inline constexpr std::string_view kTaskKernelNames[] = {
#define CARILLON_TASK_NAME(name) #name,
    CARILLON_TASK_KERNELS(CARILLON_TASK_NAME)
#undef CARILLON_TASK_NAME
};

// Of a kernel of this binary, whatever the dimensions. Empty: it has a task form.
constexpr std::string_view WhyNoTask(const simt::KernelInfo& kernel) {
  if (kernel.is_users()) {
    return "it is a user's own, and an MTB calls functions of gpud's module";
  }
  if (kernel.unbounded) {
    return "it runs for as long as its arguments say, and nothing could take "
           "its "
           "executor warps back";
  }
  if (kernel.uses_barriers && !kernel.leaves_together) {
    return "it has barriers and is not marked as one whose threads leave "
           "together: a named barrier waits for all warps of the block";
  }
  // What ptxas says of these beyond their own launch's 32.
  const bool spills = kernel.name == "cutcp" || kernel.name == "matmul" ||
                      kernel.name == "sgemm";
  if (spills || kernel.registers_per_thread > kTaskRegisters) {
    return "it needs more than the 32 registers a thread that an MTB has, and "
           "would keep the rest in memory";
  }
  return "";
}

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_TASK_KERNELS_H_
