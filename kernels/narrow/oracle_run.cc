// Runs narrow tasks of irregular sizes and stores what they read and wrote as
// NumPy's .npy files, DIRECTORY/KERNEL-NUMBER-PARAMETER.npy, for oracle_test.py.
#include <complex>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "kernels/narrow/beamformer.cuh"
#include "kernels/narrow/convolution.cuh"
#include "kernels/narrow/dct.cuh"
#include "kernels/narrow/filter_bank.cuh"
#include "kernels/narrow/mandelbrot.cuh"
#include "kernels/narrow/matmul.cuh"
#include "kernels/narrow/slud.cuh"
#include "kernels/narrow/tasks.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::ReadOnly;
using simt::Writable;

constexpr uint64_t kSeed = 20;
constexpr uint32_t kTasks = 5;  // of each kernel

// `type` is NumPy's name of T.
template <class T>
void Store(const std::string& path, const char* type,
           const std::vector<T>& values, const std::string& shape) {
  std::string header = fmt::format(
      "{{'descr': '{}', 'fortran_order': False, 'shape': ({})}}", type, shape);
  header.resize((10 + header.size() + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY" << '\x01' << '\0' << static_cast<char>(header.size())
       << static_cast<char>(header.size() >> 8) << header;
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(T)));
  if (!file.flush()) {
    fmt::print(stderr, "{}: cannot be written\n", path);
    std::exit(1);
  }
}

class Runner {
 public:
  explicit Runner(std::string directory) : directory_(std::move(directory)) {}

  void Run() {
    for (const NarrowKind kind :
         {NarrowKind::kMb, NarrowKind::kFb, NarrowKind::kDct, NarrowKind::kMm,
          NarrowKind::kConv}) {
      for (const NarrowTask& task :
           NarrowTasks(kind, kTasks, kSeed, NarrowSizes::kIrregular)) {
        RunTask(task);
      }
    }
    for (const NarrowTask& task :
         NarrowTasks(NarrowKind::kBf, 2 * kBeamChannels + kBeams, kSeed,
                     NarrowSizes::kIrregular)) {
      if (task.row < 2) RunTask(task);
    }
    Slud();
  }

 private:
  std::vector<float> Noise(size_t size) {
    std::vector<float> values(size);
    for (float& x : values) {
      x = static_cast<float>(random_() % 2001) / 1000.0f - 1.0f;
    }
    return values;
  }
  std::vector<Complex> ComplexNoise(size_t size) {
    const std::vector<float> parts = Noise(2 * size);
    std::vector<Complex> values(size);
    for (size_t i = 0; i < size; ++i) {
      values[i] = {parts[2 * i], parts[2 * i + 1]};
    }
    return values;
  }
  std::string Path(const char* parameter) const {
    return fmt::format("{}/{}-{:02}-{}.npy", directory_, kernel_, number_,
                       parameter);
  }
  void StoreFloats(const char* parameter, const std::vector<float>& values,
                   const std::string& shape) const {
    Store(Path(parameter), "<f4", values, shape);
  }
  void StoreComplex(const char* parameter, const std::vector<Complex>& values,
                    const std::string& shape) const {
    Store(Path(parameter), "<c8", values, shape);
  }

  template <class Args>
  void Launch(const simt::KernelInfo& kernel, const NarrowTask& task,
              const Args& args) {
    const uint32_t status =
        simt::RunGrid(kernel, {1, 1, 1}, {task.threads, 1, 1}, args).status;
    if (status == simt::kFailNone) return;
    fmt::print(stderr, "{} ended with status {}\n", kernel.name, status);
    std::exit(1);
  }

