// Image and matrix kernels in their CPU form beside well-known libraries, each on
// one core: DCT 8x8 beside libjpeg-turbo's islow, convolution 5x5 beside FFTW and
// a plain loop, matrix multiplication beside OpenBLAS. First it compares what they
// compute, then it measures them in turn.
//   bazel run //kernels:library_comparison   (libjpeg62-turbo-dev, libfftw3-dev,
//                                             libopenblas-serial-dev)
#include <benchmark/benchmark.h>
#include <cblas.h>
#include <fftw3.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/background/sgemm.cuh"
#include "kernels/images/conv5x5.cuh"
#include "kernels/images/dct8x8.cuh"
#include "kernels/matmul.cuh"

// Of libjpeg.a, whose headers do not declare them: 64 samples less 128 in, 8 times
// the coefficients out, both aligned to 32 bytes.
extern "C" {
void jpeg_fdct_islow(int16_t* data);
int jsimd_can_fdct_islow();
void jsimd_fdct_islow(int16_t* data);
}

namespace carillon {
namespace {

using simt::Dim3;

constexpr uint32_t kSide = 512;
constexpr uint32_t kPixels = kSide * kSide;
constexpr uint32_t kBlocks = kPixels / 64;

// All blocks of a launch, one after the other, as a worker of gpud runs them.
template <class Args>
void RunGrid(const simt::KernelInfo& kernel, Dim3 grid, Dim3 block,
             const Args& args) {
  alignas(64) static std::byte shared[16384];
  uint32_t status = 0;
  simt::BlockLaunch launch;
  launch.grid = grid;
  launch.block = block;
  launch.shared_bytes = kernel.static_shared_bytes;
  launch.shared = shared;
  launch.fail_status = &status;
  // A pointer that the compiler cannot resolve, as in gpud.
  auto run = kernel.run_block;
  benchmark::DoNotOptimize(run);
  for (uint32_t y = 0; y < grid.y; ++y) {
    for (uint32_t x = 0; x < grid.x; ++x) {
      launch.block_index = {x, y, 0};
      run(launch, &args);
    }
  }
  if (status != 0) {
    std::fprintf(stderr, "kernel '%s' failed: %u\n",
                 std::string(kernel.name).c_str(), status);
    std::exit(1);
  }
}

// A smooth image with some noise, as a camera's.
std::vector<uint8_t> Image() {
  std::mt19937 random(1);
  std::vector<uint8_t> image(kPixels);
  for (uint32_t i = 0; i < kPixels; ++i) {
    const double wave = std::sin(i % kSide * 0.05) * std::cos(i / kSide * 0.03);
    image[i] = static_cast<uint8_t>(std::clamp(
        128 + 100 * wave + static_cast<int>(random() % 21) - 10.0, 0.0, 255.0));
  }
  return image;
}

// --- DCT 8x8 of all blocks.

struct Dct {
  std::vector<uint8_t> image = Image();
  std::vector<float> ours = std::vector<float>(kPixels);
  std::vector<int16_t> jpeg = std::vector<int16_t>(kPixels + 16);

  void Ours() {
    RunGrid(kernels::dct8x8_info, {kBlocks / 64, 1, 1}, {64, 1, 1},
            kernels::Dct8x8Args{{image.data(), image.size()},
                                {ours.data(), ours.size()},
                                kSide,
                                kSide});
  }
  int16_t* aligned() {
    return reinterpret_cast<int16_t*>(
        (reinterpret_cast<uintptr_t>(jpeg.data()) + 31) & ~uintptr_t{31});
  }
  template <class Transform>
  void Jpeg(Transform transform) {
    int16_t* out = aligned();
    for (uint32_t block = 0; block < kBlocks; ++block, out += 64) {
      const uint8_t* from =
          &image[block / (kSide / 8) * 8 * kSide + block % (kSide / 8) * 8];
      for (uint32_t y = 0; y < 8; ++y) {
        for (uint32_t x = 0; x < 8; ++x) {
          out[y * 8 + x] = static_cast<int16_t>(from[y * kSide + x] - 128);
        }
      }
      transform(out);
    }
  }
  void Islow() { Jpeg(jpeg_fdct_islow); }
  void IslowSimd() { Jpeg(jsimd_fdct_islow); }
  double Error() {
    const int16_t* out = aligned();
    double most = 0;
    for (uint32_t i = 0; i < kPixels; ++i) {
      most = std::max(most, std::fabs(ours[i] - out[i] / 8.0));
    }
    return most;
  }
};

// --- Convolution 5x5, borders repeated.

constexpr int32_t kWeights[25] = {1,  4, 6,  4,  1,  4, 16, 24, 16,
                                  4,  6, 24, 36, 24, 6, 4,  16, 24,
                                  16, 4, 1,  4,  6,  4, 1};
constexpr uint32_t kShift = 8;

struct Conv {
  static constexpr uint32_t kPadded = 520;  // 516 and what makes it 8 * 5 * 13
  static constexpr uint32_t kSpectrum = kPadded / 2 + 1;
  std::vector<uint8_t> image = Image();
  std::vector<int32_t> weights{std::begin(kWeights), std::end(kWeights)};
  std::vector<uint8_t> ours = std::vector<uint8_t>(kPixels);
  std::vector<uint8_t> theirs = std::vector<uint8_t>(kPixels);
  std::vector<uint8_t> padded = std::vector<uint8_t>(516 * 516);
  float* plane = fftwf_alloc_real(kPadded * kPadded);
  fftwf_complex* spectrum = fftwf_alloc_complex(kPadded * kSpectrum);
  std::vector<std::complex<float>> filter;
  fftwf_plan forward =
      fftwf_plan_dft_r2c_2d(kPadded, kPadded, plane, spectrum, FFTW_MEASURE);
  fftwf_plan back =
      fftwf_plan_dft_c2r_2d(kPadded, kPadded, spectrum, plane, FFTW_MEASURE);

