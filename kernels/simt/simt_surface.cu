// Compiles the test kernels that use all of simt.h for the GPU.
#include "kernels/simt/simt_surface.cuh"
