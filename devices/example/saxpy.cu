// Kernels of one's own, without a line of Carillon's in them (docs/cli.md,
// "kernel load"):
//
//   nvcc -fatbin -arch=sm_90 -o saxpy.fatbin saxpy.cu
//   carillon kernel load saxpy.fatbin
//       --kernel 'saxpy(x: read f32[], y: write f32[], a: f32, n: u32)'
//       --kernel 'scale(y: write f32[], a: f32)'

// A buffer as a pointer: how long it is must be a parameter of its own.
extern "C" __global__ void saxpy(const float* x, float* y, float a,
                                 unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}

// Or with its length, as gpud's own kernels take it.
struct Floats {
  float* data;
  unsigned long long count;
};

extern "C" __global__ void scale(Floats y, float a) {
  const unsigned long long i =
      static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < y.count) y.data[i] *= a;
}
