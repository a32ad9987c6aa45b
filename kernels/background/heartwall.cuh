// heartwall: follows points of a moving heart from frame to frame, in the
// manner of Rodinia's heartwall: a block of 256 threads searches for one
// point's template where the point was, by normalised correlation. Long phases,
// some of one thread only, with up to 175 barriers. A background kernel of
// EDGE's figures.
//
// Shared memory, 11,860 bytes:
//
//   0              10404             10812              11860
//   +--------------+-----------------+------------------+
//   | template,    | 2 x 51 sums of  | 2 x 131 sums of  |
//   | then scores  | template rows   | frame columns    |
//   +--------------+-----------------+------------------+
#ifndef CARILLON_KERNELS_BACKGROUND_HEARTWALL_CUH_
#define CARILLON_KERNELS_BACKGROUND_HEARTWALL_CUH_

#include <cmath>

#include "kernels/background/types.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kHeartwallBlock = 256;
inline constexpr uint32_t kHeartwallTemplate = 51;  // at most, along a side
inline constexpr uint32_t kHeartwallSearch = 81;    // at most, along a side
inline constexpr uint32_t kHeartwallColumns =
    kHeartwallTemplate + kHeartwallSearch - 1;
inline constexpr uint32_t kHeartwallRowSums =
    kHeartwallTemplate * kHeartwallTemplate;
inline constexpr uint32_t kHeartwallColumnSums =
    kHeartwallRowSums + 2 * kHeartwallTemplate;
inline constexpr uint32_t kHeartwallWords =
    kHeartwallColumnSums + 2 * kHeartwallColumns;
static_assert(kHeartwallWords * sizeof(float) == 11860);

// A point that lies outside of the frame fails the event with this.
inline constexpr uint32_t kHeartwallBadPlace = 16;

struct HeartwallArgs {
  simt::Span<const float> frame;
  simt::Span<const float> templates;
  simt::Span<HeartwallPlace> places;
  simt::Span<float> scores;
  simt::Span<float> scratch;
  uint32_t width;
  uint32_t height;
  uint32_t template_size;
  uint32_t search_size;
};

CARILLON_HOST_DEVICE bool HeartwallFits(const HeartwallArgs& args) {
  const uint64_t points = args.places.size;
  const uint64_t t = args.template_size;
  const uint64_t s = args.search_size;
  if (t % 2 == 0 || t > kHeartwallTemplate || s % 2 == 0 ||
      s > kHeartwallSearch) {
    return false;
  }
  return args.width >= 1 && args.width <= 1u << 20 && args.height >= 1 &&
         args.height <= 1u << 20 &&
         args.frame.size >= static_cast<uint64_t>(args.width) * args.height &&
         args.templates.size / (t * t) >= points &&
         args.scores.size >= points && args.scratch.size / (s * s) >= points;
}

// A pixel of the frame; outside of the frame, the nearest one at its edge.
CARILLON_DEVICE float HeartwallPixel(const HeartwallArgs& args, int32_t x,
                                     int32_t y) {
  const int32_t right = static_cast<int32_t>(args.width) - 1;
  const int32_t bottom = static_cast<int32_t>(args.height) - 1;
  x = x < 0 ? 0 : (x > right ? right : x);
  y = y < 0 ? 0 : (y > bottom ? bottom : y);
  return args
      .frame[static_cast<uint64_t>(y) * args.width + static_cast<uint64_t>(x)];
}

