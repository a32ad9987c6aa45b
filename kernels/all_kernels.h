// Every kernel of Carillon, one line each: including a kernel's file registers
// it.
#ifndef CARILLON_KERNELS_ALL_KERNELS_H_
#define CARILLON_KERNELS_ALL_KERNELS_H_

#include "kernels/background/black_scholes.cuh"
#include "kernels/background/cutcp.cuh"
#include "kernels/background/lbm.cuh"
#include "kernels/background/mri_q.cuh"
#include "kernels/background/pathfinder.cuh"
#include "kernels/background/sgemm.cuh"
#include "kernels/background/stencil.cuh"
#include "kernels/bfs_level.cuh"
#include "kernels/busy.cuh"
#include "kernels/crc32.cuh"
#include "kernels/echo.cuh"
#include "kernels/fail_if.cuh"
#include "kernels/forwarding/fib_write.cuh"
#include "kernels/forwarding/ipv4_forward.cuh"
#include "kernels/forwarding/ipv6_forward.cuh"
#include "kernels/images/conv5x5.cuh"
#include "kernels/images/dct8x8.cuh"
#include "kernels/matmul.cuh"
#include "kernels/memcached/memc_get.cuh"
#include "kernels/memcached/memc_set.cuh"
#include "kernels/null_event.cuh"
#include "kernels/reduce.cuh"
#include "kernels/vector_add.cuh"

#endif  // CARILLON_KERNELS_ALL_KERNELS_H_