  Conv() {
    std::fill_n(plane, kPadded * kPadded, 0.0f);
    // Correlation: the filter mirrored, its middle at the origin.
    for (int y = -2; y <= 2; ++y) {
      for (int x = -2; x <= 2; ++x) {
        plane[(kPadded - y) % kPadded * kPadded + (kPadded - x) % kPadded] =
            static_cast<float>(kWeights[(y + 2) * 5 + x + 2]) /
            (256.0f * kPadded * kPadded);
      }
    }
    fftwf_execute(forward);
    for (uint32_t i = 0; i < kPadded * kSpectrum; ++i) {
      filter.emplace_back(spectrum[i][0], spectrum[i][1]);
    }
  }
  void Ours() {
    RunGrid(kernels::conv5x5_info, {kSide / 16, kSide / 16, 1}, {16, 16, 1},
            kernels::ConvArgs{{image.data(), image.size()},
                              {weights.data(), weights.size()},
                              {ours.data(), ours.size()},
                              kSide,
                              kSide,
                              kShift});
  }
  template <class T>
  void Pad(T* to, uint32_t stride) {
    for (uint32_t y = 0; y < 516; ++y) {
      const uint8_t* row =
          &image[std::clamp<int>(static_cast<int>(y) - 2, 0, kSide - 1) *
                 kSide];
      T* out = to + uint64_t{y} * stride;
      out[0] = out[1] = row[0];
      for (uint32_t x = 0; x < kSide; ++x) out[x + 2] = row[x];
      out[514] = out[515] = row[kSide - 1];
    }
  }
  void Fftw() {
    Pad(plane, kPadded);
    for (uint32_t y = 0; y < 516; ++y) {
      std::fill_n(plane + y * kPadded + 516, kPadded - 516, 0.0f);
    }
    std::fill_n(plane + 516 * kPadded, 4 * kPadded, 0.0f);
    fftwf_execute(forward);
    auto* values = reinterpret_cast<std::complex<float>*>(spectrum);
    for (uint32_t i = 0; i < kPadded * kSpectrum; ++i) {
      const float re = values[i].real() * filter[i].real() -
                       values[i].imag() * filter[i].imag();
      const float im = values[i].real() * filter[i].imag() +
                       values[i].imag() * filter[i].real();
      values[i] = {re, im};
    }
    fftwf_execute(back);
    for (uint32_t y = 0; y < kSide; ++y) {
      const float* row = plane + (y + 2) * kPadded + 2;
      for (uint32_t x = 0; x < kSide; ++x) {
        theirs[y * kSide + x] =
            static_cast<uint8_t>(std::clamp(row[x] + 0.5f, 0.0f, 255.0f));
      }
    }
  }
  void Direct() {
    Pad(padded.data(), 516);
    for (uint32_t y = 0; y < kSide; ++y) {
      for (uint32_t x = 0; x < kSide; ++x) {
        int32_t sum = 1 << (kShift - 1);
        for (uint32_t j = 0; j < 5; ++j) {
          for (uint32_t i = 0; i < 5; ++i) {
            sum += weights[j * 5 + i] * padded[(y + j) * 516 + x + i];
          }
        }
        theirs[y * kSide + x] =
            static_cast<uint8_t>(std::clamp(sum >> kShift, 0, 255));
      }
    }
  }
  double Error() {
    int most = 0;
    for (uint32_t i = 0; i < kPixels; ++i) {
      most = std::max(most, std::abs(ours[i] - theirs[i]));
    }
    return most;
  }
};

// --- Square matrices of floats.

struct Matmul {
  explicit Matmul(uint32_t side) : n(side), a(n * n), b(n * n), c(n * n) {
    std::mt19937 random(2);
    for (auto* matrix : {&a, &b}) {
      for (float& x : *matrix)
        x = static_cast<float>(random() % 2001) / 1000 - 1;
    }
    theirs = c;
  }
  void Ours() {
    RunGrid(kernels::matmul_info, {n / 16, n / 16, 1}, {16, 16, 1},
            kernels::MatmulArgs{{a.data(), a.size()},
                                {b.data(), b.size()},
                                {c.data(), c.size()},
                                n});
  }
  void Sgemm() {
    RunGrid(kernels::sgemm_info, {n / 32, n / 32, 1}, {32, 32, 1},
            kernels::SgemmArgs{{a.data(), a.size()},
                               {b.data(), b.size()},
                               {c.data(), c.size()},
                               n,
                               n,
                               n,
                               1.0f,
                               0.0f});
  }
  void Blas() {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0f,
                a.data(), n, b.data(), n, 0.0f, theirs.data(), n);
  }
  // Of the largest element.
  double Error() {
    float most = 0;
    float largest = 0;
    for (size_t i = 0; i < c.size(); ++i) {
      most = std::max(most, std::fabs(c[i] - theirs[i]));
      largest = std::max(largest, std::fabs(theirs[i]));
    }
    return most / largest;
  }

