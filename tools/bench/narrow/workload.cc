#include "tools/bench/narrow/workload.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "base/status.h"
#include "kernels/images/dct8x8.cuh"
#include "kernels/ipsec/des.cuh"
#include "kernels/narrow/references.h"
#include "kernels/narrow/types.h"
#include "kernels/registry.h"

namespace carillon::bench {
namespace {

using kernels::Complex;
using kernels::NarrowKind;
using kernels::NarrowTask;
using kernels::reference::Samples;

constexpr std::pair<std::string_view, NarrowKind> kKinds[] = {
    {"mb", NarrowKind::kMb},     {"fb", NarrowKind::kFb},
    {"bf", NarrowKind::kBf},     {"conv", NarrowKind::kConv},
    {"dct", NarrowKind::kDct},   {"mm", NarrowKind::kMm},
    {"slud", NarrowKind::kSlud}, {"3des", NarrowKind::kTripleDes},
    {"mpe", NarrowKind::kMpe}};

constexpr uint32_t kMostThreads = 992;
constexpr uint32_t kWarp = 32;
constexpr uint64_t kAlignment = 256;
// Groups have data in so many variants, each with its results.
constexpr uint32_t kVariants = 4;
// Of a sum of products of numbers up to 1 in single precision.
constexpr double kTolerance = 1e-3;

// The fewest tasks that are whole groups.
uint32_t WholeGroups(NarrowKind kind, uint32_t count) {
  const auto up = [&](uint32_t unit) {
    return (count + unit - 1) / unit * unit;
  };
  switch (kind) {
    case NarrowKind::kBf:
      return up(2 * kernels::kBeamChannels + 2 * kernels::kBeams);
    case NarrowKind::kConv:
      return up(2);
    case NarrowKind::kMpe:
      return up(4);
    case NarrowKind::kSlud: {
      const uint32_t blocks = kernels::SludBlocks(count);
      while (kernels::SludBlocks(count + 1) == blocks) ++count;
      return count;
    }
    default:
      return count;
  }
}

}  // namespace

const std::vector<std::string>& NarrowWorkload::Names() {
  static const auto* const names = [] {
    auto* const all = new std::vector<std::string>;
    for (const auto& [name, kind] : kKinds) all->emplace_back(name);
    return all;
  }();
  return *names;
}

absl::Status NarrowWorkload::CheckName(std::string_view name) {
  if (std::ranges::find(Names(), name) != Names().end()) {
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      fmt::format("there is no workload '{}': there are {}", name,
                  fmt::join(Names(), ", ")));
}

class NarrowWorkload::Builder {
 public:
  Builder(NarrowWorkload* workload, uint64_t seed)
      : workload_(*workload), random_(seed) {}

  void Add(const NarrowTask& task, uint32_t threads) {
    workload_.tasks_.push_back(
        {.kernel = simt::FindKernel(task.kernel),
         .threads = threads != 0 ? threads : task.threads,
         .group = task.group,
         .phase = task.phase});
    task_ = &task;
    unit_ = &workload_.tasks_.back();
    if (task.kernel == "mandelbrot") return Mandelbrot();
    if (task.kernel == "filter_bank") return FilterBank();
    if (task.kernel == "beam_fir" || task.kernel == "beam_form") return Beam();
    if (task.kernel == "conv_rows" || task.kernel == "conv_columns") {
      return Conv();
    }
    if (task.kernel == "dct8x8_shared") return Dct();
    if (task.kernel == "matmul_shared") return Matmul();
    if (task.kernel == "triple_des") return TripleDes();
    Slud();
  }

