#include "sim/exec/matrix.h"

#include <utility>

namespace carillon::sim {

uint32_t BitsOf(MatrixType type) {
  switch (type) {
    case MatrixType::kF16:
    case MatrixType::kBf16:
      return 16;
    case MatrixType::kTf32:
    case MatrixType::kF32:
    case MatrixType::kB1:
    case MatrixType::kS32:
      return 32;
    case MatrixType::kF64:
      return 64;
    case MatrixType::kS8:
    case MatrixType::kU8:
      return 8;
    case MatrixType::kS4:
    case MatrixType::kU4:
      return 4;
  }
  return 0;
}

void SetPlaces(Fragment& fragment) {
  const uint32_t elements = fragment.elements();
  fragment.places.resize(size_t{elements} * kLanes);
  for (uint32_t i = 0; i < elements; ++i) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const uint32_t group = lane / 4;
      const uint32_t thread = lane % 4;
      uint32_t row = 0;
      uint32_t column = 0;
      if (fragment.role == MatrixRole::kAccumulator) {
        const uint32_t strip = i / 4;
        row = group + 8 * (i / 2 % 2);
        column = 2 * thread + i % 2;
        if (fragment.columns == 32) {
          std::swap(row, column);
          column += 16 * strip;
        } else if (fragment.rows == 32) {
          row += 16 * strip;
        } else {
          column += 8 * strip;
        }
      } else {
        // The sum of products runs along `depth`, the strips lie side by side
        // along `extent`.
        const bool is_a = fragment.role == MatrixRole::kA;
        const uint32_t extent = is_a ? fragment.rows : fragment.columns;
        const uint32_t depth = is_a ? fragment.columns : fragment.rows;
        const bool wide = is_a ? extent >= 16 : extent == 32;
        const uint32_t width = wide ? 16 : 8;
        const uint32_t per = fragment.elements_of_register();
        const uint32_t registers = depth / (4 * per) * (wide ? 2 : 1);
        const uint32_t strip = i / per / registers % (extent / width);
        const uint32_t r = i / per % registers;
        const uint32_t at = width * strip + group + (wide ? 8 * (r % 2) : 0);
        const uint32_t k =
            4 * per * (wide ? r / 2 : r) + per * thread + i % per;
        row = is_a ? at : k;
        column = is_a ? k : at;
      }
      fragment.places[size_t{i} * kLanes + lane] =
          static_cast<uint16_t>(row * fragment.columns + column);
    }
  }
}

}  // namespace carillon::sim
