#include <complex>

#include "kernels/narrow/references.h"
#include "kernels/narrow/types.h"
#include "tools/bench/narrow/builder.h"

namespace carillon::bench {
namespace {

using kernels::Complex;
using kernels::reference::Samples;

Samples ToSamples(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}
Samples Pairs(const std::vector<float>& values) {
  Samples samples;
  for (size_t i = 0; i < values.size(); i += 2) {
    samples.emplace_back(values[i], values[i + 1]);
  }
  return samples;
}

}  // namespace

void NarrowWorkload::Builder::FilterBank() {
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
  Expect<float>(fmt::format("fb {}", length), out, kTolerance, [=] {
    using namespace kernels::reference;
    const Samples passed = Convolution(ToSamples(values), ToSamples(analysis));
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

void NarrowWorkload::Builder::Beam() {
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
  Expect<float>(fmt::format("bf {} {}", whole, row), out, kTolerance, [&] {
    std::vector<Samples> channels;
    for (uint32_t channel = 0; channel < kChannels; ++channel) {
      const Samples coarse = Convolution(
          Pairs(Numbers(fmt::format("channel {}", channel), 2 * whole)),
          Pairs(filters[0]));
      channels.push_back(Decimated(Convolution(coarse, Pairs(filters[1])), 2));
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

}  // namespace carillon::bench
