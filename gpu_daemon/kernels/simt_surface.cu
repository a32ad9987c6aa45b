// Compiles the test kernels that use all of simt.h for the GPU.
#include "gpu_daemon/kernels/simt_surface.cuh"
