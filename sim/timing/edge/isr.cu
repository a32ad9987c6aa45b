#include "kernels/simt/wait_release.cuh"
#include "sim/timing/edge/isr.h"

extern "C" __global__ void carillon_isr(
    carillon::isr::InterruptRegisters* registers) {
  using carillon::isr::InterruptRegisters;
  using carillon::isr::Vector;
  if (threadIdx.x != 0) return;
  volatile InterruptRegisters& lic = *registers;
  const Vector vector = lic.vector;
  const uint32_t argument = lic.argument;
  const uint32_t delay = lic.delay;
#pragma unroll 1
  for (uint32_t i = 0; i < delay; ++i) asm volatile("");
  if (vector == Vector::kLaunchEvent) {
    lic.launch = argument + 1;
  } else if (vector == Vector::kReleaseBarrier) {
    __release_threads_on(argument);
  }
}
