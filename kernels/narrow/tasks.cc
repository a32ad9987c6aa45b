#include "kernels/narrow/tasks.h"

#include <cstddef>
#include <iterator>
#include <random>
#include <utility>

namespace carillon::kernels {
namespace {

constexpr uint32_t kThreads = 128;
constexpr uint32_t kWarp = 32;
constexpr uint32_t kPacketStep = 2048;

// The blocks of the LU tasks' matrix that are there at a step.
class Structure {
 public:
  explicit Structure(uint32_t blocks) : blocks_(blocks) {
    for (uint32_t row = 0; row < blocks; ++row) {
      for (uint32_t column = 0; column < blocks; ++column) {
        there_.push_back(SludHasBlock(row, column));
      }
    }
  }

  // Calls visit(kernel, phase, row, column) for each task of the decomposition.
  template <class Visit>
  void Decompose(Visit visit) {
    for (uint32_t k = 0; k < blocks_; ++k) {
      visit("slud_lu0", 3 * k, k, k);
      std::vector<uint32_t> columns;
      std::vector<uint32_t> rows;
      for (uint32_t i = k + 1; i < blocks_; ++i) {
        if (at(k, i)) columns.push_back(i);
        if (at(i, k)) rows.push_back(i);
      }
      for (const uint32_t j : columns) visit("slud_fwd", 3 * k + 1, k, j);
      for (const uint32_t i : rows) visit("slud_bdiv", 3 * k + 1, i, k);
      for (const uint32_t i : rows) {
        for (const uint32_t j : columns) {
          at(i, j) = true;
          visit("slud_bmod", 3 * k + 2, i, j);
        }
      }
    }
  }

 private:
  std::vector<bool>::reference at(uint32_t row, uint32_t column) {
    return there_[static_cast<size_t>(row) * blocks_ + column];
  }

  uint32_t blocks_;
  std::vector<bool> there_;
};

class Maker {
 public:
  Maker(uint32_t count, uint64_t seed, NarrowSizes sizes)
      : count_(count), random_(seed), sizes_(sizes) {
    tasks_.reserve(count);
  }

  std::vector<NarrowTask> Make(NarrowKind kind) {
    if (kind == NarrowKind::kSlud) {
      Slud();
      return std::move(tasks_);
    }
    constexpr NarrowKind kMixed[] = {NarrowKind::kTripleDes, NarrowKind::kMb,
                                     NarrowKind::kFb, NarrowKind::kMm};
    while (tasks_.size() < count_) {
      AddGroup(kind == NarrowKind::kMpe ? kMixed[group_ % std::size(kMixed)]
                                        : kind);
      ++group_;
    }
    return std::move(tasks_);
  }

 private:
  void Add(std::string_view kernel, uint32_t width, uint32_t height,
           uint32_t phase = 0, uint32_t row = 0, uint32_t column = 0) {
    if (tasks_.size() == count_) return;
    const uint32_t threads =
        sizes_ == NarrowSizes::kPagoda ? kThreads : kWarp * Between(1, 8);
    tasks_.push_back(
        {kernel, threads, width, height, group_, phase, row, column});
  }

  // Of the standard's engine alone: a distribution's numbers are each library's
  // own.
  uint32_t Between(uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(random_() % (high - low + 1));
  }
  uint32_t Side(uint32_t pagoda) {
    return sizes_ == NarrowSizes::kPagoda ? pagoda
                                          : Between(pagoda / 4, 2 * pagoda);
  }
  uint32_t PacketBytes() {
    return sizes_ == NarrowSizes::kPagoda
               ? kPacketStep * Between(1, 31)
               : 8 * Between(kPacketStep / 8, 32 * kPacketStep / 8);
  }

  void AddGroup(NarrowKind kind) {
    switch (kind) {
      case NarrowKind::kMb:
        return AddImage("mandelbrot", 64);
      case NarrowKind::kFb:
        return Add("filter_bank", Side(2048), 1);
      case NarrowKind::kBf:
        return Beams();
      case NarrowKind::kTripleDes:
        return Add("triple_des", PacketBytes(), 1);
      case NarrowKind::kDct:
        return AddImage("dct8x8_shared", 128);
      case NarrowKind::kConv: {
        const uint32_t width = Side(128);
        const uint32_t height = Side(128);
        Add("conv_rows", width, height, 0);
        return Add("conv_columns", width, height, 1);
      }
      case NarrowKind::kMm: {
        const uint32_t n = Side(64);
        return Add("matmul_shared", n, n);
      }
      case NarrowKind::kSlud:
      case NarrowKind::kMpe:
        return;  // Make() has these
    }
  }

  void AddImage(std::string_view kernel, uint32_t pagoda) {
    const uint32_t width = Side(pagoda);
    const uint32_t height = Side(pagoda);
    Add(kernel, width, height);
  }

  void Beams() {
    const uint32_t length = Side(2048);
    const uint32_t kept = (length + 1) / 2;
    for (uint32_t phase = 0; phase < 2; ++phase) {
      for (uint32_t channel = 0; channel < kBeamChannels; ++channel) {
        Add("beam_fir", length, 1, phase, channel);
      }
    }
    for (uint32_t beam = 0; beam < kBeams; ++beam) {
      Add("beam_form", kept, kBeamChannels, 2, beam);
    }
    for (uint32_t beam = 0; beam < kBeams; ++beam) {
      Add("beam_fir", kept, 1, 3, beam);
    }
  }

  // All blocks of a matrix have the same size.
  void Slud() {
    const uint32_t n = Side(32);
    Structure(SludBlocks(count_))
        .Decompose(
            [&](std::string_view kernel, uint32_t phase, uint32_t row,
                uint32_t column) { Add(kernel, n, n, phase, row, column); });
  }

  uint32_t count_;
  std::mt19937_64 random_;
  NarrowSizes sizes_;
  uint32_t group_ = 0;
  std::vector<NarrowTask> tasks_;
};

}  // namespace

std::vector<NarrowTask> NarrowTasks(NarrowKind kind, uint32_t count,
                                    uint64_t seed, NarrowSizes sizes) {
  return Maker(count, seed, sizes).Make(kind);
}

// The pattern of the Barcelona OpenMP Tasks Suite's sparselu.
bool SludHasBlock(uint32_t row, uint32_t column) {
  if (row == column || row + 1 == column || column + 1 == row) return true;
  return row % 2 == 0 && column % 2 == 0 &&
         (row < column ? row : column) % 3 == 0;
}

uint32_t SludBlocks(uint32_t count) {
  for (uint32_t blocks = 0;; ++blocks) {
    uint64_t tasks = 0;
    Structure(blocks).Decompose([&](auto...) { ++tasks; });
    if (tasks >= count) return blocks;
  }
}

}  // namespace carillon::kernels
