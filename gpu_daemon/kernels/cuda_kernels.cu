// Compiles every kernel for the GPU.
#include "gpu_daemon/kernels/all_kernels.h"
