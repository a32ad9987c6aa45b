// Measures one thread block on a CPU core, including its launch. For comparison
// there are the same work as a plain loop (the lower bound) and a null kernel
// (the cost of the launch).
//   bazel run //kernels:simt_benchmark
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/all_kernels.h"

namespace carillon::simt {
namespace {

class Block {
 public:
  explicit Block(Dim3 block) {
    launch_.block = block;
    launch_.block_index = {0, 0, 0};
    launch_.shared_bytes = sizeof(shared_);
    launch_.shared = shared_;
    launch_.fail_status = &status_;
  }
  template <class Args>
  void Run(const KernelInfo& kernel, const Args& args) {
    kernel.run_block(launch_, &args);
  }
  void Finish(benchmark::State& state) const {
    if (status_ != kFailNone) state.SkipWithError("the kernel failed");
    state.SetItemsProcessed(
        static_cast<int64_t>(state.iterations() * launch_.block.count()));
  }

 private:
  alignas(16) std::byte shared_[16384];
  uint32_t status_ = kFailNone;
  BlockLaunch launch_;
};

struct RotateArgs {
  Span<const float> in;
  Span<float> out;
};

// Two barriers with as little work as possible between them.
CARILLON_BARRIER_KERNEL(rotate_twice, RotateArgs, args, self) {
  const uint32_t i = self.linear();
  const uint32_t last = self.block_threads() - 1;
  float* cells = self.shared<float>(0, self.block_threads());
  cells[i] = args.in[i];
  CARILLON_SYNC_THREADS(self);
  const float next = cells[(i + 1) & last];
  CARILLON_SYNC_THREADS(self);
  args.out[i] = next;
}
CARILLON_KERNEL_INFO(rotate_twice, RotateArgs, "two barriers", Registers(12),
                     CARILLON_PARAM(RotateArgs, in, "numbers"),
                     CARILLON_PARAM(RotateArgs, out, "rotated by one"));

// Five shuffles.
CARILLON_BARRIER_KERNEL(warp_sum, RotateArgs, args, self) {
  float sum = args.in[self.linear()];
  for (uint32_t distance = 16; distance > 0; distance /= 2) {
    const float other = CARILLON_SHFL_XOR(self, sum, distance);
    sum += other;
  }
  args.out[self.linear()] = sum;
}
CARILLON_KERNEL_INFO(warp_sum, RotateArgs, "five shuffles", Registers(12),
                     CARILLON_PARAM(RotateArgs, in, "numbers"),
                     CARILLON_PARAM(RotateArgs, out, "the sum of each warp"));

void BM_NullEvent(benchmark::State& state) {
  Block block({static_cast<uint32_t>(state.range(0)), 1, 1});
  // Call through a pointer that the compiler cannot resolve, as the daemon
  // does.
  const KernelInfo* kernel = &kernels::null_event_info;
  benchmark::DoNotOptimize(kernel);
  for (auto _ : state) block.Run(*kernel, kernels::NullArgs{1});
  block.Finish(state);
}
BENCHMARK(BM_NullEvent)->Arg(32)->Arg(1024);

void BM_VectorAdd(benchmark::State& state) {
  const auto size = static_cast<uint32_t>(state.range(0));
  std::vector<float> a(size, 1), b(size, 2), c(size);
  Block block({size, 1, 1});
  for (auto _ : state) {
    block.Run(kernels::vector_add_info,
              kernels::VectorAddArgs{
                  {a.data(), size}, {b.data(), size}, {c.data(), size}});
    benchmark::ClobberMemory();
  }
  block.Finish(state);
}
BENCHMARK(BM_VectorAdd)->Arg(32)->Arg(256)->Arg(1024);

void BM_TwoBarriers(benchmark::State& state) {
  const auto size = static_cast<uint32_t>(state.range(0));
  std::vector<float> in(size, 1), out(size);
  Block block({size, 1, 1});
  for (auto _ : state) {
    block.Run(rotate_twice_info,
              RotateArgs{{in.data(), size}, {out.data(), size}});
    benchmark::ClobberMemory();
  }
  block.Finish(state);
}
BENCHMARK(BM_TwoBarriers)->Arg(32)->Arg(128)->Arg(256)->Arg(1024);

// The same by hand: one loop per phase, and an array for the values that live
// across phases.
void BM_TwoBarriersAsPhaseLoops(benchmark::State& state) {
  const auto size = static_cast<uint32_t>(state.range(0));
  std::vector<float> in(size, 1), out(size), cells(size), next(size);
  for (auto _ : state) {
    for (uint32_t i = 0; i < size; ++i) cells[i] = in[i];
    benchmark::ClobberMemory();
    for (uint32_t i = 0; i < size; ++i) next[i] = cells[(i + 1) & (size - 1)];
    benchmark::ClobberMemory();
    for (uint32_t i = 0; i < size; ++i) out[i] = next[i];
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * size);
}
BENCHMARK(BM_TwoBarriersAsPhaseLoops)->Arg(32)->Arg(256);

void BM_FiveShuffles(benchmark::State& state) {
  const auto size = static_cast<uint32_t>(state.range(0));
  std::vector<float> in(size, 1), out(size);
  Block block({size, 1, 1});
  for (auto _ : state) {
    block.Run(warp_sum_info, RotateArgs{{in.data(), size}, {out.data(), size}});
    benchmark::ClobberMemory();
  }
  block.Finish(state);
}
BENCHMARK(BM_FiveShuffles)->Arg(32)->Arg(256);

// 32 blocks of 8x8 pixels.
void BM_Dct8x8(benchmark::State& state) {
  std::vector<uint8_t> image(256 * 8, 100);
  std::vector<float> out(32 * 64);
  Block block({32, 1, 1});
  for (auto _ : state) {
    block.Run(
        kernels::dct8x8_info,
        kernels::Dct8x8Args{
            {image.data(), image.size()}, {out.data(), out.size()}, 256, 8});
    benchmark::ClobberMemory();
  }
  block.Finish(state);
}
BENCHMARK(BM_Dct8x8);

// 256 pixels.
void BM_Conv5x5(benchmark::State& state) {
  std::vector<uint8_t> image(256, 100), out(256);
  std::vector<int32_t> weights(25, 1);
  Block block({16, 16, 1});
  for (auto _ : state) {
    block.Run(kernels::conv5x5_info,
              kernels::ConvArgs{{image.data(), image.size()},
                                {weights.data(), weights.size()},
                                {out.data(), out.size()},
                                16,
                                16,
                                5});
    benchmark::ClobberMemory();
  }
  block.Finish(state);
}
BENCHMARK(BM_Conv5x5);

}  // namespace
}  // namespace carillon::simt

BENCHMARK_MAIN();