CARILLON_BARRIER_KERNEL(heartwall, HeartwallArgs, args, self) {
  if (self.block_dim() != simt::Dim3{kHeartwallBlock, 1, 1} ||
      self.grid_dim().y != 1 || self.grid_dim().z != 1) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!HeartwallFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint32_t point = self.block_index().x;
  if (point >= args.places.size) CARILLON_EXIT;
  const uint32_t tid = self.thread_index().x;
  const uint32_t size = args.template_size;
  const uint32_t search = args.search_size;
  const uint32_t area = size * size;
  float* tile = self.shared<float>(0, kHeartwallRowSums);
  float* row_sums = self.shared<float>(kHeartwallRowSums * sizeof(float),
                                       2 * kHeartwallTemplate);
  float* column_sums = self.shared<float>(kHeartwallColumnSums * sizeof(float),
                                          2 * kHeartwallColumns);
  uint32_t* choices =
      self.shared<uint32_t>(kHeartwallBlock * sizeof(float), kHeartwallBlock);
  const float* pattern =
      args.templates.data + static_cast<uint64_t>(point) * area;
  float* correlations =
      args.scratch.data + static_cast<uint64_t>(point) * search * search;

  // Thread 0 writes the place only after the last barrier, so all threads may
  // read it here.
  const HeartwallPlace place = args.places[point];
  if (place.x >= args.width || place.y >= args.height) {
    self.Fail(kHeartwallBadPlace);
    CARILLON_EXIT;
  }
  // The frame's pixel below the template's first one, at the first place to
  // try.
  const int32_t left = static_cast<int32_t>(place.x) -
                       static_cast<int32_t>(search / 2 + size / 2);
  const int32_t top = static_cast<int32_t>(place.y) -
                      static_cast<int32_t>(search / 2 + size / 2);

  for (uint32_t i = tid; i < area; i += kHeartwallBlock) tile[i] = pattern[i];
  CARILLON_SYNC_THREADS(self);

  // The sum and the sum of squares of the template: first of each row, then of
  // all.
  if (tid < size) {
    float sum = 0.0f;
    float squares = 0.0f;
    for (uint32_t i = 0; i < size; ++i) {
      const float value = tile[tid * size + i];
      sum += value;
      squares += value * value;
    }
    row_sums[tid] = sum;
    row_sums[kHeartwallTemplate + tid] = squares;
  }
  CARILLON_SYNC_THREADS(self);
  if (tid == 0) {
    for (uint32_t i = 1; i < size; ++i) {
      row_sums[0] += row_sums[i];
      row_sums[kHeartwallTemplate] += row_sums[kHeartwallTemplate + i];
    }
  }
  CARILLON_SYNC_THREADS(self);

  // The products of the template with the frame, at every place of the search.
  for (uint32_t i = tid; i < search * search; i += kHeartwallBlock) {
    const int32_t x = left + static_cast<int32_t>(i % search);
    const int32_t y = top + static_cast<int32_t>(i / search);
    float sum = 0.0f;
    for (uint32_t row = 0; row < size; ++row) {
      for (uint32_t column = 0; column < size; ++column) {
        sum += tile[row * size + column] *
               HeartwallPixel(args, x + static_cast<int32_t>(column),
                              y + static_cast<int32_t>(row));
      }
    }
    correlations[i] = sum;
  }
  CARILLON_SYNC_THREADS(self);

  const float count = static_cast<float>(area);
  const float pattern_mean = row_sums[0] / count;
  const float pattern_variance =
      row_sums[kHeartwallTemplate] - row_sums[0] * pattern_mean;
  const uint32_t columns = size + search - 1;
  float best = -2.0f;
  uint32_t choice = 0;
  for (uint32_t row = 0; row < search; ++row) {
    // Moving one row down, each column gains a pixel and loses one.
    if (tid < columns) {
      const int32_t x = left + static_cast<int32_t>(tid);
      float sum = 0.0f;
      float squares = 0.0f;
      if (row == 0) {
        for (uint32_t i = 0; i < size; ++i) {
          const float value =
              HeartwallPixel(args, x, top + static_cast<int32_t>(i));
          sum += value;
          squares += value * value;
        }
      } else {
        const float out =
            HeartwallPixel(args, x, top + static_cast<int32_t>(row) - 1);
        const float in =
            HeartwallPixel(args, x, top + static_cast<int32_t>(row + size) - 1);
        sum = column_sums[tid] + in - out;
        squares = column_sums[kHeartwallColumns + tid] + in * in - out * out;
      }
      column_sums[tid] = sum;
      column_sums[kHeartwallColumns + tid] = squares;
    }
    CARILLON_SYNC_THREADS(self);
    if (tid < search) {
      float sum = 0.0f;
      float squares = 0.0f;
      for (uint32_t i = 0; i < size; ++i) {
        sum += column_sums[tid + i];
        squares += column_sums[kHeartwallColumns + tid + i];
      }
      const float variance = squares - sum * sum / count;
      const float scale = variance * pattern_variance;
      const float covariance =
          correlations[row * search + tid] - sum * pattern_mean;
      // A uniform area has no correlation.
      const float score = scale > 0.0f ? covariance / sqrtf(scale) : -1.0f;
      if (score > best) {
        best = score;
        choice = row * search + tid;
      }
    }
    CARILLON_SYNC_THREADS(self);
  }

  // The best score; among equals, the first place.
  tile[tid] = best;
  choices[tid] = choice;
  CARILLON_SYNC_THREADS(self);
  for (uint32_t half = kHeartwallBlock / 2; half > 0; half /= 2) {
    if (tid < half) {
      const float other = tile[tid + half];
      const uint32_t other_choice = choices[tid + half];
      if (other > tile[tid] ||
          (other == tile[tid] && other_choice < choices[tid])) {
        tile[tid] = other;
        choices[tid] = other_choice;
      }
    }
    CARILLON_SYNC_THREADS(self);
  }
  if (tid == 0) {
    const int32_t x = static_cast<int32_t>(place.x + choices[0] % search) -
                      static_cast<int32_t>(search / 2);
    const int32_t y = static_cast<int32_t>(place.y + choices[0] / search) -
                      static_cast<int32_t>(search / 2);
    const int32_t right = static_cast<int32_t>(args.width) - 1;
    const int32_t bottom = static_cast<int32_t>(args.height) - 1;
    args.places[point] = HeartwallPlace{
        static_cast<uint32_t>(x < 0 ? 0 : (x > right ? right : x)),
        static_cast<uint32_t>(y < 0 ? 0 : (y > bottom ? bottom : y))};
    args.scores[point] = tile[0];
  }
}