  // The matrix of the LU tasks, before the first of them.
  void AddMatrix(const std::vector<NarrowTask>& tasks) {
    n_ = tasks.back().width;
    for (const NarrowTask& task : tasks) {
      side_ = std::max({side_, task.row + 1, task.column + 1});
    }
    blocks_.resize(uint64_t{side_} * side_);
    written_.resize(blocks_.size());
    const uint64_t whole = uint64_t{side_} * n_;
    matrix_.resize(whole * whole);
    for (uint32_t row = 0; row < side_; ++row) {
      for (uint32_t column = 0; column < side_; ++column) {
        uint64_t& block = blocks_[row * side_ + column];
        block = Allocate(uint64_t{n_} * n_ * sizeof(float));
        if (!kernels::SludHasBlock(row, column)) continue;
        const auto values = At<float>(block, n_ * n_);
        for (uint32_t i = 0; i < n_ * n_; ++i) {
          float value = Random();
          const uint64_t y = uint64_t{row} * n_ + i / n_;
          const uint64_t x = uint64_t{column} * n_ + i % n_;
          // So that no pivot is small.
          if (x == y) value += static_cast<float>(whole);
          values[i] = value;
          matrix_[y * whole + x] = value;
        }
      }
    }
  }
  void CheckMatrix() {
    kernels::reference::Decompose(&matrix_, uint64_t{side_} * n_);
    const auto expected =
        std::make_shared<const std::vector<double>>(std::move(matrix_));
    for (uint32_t row = 0; row < side_; ++row) {
      for (uint32_t column = 0; column < side_; ++column) {
        const auto [first, last] = written_[row * side_ + column];
        if (last == 0) continue;
        const NarrowRange block{blocks_[row * side_ + column],
                                uint64_t{n_} * n_ * sizeof(float)};
        if (kernels::SludHasBlock(row, column)) {
          workload_.tasks_[first - 1].in = block;
        }
        workload_.tasks_[last - 1].out = block;
        workload_.results_.push_back(
            {last - 1, [=, offset = blocks_[row * side_ + column], n = n_,
                        side = side_](std::span<const std::byte> memory) {
               for (uint32_t i = 0; i < n * n; ++i) {
                 float got;
                 std::memcpy(&got, &memory[offset + i * sizeof(float)],
                             sizeof(float));
                 const uint64_t whole = uint64_t{side} * n;
                 const uint64_t y = uint64_t{row} * n + i / n;
                 const uint64_t x = uint64_t{column} * n + i % n;
                 const double want = (*expected)[y * whole + x];
                 // The pivots of L are as large as the matrix.
                 const double off =
                     y > x ? kTolerance / static_cast<double>(whole)
                           : kTolerance;
                 if (!(std::abs(got - want) <= off)) return false;
               }
               return true;
             }});
      }
    }
  }

 private:
  uint32_t variant() const { return unit_->group % kVariants; }
  float Random() {
    return static_cast<float>(random_() % 2001) / 1000.0f - 1.0f;
  }

  uint64_t Allocate(uint64_t bytes) {
    auto& memory = workload_.initial_;
    const uint64_t offset = memory.size();
    memory.resize(offset + (bytes + kAlignment - 1) / kAlignment * kAlignment);
    return offset;
  }
  // Valid until the next Allocate().
  template <class T>
  std::span<T> At(uint64_t offset, uint64_t count) {
    return {reinterpret_cast<T*>(&workload_.initial_[offset]), count};
  }
  template <class T>
  uint64_t Store(const std::vector<T>& values) {
    const uint64_t offset = Allocate(values.size() * sizeof(T));
    std::memcpy(&workload_.initial_[offset], values.data(),
                values.size() * sizeof(T));
    return offset;
  }
  // Once for all tasks of the workload.
  template <class T, class F>
  uint64_t Shared(const std::string& name, std::vector<T>* values, F make) {
    const auto found = shared_.find(name);
    if (found != shared_.end()) {
      values->resize(found->second.second);
      std::memcpy(values->data(), &workload_.initial_[found->second.first],
                  values->size() * sizeof(T));
      return found->second.first;
    }
    *values = make();
    const uint64_t offset = Store(*values);
    shared_[name] = {offset, values->size()};
    return offset;
  }
  // Numbers of a variant, as all groups of it have them.
  std::vector<float> Numbers(const std::string& name, uint64_t count) {
    auto& values = numbers_[fmt::format("{} {} {}", name, variant(), count)];
    while (values.size() < count) values.push_back(Random());
    return values;
  }

