#include "kernels/images/dct8x8.cuh"
#include "kernels/narrow/references.h"
#include "kernels/narrow/types.h"
#include "tools/bench/narrow/builder.h"

namespace carillon::bench {

void NarrowWorkload::Builder::Mandelbrot() {
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
  Expect<uint32_t>(fmt::format("mb {}x{}", width, height), counts, 0, [=] {
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

void NarrowWorkload::Builder::Conv() {
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
  Expect<float>(fmt::format("conv {}x{}", width, height), out, kTolerance, [&] {
    std::vector<float> want;
    for (uint32_t i = 0; i < width * height; ++i) {
      want.push_back(static_cast<float>(kernels::reference::ConvolvedPixel(
          image, width, height, taps[0], taps[1], i % width, i / width)));
    }
    return want;
  });
}

void NarrowWorkload::Builder::Dct() {
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
  Expect<float>(fmt::format("dct {}x{}", width, height), out, 0.05, [&] {
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

}  // namespace carillon::bench