  uint32_t n;
  std::vector<float> a, b, c, theirs;
};

// Ends the program if two of them do not compute the same.
void Agree(const char* what, double error, double bound) {
  std::printf("%-44s largest difference %.3g (bound %g)\n", what, error, bound);
  // Also for a NaN.
  if (!(error <= bound)) std::exit(1);
}

template <class F>
void Measure(const std::string& name, F work) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [work](benchmark::State& state) {
                                 for (auto _ : state) {
                                   work();
                                   benchmark::ClobberMemory();
                                 }
                               })
      ->Unit(benchmark::kMicrosecond)
      ->MeasureProcessCPUTime();
}

// Keeps the time of each repetition, and prints medians, ranges and ratios.
class Ratios : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type == Run::RT_Iteration) {
        times_[run.run_name.function_name].push_back(run.GetAdjustedCPUTime());
      }
    }
  }
  void Finalize() override {
    std::printf("\n%-24s %12s %24s %14s\n", "one core, CPU time", "median us",
                "range", "ours / theirs");
    for (auto& [name, times] : times_) {
      std::sort(times.begin(), times.end());
      const std::string group = name.substr(0, name.find('/'));
      auto ours = times_[group + "/carillon"];
      std::sort(ours.begin(), ours.end());
      std::printf("%-24s %12.1f %11.1f to %9.1f", name.c_str(),
                  times[times.size() / 2], times.front(), times.back());
      if (name != group + "/carillon") {
        std::printf(" %14.2f", ours[ours.size() / 2] / times[times.size() / 2]);
      }
      std::printf("\n");
    }
  }

 private:
  std::map<std::string, std::vector<double>> times_;
};

int Main(int argc, char** argv) {
  auto dct = std::make_shared<Dct>();
  auto conv = std::make_shared<Conv>();
  if (jsimd_can_fdct_islow() == 0) {
    std::fprintf(stderr, "libjpeg has no SIMD form of islow here\n");
    return 1;
  }
  dct->Ours();
  dct->Islow();
  Agree("dct8x8 and libjpeg's islow", dct->Error(), 1);
  dct->IslowSimd();
  Agree("dct8x8 and libjpeg's islow, SIMD", dct->Error(), 1);
  conv->Ours();
  conv->Direct();
  Agree("conv5x5 and a plain loop", conv->Error(), 0);
  conv->Fftw();
  Agree("conv5x5 and FFTW", conv->Error(), 1);

  Measure("dct8x8/carillon", [dct] { dct->Ours(); });
  Measure("dct8x8/islow", [dct] { dct->Islow(); });
  Measure("dct8x8/islow_simd", [dct] { dct->IslowSimd(); });
  Measure("conv5x5/carillon", [conv] { conv->Ours(); });
  Measure("conv5x5/plain_loop", [conv] { conv->Direct(); });
  Measure("conv5x5/fftw", [conv] { conv->Fftw(); });
  for (const uint32_t n : {64u, 256u, 512u}) {
    auto matmul = std::make_shared<Matmul>(n);
    const std::string name = "matmul" + std::to_string(n);
    matmul->Ours();
    matmul->Blas();
    Agree((name + " and OpenBLAS").c_str(), matmul->Error(), 1e-5);
    matmul->Sgemm();
    Agree(("sgemm of " + std::to_string(n) + " and OpenBLAS").c_str(),
          matmul->Error(), 1e-5);
    Measure(name + "/carillon", [matmul] { matmul->Ours(); });
    Measure(name + "/carillon_sgemm", [matmul] { matmul->Sgemm(); });
    Measure(name + "/openblas", [matmul] { matmul->Blas(); });
  }

  // In turn: not all repetitions of one behind each other.
  char interleaving[] = "--benchmark_enable_random_interleaving=true";
  char repetitions[] = "--benchmark_repetitions=15";
  char min_time[] = "--benchmark_min_time=0.05";
  std::vector<char*> arguments(argv, argv + argc);
  arguments.insert(arguments.begin() + 1,
                   {interleaving, repetitions, min_time});
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  std::printf("\nOpenBLAS: %s\nFFTW: %s\n", openblas_get_config(),
              fftwf_version);
  Ratios ratios;
  benchmark::RunSpecifiedBenchmarks(&ratios);
  return 0;
}

}  // namespace
}  // namespace carillon

int main(int argc, char** argv) { return carillon::Main(argc, argv); }
