// The narrow tasks of a run, as Pagoda's evaluation spawns them (TOPC'19, Tables 3
// and 4, 6.4): which kernel, of what size, with how many threads, behind which
// others. A seed decides what the paper leaves to chance.
#ifndef CARILLON_KERNELS_NARROW_TASKS_H_
#define CARILLON_KERNELS_NARROW_TASKS_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace carillon::kernels {

enum class NarrowKind {
  kMb,
  kFb,
  kBf,
  kSlud,
  kTripleDes,
  kDct,
  kConv,
  kMm,
  kMpe,  // triple DES, MB, FB and MM in turn
};

enum class NarrowSizes {
  // All tasks have Pagoda's size and 128 threads. Packets have 2048 to 63,488
  // bytes, in steps of 2048, each as often.
  kPagoda,
  // 32 to 256 threads, in steps of 32. Each length and side is between a quarter
  // of Pagoda's and twice as much; packets have 2048 to 65,536 bytes, in steps of
  // 8. The paper says that they vary, and not how.
  kIrregular,
};

// What all tasks of a kernel have in common.
inline constexpr uint32_t kMandelbrotIterations = 400;
inline constexpr uint32_t kFilterBankTaps = 64;
inline constexpr uint32_t kFilterBankFactor = 8;
inline constexpr uint32_t kBeamTaps = 256;
inline constexpr uint32_t kBeamChannels = 12;
inline constexpr uint32_t kBeams = 4;
inline constexpr uint32_t kConvRadius = 8;

// A launch of one block. MM and DCT name the kernels with shared memory;
// matmul_plain and dct8x8_plain take the same arguments.
struct NarrowTask {
  std::string_view kernel;
  uint32_t threads;
  // Of an image or a matrix. A signal has `width` samples, a packet as many bytes.
  uint32_t width;
  uint32_t height;
  // A task begins when all tasks of its group with a lower phase have ended.
  // conv_columns: phase 1. Beams: 0 the coarse filters of all channels, 1 the fine
  // ones, which keep each second sample, 2 beam_form, 3 the beams' filters. LU:
  // step k has the phases 3k, 3k + 1 and 3k + 2.
  uint32_t group;
  uint32_t phase;
  // The LU task's block, or a channel or beam in `row`.
  uint32_t row;
  uint32_t column;
};

// `count` tasks, in an order in which they can be spawned. The last group may lack
// its end.
std::vector<NarrowTask> NarrowTasks(NarrowKind kind, uint32_t count,
                                    uint64_t seed, NarrowSizes sizes);

// Whether the matrix of the LU tasks has a block at the beginning; others are
// empty until slud_bmod makes them.
bool SludHasBlock(uint32_t row, uint32_t column);
// How many blocks a row of that matrix has: the fewest that make `count` tasks.
uint32_t SludBlocks(uint32_t count);

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_NARROW_TASKS_H_
