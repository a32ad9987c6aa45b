// Every kernel of Carillon, one line each: including a kernel's file registers
// it.
#ifndef CARILLON_GPU_DAEMON_KERNELS_ALL_KERNELS_H_
#define CARILLON_GPU_DAEMON_KERNELS_ALL_KERNELS_H_

#include "gpu_daemon/kernels/null_event.cuh"

#endif  // CARILLON_GPU_DAEMON_KERNELS_ALL_KERNELS_H_
