// Every kernel of Carillon, one line each: including a kernel's file registers
// it.
#ifndef CARILLON_GPU_DAEMON_KERNELS_ALL_KERNELS_H_
#define CARILLON_GPU_DAEMON_KERNELS_ALL_KERNELS_H_

#include "gpu_daemon/kernels/bfs_level.cuh"
#include "gpu_daemon/kernels/busy.cuh"
#include "gpu_daemon/kernels/conv5x5.cuh"
#include "gpu_daemon/kernels/crc32.cuh"
#include "gpu_daemon/kernels/dct8x8.cuh"
#include "gpu_daemon/kernels/echo.cuh"
#include "gpu_daemon/kernels/fail_if.cuh"
#include "gpu_daemon/kernels/matmul.cuh"
#include "gpu_daemon/kernels/memc_get.cuh"
#include "gpu_daemon/kernels/memc_set.cuh"
#include "gpu_daemon/kernels/null_event.cuh"
#include "gpu_daemon/kernels/reduce.cuh"
#include "gpu_daemon/kernels/vector_add.cuh"

#endif  // CARILLON_GPU_DAEMON_KERNELS_ALL_KERNELS_H_
