// The narrow tasks' kernels, and what copies their data, as a CUDA program launches
// them: gpud's module has these and twenty times as much, and this bench runs where
// every megabyte had to be carried.
#include "kernels/echo.cuh"
#include "kernels/narrow/beamformer.cuh"
#include "kernels/narrow/convolution.cuh"
#include "kernels/narrow/dct.cuh"
#include "kernels/narrow/filter_bank.cuh"
#include "kernels/narrow/mandelbrot.cuh"
#include "kernels/narrow/matmul.cuh"
#include "kernels/narrow/slud.cuh"
#include "kernels/narrow/triple_des.cuh"
