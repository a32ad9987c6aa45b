// Compiles every workload of EDGE's figures for the GPU.
#include "gpu_daemon/kernels/figures/figure_kernels.h"
