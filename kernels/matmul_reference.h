// The reference result of matmul.
#ifndef CARILLON_KERNELS_MATMUL_REFERENCE_H_
#define CARILLON_KERNELS_MATMUL_REFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace carillon::kernels::reference {

// Multiplies n * n matrices of whole numbers, stored row by row.
inline std::vector<float> Product(std::span<const float> a,
                                  std::span<const float> b, size_t n) {
  std::vector<float> product;
  product.reserve(n * n);
  std::vector<int64_t> row_sums(n);
  for (size_t row = 0; row < n; ++row) {
    row_sums.assign(n, 0);
    for (size_t k = 0; k < n; ++k) {
      const auto left = static_cast<int64_t>(a[row * n + k]);
      for (size_t column = 0; column < n; ++column) {
        row_sums[column] += left * static_cast<int64_t>(b[k * n + column]);
      }
    }
    for (const int64_t sum : row_sums) {
      product.push_back(static_cast<float>(sum));
    }
  }
  return product;
}

}  // namespace carillon::kernels::reference

#endif  // CARILLON_KERNELS_MATMUL_REFERENCE_H_
