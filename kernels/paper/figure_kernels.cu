// Compiles every workload of EDGE's figures for the GPU.
#include "kernels/paper/figure_kernels.h"