  void Buffer(std::string_view name, uint64_t offset, uint64_t bytes) {
    unit_->arguments.push_back(
        {.name = name, .is_buffer = true, .offset = offset, .bytes = bytes});
  }
  void Value(std::string_view name, uint32_t value) {
    unit_->arguments.push_back({.name = name, .bits = value});
  }
  void Value(std::string_view name, float value) {
    Value(name, std::bit_cast<uint32_t>(value));
  }

  // The task's result is `count` of T at `offset`, and near what make() gives for
  // the variant.
  template <class T>
  void Expect(const std::string& name, uint64_t offset, double tolerance,
              const std::function<std::vector<T>()>& make) {
    auto& known = expected_[fmt::format("{} {}", name, variant())];
    if (known == nullptr) {
      known = std::make_shared<std::vector<double>>();
      for (const T value : make()) known->push_back(value);
    }
    workload_.results_.push_back(
        {workload_.tasks_.size() - 1,
         [=, want = known](std::span<const std::byte> memory) {
           for (size_t i = 0; i < want->size(); ++i) {
             T got;
             std::memcpy(&got, &memory[offset + i * sizeof(T)], sizeof(T));
             if (!(std::abs(static_cast<double>(got) - (*want)[i]) <=
                   tolerance)) {
               return false;
             }
           }
           return true;
         }});
  }

  void Mandelbrot() {
    const uint32_t width = task_->width;
    const uint32_t height = task_->height;
    const float real = -2.25f + 0.01f * static_cast<float>(variant());
    const float imaginary = -1.75f;
    const float step = 3.5f / static_cast<float>(height);
    const uint64_t bytes = uint64_t{width} * height * sizeof(uint32_t);
    const uint64_t counts = Allocate(bytes);
    Buffer("counts", counts, bytes);
    Value("width", width);
    Value("height", height);
    Value("most", kernels::kMandelbrotIterations);
    Value("first_real", real);
    Value("first_imaginary", imaginary);
    Value("step", step);
    unit_->out = {counts, bytes};
    // In single precision and each product rounded, as the kernel promises: near
    // the set's border the count depends on it.
    Expect<uint32_t>("mb", counts, 0, [=] {
      std::vector<uint32_t> want;
      for (uint32_t i = 0; i < width * height; ++i) {
        const volatile float dx = static_cast<float>(i % width) * step;
        const volatile float dy = static_cast<float>(i / width) * step;
        const volatile float cx = real + dx;
        const volatile float cy = imaginary + dy;
        volatile float x = 0, y = 0;
        uint32_t n = 0;
        while (n < kernels::kMandelbrotIterations) {
          const volatile float xx = x * x;
          const volatile float yy = y * y;
          const volatile float xy = x * y;
          if (xx + yy > 4) break;
          y = 2 * xy + cy;
          const volatile float difference = xx - yy;
          x = difference + cx;
          ++n;
        }
        want.push_back(n);
      }
      return want;
    });
  }

  static Samples ToSamples(const std::vector<float>& values) {
    return {values.begin(), values.end()};
  }

  void FilterBank() {
    const uint32_t length = task_->width;
    const uint32_t taps = kernels::kFilterBankTaps;
    const uint32_t factor = kernels::kFilterBankFactor;
    std::vector<float> analysis, synthesis;
    const auto make = [&] {
      std::vector<float> values(taps);
      for (float& value : values) value = Random() / 8;
      return values;
    };
    const uint64_t first = Shared("analysis", &analysis, make);
    const uint64_t second = Shared("synthesis", &synthesis, make);
    const std::vector<float> values = Numbers("signal", length);
    const uint64_t signal = Store(values);
    const uint64_t bytes = length * sizeof(float);
    const uint64_t filtered = Allocate(bytes);
    const uint64_t kept = Allocate(bytes);
    const uint64_t out = Allocate(bytes);
    Buffer("signal", signal, bytes);
    Buffer("analysis", first, taps * sizeof(float));
    Buffer("synthesis", second, taps * sizeof(float));
    Buffer("filtered", filtered, bytes);
    Buffer("kept", kept, bytes);
    Buffer("out", out, bytes);
    Value("length", length);
    Value("taps", taps);
    Value("factor", factor);
    unit_->in = {signal, bytes};
    unit_->out = {out, bytes};
    Expect<float>("fb", out, kTolerance, [=] {
      using namespace kernels::reference;
      const Samples passed =
          Convolution(ToSamples(values), ToSamples(analysis));
      const Samples want =
          Convolution(Expanded(Decimated(passed, factor), factor, length),
                      ToSamples(synthesis));
      std::vector<float> reals;
      for (const auto& sample : want) {
        reals.push_back(static_cast<float>(sample.real()));
      }
      return reals;
    });
  }

