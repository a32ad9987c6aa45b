#include <algorithm>

#include "kernels/narrow/references.h"
#include "tools/bench/narrow/builder.h"

namespace carillon::bench {

using kernels::NarrowTask;

void NarrowWorkload::Builder::AddMatrix(const std::vector<NarrowTask>& tasks) {
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

void NarrowWorkload::Builder::CheckMatrix() {
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
               // The pivots are as large as the matrix, and L is divided by
               // them; a float of a thousand is good to some 1e-4.
               const double off =
                   y > x ? kTolerance / static_cast<double>(whole)
                         : std::max(kTolerance, 1e-5 * std::abs(want));
               if (!(std::abs(got - want) <= off)) return false;
             }
             return true;
           }});
    }
  }
}

void NarrowWorkload::Builder::Matmul() {
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
  Expect<float>(fmt::format("mm {}", n), out, 0,
                [&] { return kernels::reference::Product(a, b, n); });
}

void NarrowWorkload::Builder::Slud() {
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

}  // namespace carillon::bench
