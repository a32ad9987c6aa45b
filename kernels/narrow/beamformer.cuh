// The stages of a beamformer (Pagoda's BF, from StreamIt). Each task is a stage of
// one channel or beam; the stages depend on each other:
//
//   beam_fir    a coarse filter of each channel
//   beam_fir    a fine filter of each channel, which keeps each second sample
//   beam_form   one beam: the weighted sum of all channels
//   beam_fir    a filter that matches the expected pulse, for each beam
//
// Samples are complex. The grid may have any size: threads go on in steps of the
// grid's size.
#ifndef CARILLON_KERNELS_NARROW_BEAMFORMER_CUH_
#define CARILLON_KERNELS_NARROW_BEAMFORMER_CUH_

#include "kernels/narrow/types.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct BeamFirArgs {
  simt::Span<const Complex> signal;
  simt::Span<const Complex> filter;
  simt::Span<Complex> out;
  uint32_t length;
  uint32_t taps;
  uint32_t factor;
};

CARILLON_HOST_DEVICE bool BeamFirFits(const BeamFirArgs& args) {
  return args.length != 0 && args.taps != 0 && args.factor != 0 &&
         args.signal.size >= args.length && args.filter.size >= args.taps &&
         args.out.size >= (args.length - 1) / args.factor + 1;
}

// out[i] = the sum of filter[k] * signal[i * factor - k]; what lies before the
// signal is 0.
CARILLON_KERNEL(beam_fir, BeamFirArgs, args, self) {
  if (!BeamFirFits(args)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint32_t outputs = (args.length - 1) / args.factor + 1;
  for (uint64_t i = self.global_linear(); i < outputs;
       i += self.grid_threads()) {
    const uint32_t at = static_cast<uint32_t>(i) * args.factor;
    const uint32_t last = args.taps - 1 < at ? args.taps - 1 : at;
    const Complex* sample = args.signal.data + at;
    const Complex* tap = args.filter.data;
    Complex sum{0.0f, 0.0f};
    for (uint32_t left = last + 1; left > 0; --left, --sample, ++tap) {
      const Complex a = *sample;
      const Complex b = *tap;
      sum.real += a.real * b.real - a.imaginary * b.imaginary;
      sum.imaginary += a.real * b.imaginary + a.imaginary * b.real;
    }
    args.out[i] = sum;
  }
}

inline const char* CheckBeamFir(const simt::LaunchShape&,
                                const BeamFirArgs& args) {
  return BeamFirFits(args)
             ? nullptr
             : "length, taps and factor must not be 0; signal must have length "
               "samples, filter taps, out ceil(length / factor)";
}

CARILLON_KERNEL_INFO(
    beam_fir, BeamFirArgs, "a beamformer's complex filter: a narrow task",
    simt::Registers(31)
        .From("StreamIt beamformer (Pagoda: BF)")
        .Oracle("NumPy, SciPy")
        .LaunchedOnly()
        .Validate<&CheckBeamFir>(),
    CARILLON_PARAM(BeamFirArgs, signal, "length samples: real, imaginary"),
    CARILLON_PARAM(BeamFirArgs, filter, "taps: real, imaginary"),
    CARILLON_PARAM(BeamFirArgs, out, "receives ceil(length / factor) samples"),
    CARILLON_PARAM(BeamFirArgs, length, "samples"),
    CARILLON_PARAM(BeamFirArgs, taps, "of the filter"),
    CARILLON_PARAM(BeamFirArgs, factor,
                   "samples of which one is kept, the first"));

struct BeamFormArgs {
  simt::Span<const Complex> channels;
  simt::Span<const Complex> weights;
  simt::Span<Complex> beam;
  uint32_t channel_count;
  uint32_t length;
};

CARILLON_HOST_DEVICE bool BeamFormFits(const BeamFormArgs& args) {
  return args.channel_count != 0 && args.length != 0 &&
         args.channels.size >=
             static_cast<uint64_t>(args.channel_count) * args.length &&
         args.weights.size >= args.channel_count &&
         args.beam.size >= args.length;
}

CARILLON_KERNEL(beam_form, BeamFormArgs, args, self) {
  if (!BeamFormFits(args)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  for (uint64_t i = self.global_linear(); i < args.length;
       i += self.grid_threads()) {
    const Complex* sample = args.channels.data + i;
    Complex sum{0.0f, 0.0f};
    for (uint32_t channel = 0; channel < args.channel_count; ++channel) {
      const Complex weight = args.weights[channel];
      sum.real +=
          weight.real * sample->real - weight.imaginary * sample->imaginary;
      sum.imaginary +=
          weight.real * sample->imaginary + weight.imaginary * sample->real;
      sample += args.length;
    }
    args.beam[i] = sum;
  }
}

inline const char* CheckBeamForm(const simt::LaunchShape&,
                                 const BeamFormArgs& args) {
  return BeamFormFits(args)
             ? nullptr
             : "channel_count and length must not be 0; channels must have "
               "channel_count * length samples, weights channel_count, beam "
               "length";
}

CARILLON_KERNEL_INFO(
    beam_form, BeamFormArgs, "a beam of weighted channels: a narrow task",
    simt::Registers(32)
        .From("StreamIt beamformer (Pagoda: BF)")
        .Oracle("NumPy, SciPy")
        .LaunchedOnly()
        .Validate<&CheckBeamForm>(),
    CARILLON_PARAM(BeamFormArgs, channels,
                   "[channel][sample]: real, imaginary"),
    CARILLON_PARAM(BeamFormArgs, weights,
                   "a factor a channel: real, imaginary"),
    CARILLON_PARAM(BeamFormArgs, beam, "receives length samples"),
    CARILLON_PARAM(BeamFormArgs, channel_count, "channels"),
    CARILLON_PARAM(BeamFormArgs, length, "samples of each channel"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_NARROW_BEAMFORMER_CUH_