  // A beamformer: the data of its group, made with its first task.
  struct Beamformer {
    std::vector<uint64_t> signals, coarse, beams, out;
    uint64_t channels = 0;
  };
  static Samples Pairs(const std::vector<float>& values) {
    Samples samples;
    for (size_t i = 0; i < values.size(); i += 2) {
      samples.emplace_back(values[i], values[i + 1]);
    }
    return samples;
  }
  void Beam() {
    using namespace kernels::reference;
    constexpr uint32_t kChannels = kernels::kBeamChannels;
    constexpr uint32_t kTaps = kernels::kBeamTaps;
    constexpr uint64_t kSample = sizeof(Complex);
    const bool forms = task_->kernel == "beam_form";
    const uint32_t length = task_->width;
    std::vector<float> filters[3], weights;
    uint64_t places[3];
    for (int i = 0; i < 3; ++i) {
      places[i] = Shared(fmt::format("beam filter {}", i), &filters[i], [&] {
        std::vector<float> values(2 * kTaps);
        for (float& value : values) value = Random() / 16;
        return values;
      });
    }
    const uint64_t weights_at = Shared("weights", &weights, [&] {
      std::vector<float> values(2 * kernels::kBeams * kChannels);
      for (float& value : values) value = Random() / 4;
      return values;
    });
    Beamformer& group = beamformers_[unit_->group];
    if (group.signals.empty()) {
      length_ = length;
      const uint32_t kept = (length + 1) / 2;
      for (uint32_t channel = 0; channel < kChannels; ++channel) {
        group.signals.push_back(
            Store(Numbers(fmt::format("channel {}", channel), 2 * length)));
        group.coarse.push_back(Allocate(length * kSample));
      }
      group.channels = Allocate(uint64_t{kChannels} * kept * kSample);
      for (uint32_t beam = 0; beam < kernels::kBeams; ++beam) {
        group.beams.push_back(Allocate(kept * kSample));
        group.out.push_back(Allocate(kept * kSample));
      }
    }
    const uint32_t kept = (length_ + 1) / 2;
    const uint64_t row = task_->row;
    if (forms) {
      Buffer("channels", group.channels, uint64_t{kChannels} * kept * kSample);
      Buffer("weights", weights_at + row * kChannels * kSample,
             kChannels * kSample);
      Buffer("beam", group.beams[row], kept * kSample);
      Value("channel_count", kChannels);
      Value("length", kept);
      return;
    }
    const uint32_t phase = task_->phase;
    const uint64_t signal = phase == 0   ? group.signals[row]
                            : phase == 1 ? group.coarse[row]
                                         : group.beams[row];
    const uint64_t out = phase == 0   ? group.coarse[row]
                         : phase == 1 ? group.channels + row * kept * kSample
                                      : group.out[row];
    const uint32_t factor = phase == 1 ? 2 : 1;
    const uint64_t outputs = (length - 1) / factor + 1;
    Buffer("signal", signal, length * kSample);
    Buffer("filter", places[phase == 3 ? 2 : phase], kTaps * kSample);
    Buffer("out", out, outputs * kSample);
    Value("length", length);
    Value("taps", kTaps);
    Value("factor", factor);
    if (phase == 0) unit_->in = {signal, length * kSample};
    if (phase != 3) return;
    unit_->out = {out, outputs * kSample};
    const uint32_t whole = length_;
    Expect<float>(fmt::format("bf {}", row), out, kTolerance, [&] {
      std::vector<Samples> channels;
      for (uint32_t channel = 0; channel < kChannels; ++channel) {
        const Samples coarse = Convolution(
            Pairs(Numbers(fmt::format("channel {}", channel), 2 * whole)),
            Pairs(filters[0]));
        channels.push_back(
            Decimated(Convolution(coarse, Pairs(filters[1])), 2));
      }
      const Samples all = Pairs(weights);
      const Samples mine(all.begin() + row * kChannels,
                         all.begin() + (row + 1) * kChannels);
      std::vector<float> want;
      for (const auto& sample :
           Convolution(WeightedSum(channels, mine), Pairs(filters[2]))) {
        want.push_back(static_cast<float>(sample.real()));
        want.push_back(static_cast<float>(sample.imag()));
      }
      return want;
    });
  }

