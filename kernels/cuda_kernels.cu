// Compiles every kernel for the GPU.
#include "kernels/all_kernels.h"
