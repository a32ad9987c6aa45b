// What is refused by its name, for refused_test.cc: kernels of one file, of which
// `fine` runs.
#include <cstdint>

extern "C" __global__ void fine(int* out) { *out = 2; }

extern "C" __global__ void texture(cudaTextureObject_t from, float* out) {
  out[threadIdx.x] = tex2D<float>(from, threadIdx.x, 1.5f);
}
extern "C" __global__ void texture_level(cudaTextureObject_t from,
                                         float4* out) {
  out[threadIdx.x] = texCubemapLod<float4>(from, threadIdx.x, 1.5f, 1, 2);
}
extern "C" __global__ void texture_gather(cudaTextureObject_t from,
                                          float4* out) {
  out[threadIdx.x] = tex2Dgather<float4>(from, threadIdx.x, 1.5f, 1);
}
extern "C" __global__ void surface_read(cudaSurfaceObject_t from, float* out) {
  out[threadIdx.x] = surf2Dread<float>(from, threadIdx.x * 4, 1);
}
extern "C" __global__ void surface_write(cudaSurfaceObject_t to, float* in) {
  surf2Dwrite<float>(in[threadIdx.x], to, threadIdx.x * 4, 1);
}

// The device runtime.
extern "C" __global__ void allocates(int* out) {
  void* place = nullptr;
  *out = cudaMalloc(&place, 100) + cudaFree(place);
}

#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __cluster_dims__(2, 1, 1) clusters(int* out) {
  *out = 1;
}
extern "C" __global__ void cluster_barrier(int* out) {
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;");
  *out = 1;
}
extern "C" __global__ void cluster_rank(unsigned* out) {
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(*out));
}
extern "C" __global__ void tensor_copy(const void* map, int* out) {
  __shared__ alignas(128) int to[64];
  __shared__ uint64_t barrier;
  asm volatile(
      "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::"
      "complete_tx::bytes [%0], [%1, {%2}], [%3];" ::"r"(
          static_cast<unsigned>(__cvta_generic_to_shared(to))),
      "l"(map), "r"(0),
      "r"(static_cast<unsigned>(__cvta_generic_to_shared(&barrier))));
  out[threadIdx.x] = to[threadIdx.x];
}
#endif