  void Conv() {
    const bool columns = task_->kernel == "conv_columns";
    const uint32_t width = task_->width;
    const uint32_t height = task_->height;
    const uint32_t radius = kernels::kConvRadius;
    const uint64_t bytes = uint64_t{width} * height * sizeof(float);
    std::vector<float> taps[2];
    uint64_t places[2];
    for (int i = 0; i < 2; ++i) {
      places[i] = Shared(fmt::format("conv taps {}", i), &taps[i], [&] {
        std::vector<float> values(2 * radius + 1);
        for (float& value : values) value = Random() / 4;
        return values;
      });
    }
    const std::vector<float> image = Numbers("image", width * height);
    uint64_t from;
    if (columns) {
      from = rows_[unit_->group];
    } else {
      from = Store(image);
    }
    const uint64_t out = Allocate(bytes);
    if (!columns) rows_[unit_->group] = out;
    Buffer("image", from, bytes);
    Buffer("taps", places[columns], taps[columns].size() * sizeof(float));
    Buffer("out", out, bytes);
    Value("width", width);
    Value("height", height);
    Value("radius", radius);
    if (!columns) {
      unit_->in = {from, bytes};
      return;
    }
    unit_->out = {out, bytes};
    Expect<float>("conv", out, kTolerance, [&] {
      std::vector<float> want;
      for (uint32_t i = 0; i < width * height; ++i) {
        want.push_back(static_cast<float>(kernels::reference::ConvolvedPixel(
            image, width, height, taps[0], taps[1], i % width, i / width)));
      }
      return want;
    });
  }

  void Dct() {
    const uint32_t width = task_->width;
    const uint32_t height = task_->height;
    std::vector<uint8_t> image;
    for (const float value : Numbers("grey", width * height)) {
      image.push_back(static_cast<uint8_t>(127 + 127 * value));
    }
    const uint64_t from = Store(image);
    const uint64_t blocks = uint64_t{(width + 7) / 8} * ((height + 7) / 8);
    const uint64_t bytes = blocks * 64 * sizeof(float);
    const uint64_t out = Allocate(bytes);
    Buffer("image", from, image.size());
    Buffer("coefficients", out, bytes);
    Value("width", width);
    Value("height", height);
    unit_->in = {from, image.size()};
    unit_->out = {out, bytes};
    // Sums of 64 samples up to 128.
    Expect<float>("dct", out, 0.05, [&] {
      std::vector<float> want;
      for (uint64_t block = 0; block < blocks; ++block) {
        const auto left = static_cast<uint32_t>(block % ((width + 7) / 8) * 8);
        const auto top = static_cast<uint32_t>(block / ((width + 7) / 8) * 8);
        for (int i = 0; i < 64; ++i) {
          want.push_back(static_cast<float>(kernels::reference::DctCoefficient(
              image, width, height, left, top, i % 8, i / 8)));
        }
      }
      return want;
    });
  }