inline const char* CheckHeartwallShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kHeartwallBlock, 1, 1} &&
                 shape.grid.y == 1 && shape.grid.z == 1
             ? nullptr
             : "the grid has a block of 256x1x1 threads a point";
}

inline const char* CheckHeartwall(const simt::LaunchShape& shape,
                                  const HeartwallArgs& args) {
  if (!HeartwallFits(args)) {
    return "template_size must be odd, at most 51, search_size odd, at most "
           "81; width and height 1..2^20; frame width * height elements, "
           "templates template_size^2 a point, scratch search_size^2, scores 1";
  }
  if (shape.grid.x < args.places.size)
    return "the grid must have a block a point";
  return CheckHeartwallShape(shape);
}

CARILLON_KERNEL_INFO(
    heartwall, HeartwallArgs, "finds templates again near where they were",
    simt::Registers(39)
        .From("Rodinia heartwall (EDGE: HRTWL)")
        .Oracle("NumPy, SciPy")
        .Shared(kHeartwallWords * sizeof(float))
        .LeavesTogether()
        .Shape<&CheckHeartwallShape>()
        .Validate<&CheckHeartwall>(),
    CARILLON_PARAM(HeartwallArgs, frame, "width * height samples, row by row"),
    CARILLON_PARAM(HeartwallArgs, templates,
                   "template_size^2 samples a point, row by row"),
    CARILLON_PARAM(HeartwallArgs, places,
                   "where each point was; becomes where it is"),
    CARILLON_PARAM(HeartwallArgs, scores,
                   "receives the correlation there, -1..1"),
    CARILLON_PARAM(HeartwallArgs, scratch, "search_size^2 numbers a point"),
    CARILLON_PARAM(HeartwallArgs, width, "of the frame, pixels"),
    CARILLON_PARAM(HeartwallArgs, height, "of the frame, pixels"),
    CARILLON_PARAM(HeartwallArgs, template_size, "rows and columns, odd"),
    CARILLON_PARAM(HeartwallArgs, search_size,
                   "rows and columns of places to try, odd"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_HEARTWALL_CUH_