  void RunTask(const NarrowTask& task) {
    kernel_ = task.kernel;
    ++number_;
    const uint32_t width = task.width;
    const uint32_t height = task.height;
    const std::string shape = fmt::format("{}, {}", height, width);
    const std::string length = fmt::format("{},", width);
    if (kernel_ == "mandelbrot") {
      std::vector<uint32_t> counts(width * height);
      const std::vector<float> view = {-2.25f, -1.75f, 3.5f / 127};
      Launch(mandelbrot_info, task,
             MandelbrotArgs{Writable(counts), width, height,
                            kMandelbrotIterations, view[0], view[1], view[2]});
      StoreFloats("view", view, "3,");
      Store(Path("counts"), "<u4", counts, shape);
    } else if (kernel_ == "filter_bank") {
      const std::vector<float> signal = Noise(width);
      const std::vector<float> analysis = Noise(kFilterBankTaps);
      const std::vector<float> synthesis = Noise(kFilterBankTaps);
      std::vector<float> filtered(width), kept(width), out(width);
      Launch(filter_bank_info, task,
             FilterBankArgs{ReadOnly(signal), ReadOnly(analysis),
                            ReadOnly(synthesis), Writable(filtered),
                            Writable(kept), Writable(out), width,
                            kFilterBankTaps, kFilterBankFactor});
      StoreFloats("signal", signal, length);
      StoreFloats("analysis", analysis, fmt::format("{},", kFilterBankTaps));
      StoreFloats("synthesis", synthesis, fmt::format("{},", kFilterBankTaps));
      StoreFloats("out", out, length);
    } else if (kernel_ == "beam_fir") {
      const uint32_t factor = task.phase == 1 ? 2 : 1;
      const std::vector<Complex> signal = ComplexNoise(width);
      const std::vector<Complex> filter = ComplexNoise(kBeamTaps);
      std::vector<Complex> out((width + factor - 1) / factor);
      Launch(beam_fir_info, task,
             BeamFirArgs{ReadOnly(signal), ReadOnly(filter), Writable(out),
                         width, kBeamTaps, factor});
      StoreComplex("signal", signal, length);
      StoreComplex("filter", filter, fmt::format("{},", kBeamTaps));
      StoreComplex("out", out, fmt::format("{},", out.size()));
    } else if (kernel_ == "beam_form") {
      const std::vector<Complex> channels = ComplexNoise(height * width);
      const std::vector<Complex> weights = ComplexNoise(height);
      std::vector<Complex> beam(width);
      Launch(beam_form_info, task,
             BeamFormArgs{ReadOnly(channels), ReadOnly(weights), Writable(beam),
                          height, width});
      StoreComplex("channels", channels, shape);
      StoreComplex("weights", weights, fmt::format("{},", height));
      StoreComplex("beam", beam, length);
    } else if (kernel_ == "dct8x8_shared") {
      std::vector<uint8_t> image(width * height);
      for (uint8_t& pixel : image) pixel = static_cast<uint8_t>(random_());
      const uint32_t columns = (width + 7) / 8;
      const uint32_t rows = (height + 7) / 8;
      std::vector<float> coefficients(columns * rows * 64);
      Launch(
          dct8x8_shared_info, task,
          Dct8x8Args{ReadOnly(image), Writable(coefficients), width, height});
      Store(Path("image"), "|u1", image, shape);
      StoreFloats("coefficients", coefficients,
                  fmt::format("{}, {}, 8, 8", rows, columns));
    } else if (kernel_ == "matmul_shared") {
      const std::vector<float> a = Noise(width * width);
      const std::vector<float> b = Noise(width * width);
      std::vector<float> c(width * width);
      Launch(matmul_shared_info, task,
             MatmulArgs{ReadOnly(a), ReadOnly(b), Writable(c), width});
      StoreFloats("a", a, shape);
      StoreFloats("b", b, shape);
      StoreFloats("c", c, shape);
    } else {
      const std::vector<float> image = Noise(width * height);
      const std::vector<float> taps = Noise(2 * kConvRadius + 1);
      std::vector<float> out(image.size());
      Launch(kernel_ == "conv_rows" ? conv_rows_info : conv_columns_info, task,
             ConvPassArgs{ReadOnly(image), ReadOnly(taps), Writable(out), width,
                          height, kConvRadius});
      StoreFloats("image", image, shape);
      StoreFloats("taps", taps, fmt::format("{},", taps.size()));
      StoreFloats("out", out, shape);
    }
  }

  // The tasks of a whole matrix, which is stored before and behind them.
  void Slud() {
    constexpr uint32_t kCount = 145;  // a matrix of 10 x 10 blocks
    const uint32_t blocks = SludBlocks(kCount);
    const std::vector<NarrowTask> tasks =
        NarrowTasks(NarrowKind::kSlud, kCount, kSeed, NarrowSizes::kIrregular);
    const uint32_t n = tasks[0].width;
    const uint32_t side = blocks * n;
    // Block by block, each row by row.
    std::vector<float> matrix(side * side);
    const auto block = [&](uint32_t row, uint32_t column) {
      return Writable(matrix).sub((row * blocks + column) * n * n, n * n);
    };
    const auto constant = [&](uint32_t row, uint32_t column) {
      return ReadOnly(matrix).sub((row * blocks + column) * n * n, n * n);
    };
    for (uint32_t row = 0; row < blocks; ++row) {
      for (uint32_t column = 0; column < blocks; ++column) {
        if (!SludHasBlock(row, column)) continue;
        const simt::Span<float> at = block(row, column);
        for (uint32_t i = 0; i < n * n; ++i) {
          at[i] = static_cast<float>(random_() % 2001) / 1000.0f - 1.0f;
          // So strong that LAPACK exchanges no rows, either.
          if (row == column && i % (n + 1) == 0) at[i] += side;
        }
      }
    }
    kernel_ = "slud";
    const std::string shape = fmt::format("{0}, {0}, {1}, {1}", blocks, n);
    StoreFloats("before", matrix, shape);
    for (const NarrowTask& task : tasks) {
      const uint32_t k = task.phase / 3;
      const simt::Span<float> own = block(task.row, task.column);
      if (task.kernel == "slud_lu0") {
        Launch(slud_lu0_info, task, SludLu0Args{own, n});
      } else if (task.kernel == "slud_bmod") {
        Launch(slud_bmod_info, task,
               SludBmodArgs{constant(task.row, k), constant(k, task.column),
                            own, n});
      } else {
        Launch(task.kernel == "slud_fwd" ? slud_fwd_info : slud_bdiv_info, task,
               SludSolveArgs{constant(k, k), own, n});
      }
    }
    StoreFloats("after", matrix, shape);
  }

  std::string directory_;
  std::mt19937 random_{kSeed};
  std::string kernel_;
  uint32_t number_ = 0;
};

}  // namespace
}  // namespace carillon::kernels

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: oracle_run DIRECTORY\n");
    return 2;
  }
  carillon::kernels::Runner(argv[1]).Run();
  return 0;
}