  void Matmul() {
    const uint32_t n = task_->width;
    const uint64_t bytes = uint64_t{n} * n * sizeof(float);
    // Whole numbers, whose products the reference has exactly.
    std::vector<float> a = Numbers("a", n * n);
    std::vector<float> b = Numbers("b", n * n);
    for (auto* const matrix : {&a, &b}) {
      for (float& value : *matrix) value = std::round(8 * value);
    }
    const uint64_t a_at = Store(a);
    const uint64_t b_at = Store(b);
    const uint64_t out = Allocate(bytes);
    Buffer("a", a_at, bytes);
    Buffer("b", b_at, bytes);
    Buffer("c", out, bytes);
    Value("n", n);
    // The one lies behind the other.
    unit_->in = {a_at, b_at + bytes - a_at};
    unit_->out = {out, bytes};
    Expect<float>("mm", out, 0,
                  [&] { return kernels::reference::Product(a, b, n); });
  }

  void TripleDes() {
    constexpr uint32_t kLongest = 65'536;
    std::array<uint8_t, kernels::des::kKeyBytes> key;
    for (size_t i = 0; i < key.size(); ++i) {
      key[i] = static_cast<uint8_t>(37 * i + 11);
    }
    std::vector<uint32_t> words;
    const uint64_t keys = Shared("keys", &words, [&] {
      const auto rounds = kernels::des::EncryptKeys(key.data());
      return std::vector<uint32_t>(std::begin(rounds.words),
                                   std::end(rounds.words));
    });
    auto& packet = packets_[variant()];
    while (packet.size() < kLongest) {
      packet.push_back(static_cast<uint8_t>(random_()));
    }
    const uint32_t bytes = task_->width;
    const uint64_t from =
        Store(std::vector<uint8_t>(packet.begin(), packet.begin() + bytes));
    const uint64_t out = Allocate(bytes);
    Buffer("keys", keys, words.size() * sizeof(uint32_t));
    Buffer("packet", from, bytes);
    Buffer("out", out, bytes);
    Value("bytes", bytes);
    unit_->in = {from, bytes};
    unit_->out = {out, bytes};
    Expect<uint8_t>(fmt::format("3des {}", bytes), out, 0, [&] {
      std::vector<uint8_t> want(bytes);
      int length = 0;
      EVP_CIPHER_CTX* const context = EVP_CIPHER_CTX_new();
      EVP_EncryptInit_ex(context, EVP_des_ede3_ecb(), nullptr, key.data(),
                         nullptr);
      EVP_EncryptUpdate(context, want.data(), &length, packet.data(),
                        static_cast<int>(bytes));
      EVP_CIPHER_CTX_free(context);
      return want;
    });
  }

  void Slud() {
    const uint32_t k = task_->phase / 3;
    const uint64_t bytes = uint64_t{n_} * n_ * sizeof(float);
    const auto block = [&](uint32_t row, uint32_t column) {
      return blocks_[row * side_ + column];
    };
    auto& [first, last] = written_[task_->row * side_ + task_->column];
    last = workload_.tasks_.size();
    if (first == 0) first = last;
    if (task_->kernel == "slud_bmod") {
      Buffer("left", block(task_->row, k), bytes);
      Buffer("upper", block(k, task_->column), bytes);
    } else if (task_->kernel != "slud_lu0") {
      Buffer("diagonal", block(k, k), bytes);
    }
    Buffer("block", block(task_->row, task_->column), bytes);
    Value("n", n_);
  }

