extern "C" __global__ void matmul(float* C, const float* A, const float* B,
                                  int wA, int wB) {
  __shared__ float As[16][16], Bs[16][16];
  int bx = blockIdx.x, by = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y;
  float s = 0;
  for (int a = wA * 16 * by, b = 16 * bx; a <= wA * 16 * by + wA - 1;
       a += 16, b += 16 * wB) {
    As[ty][tx] = A[a + wA * ty + tx];
    Bs[ty][tx] = B[b + wB * ty + tx];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; k++) s += As[ty][k] * Bs[k][tx];
    __syncthreads();
  }
  C[wB * 16 * by + 16 * bx + wB * ty + tx] = s;
}