  NarrowWorkload& workload_;
  std::mt19937_64 random_;
  const NarrowTask* task_ = nullptr;
  NarrowUnit* unit_ = nullptr;
  std::map<std::string, std::pair<uint64_t, uint64_t>> shared_;
  std::map<std::string, std::vector<float>> numbers_;
  std::map<std::string, std::shared_ptr<std::vector<double>>> expected_;
  std::map<uint32_t, Beamformer> beamformers_;
  uint32_t length_ = 0;  // of the beamformers' signals
  std::map<uint32_t, uint64_t> rows_;
  std::map<uint32_t, std::vector<uint8_t>> packets_;
  // SLUD's matrix: in blocks, and as a whole.
  uint32_t n_ = 0;
  uint32_t side_ = 0;
  std::vector<uint64_t> blocks_;
  // The first and the last task that writes a block, from 1; 0: none does.
  std::vector<std::pair<size_t, size_t>> written_;
  std::vector<double> matrix_;
};

absl::StatusOr<NarrowWorkload> NarrowWorkload::Make(std::string_view name,
                                                    uint32_t count,
                                                    uint64_t seed,
                                                    uint32_t threads) {
  const auto kind = std::ranges::find(
      kKinds, name, &std::pair<std::string_view, NarrowKind>::first);
  RETURN_IF_ERROR(CheckName(name));
  if (count == 0 || count > kMostTasks) {
    return absl::InvalidArgumentError(
        fmt::format("{} tasks: a run has 1 to {}", count, kMostTasks));
  }
  if (threads % kWarp != 0 || threads > kMostThreads) {
    return absl::InvalidArgumentError(
        fmt::format("{} threads a task: a multiple of {}, at most {}, or 0 for "
                    "the paper's",
                    threads, kWarp, kMostThreads));
  }
  NarrowWorkload workload;
  workload.name_ = name;
  const auto tasks =
      kernels::NarrowTasks(kind->second, WholeGroups(kind->second, count), seed,
                           kernels::NarrowSizes::kPagoda);
  workload.tasks_.reserve(tasks.size());
  Builder builder(&workload, seed);
  const bool slud = kind->second == NarrowKind::kSlud;
  if (slud) builder.AddMatrix(tasks);
  for (const NarrowTask& task : tasks) builder.Add(task, threads);
  if (slud) builder.CheckMatrix();
  return workload;
}

std::vector<std::byte> NarrowWorkload::ArgumentsOf(const NarrowUnit& task,
                                                   uint64_t base) {
  std::vector<std::byte> bytes(task.kernel->args_size);
  for (const NarrowArgument& argument : task.arguments) {
    const auto param = std::ranges::find(task.kernel->params, argument.name,
                                         &simt::ParamInfo::name);
    if (argument.is_buffer) {
      const simt::Span<std::byte> span = {
          reinterpret_cast<std::byte*>(base + argument.offset),
          argument.bytes / param->element_size};
      std::memcpy(&bytes[param->offset], &span, sizeof(span));
    } else {
      std::memcpy(&bytes[param->offset], &argument.bits, sizeof(uint32_t));
    }
  }
  return bytes;
}

absl::Status NarrowWorkload::Check(std::span<const std::byte> memory) const {
  for (const Result& result : results_) {
    if (result.is_right(memory)) continue;
    return absl::DataLossError(fmt::format(
        "{}: task {} of {} ({}) has a wrong result", name_, result.task,
        tasks_.size(), tasks_[result.task].kernel->name));
  }
  return absl::OkStatus();
}

NarrowOrder::NarrowOrder(const NarrowWorkload& workload)
    : tasks_(workload.tasks()) {
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const NarrowUnit& task = tasks_[i];
    if (task.group >= groups_.size()) groups_.resize(task.group + 1);
    Group& group = groups_[task.group];
    if (task.phase >= group.left.size()) {
      group.left.resize(task.phase + 1);
      group.waiting.resize(task.phase + 1);
    }
    ++group.left[task.phase];
    group.waiting[task.phase].push_back(i);
  }
  for (Group& group : groups_) Open(group);
}

// Lets the tasks of the first phase that has any begin.
void NarrowOrder::Open(Group& group) {
  while (group.phase < group.left.size() && group.left[group.phase] == 0) {
    ++group.phase;
  }
  if (group.phase == group.left.size()) return;
  for (const size_t task : group.waiting[group.phase]) {
    ready_.push_back(task);
    std::ranges::push_heap(ready_, std::greater<>());
  }
}

size_t NarrowOrder::Next() {
  if (ready_.empty()) return kNone;
  std::ranges::pop_heap(ready_, std::greater<>());
  const size_t task = ready_.back();
  ready_.pop_back();
  ++begun_;
  return task;
}

void NarrowOrder::Ended(size_t task) {
  Group& group = groups_[tasks_[task].group];
  ++ended_;
  if (--group.left[group.phase] == 0) Open(group);
}

}  // namespace carillon::bench
