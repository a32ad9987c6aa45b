// EDGE's wait-release barrier (thesis 5.4.3): __wait_threads() holds a block's
// warps until somebody on the same SM calls __release_threads().
//
// It is level-sensitive, each block for itself: a release lets a block pass
// once, whether its warps wait already or come later, and the barrier is locked
// again when all of them have passed. A release that comes while a block passes
// counts for its next time, since some of its warps may have looked for work
// before it. (The thesis has one barrier for all blocks of an SM, one of which
// it runs; for that the two are the same.) A block that starts later passes by
// the last release if no block has passed by it.
#ifndef CARILLON_SIM_EXEC_WAIT_RELEASE_H_
#define CARILLON_SIM_EXEC_WAIT_RELEASE_H_

#include <array>
#include <cstdint>

namespace carillon::sim {

// Barrier 0 is the thesis's; the others are for the release of some blocks only,
// which it leaves open.
inline constexpr uint32_t kWaitReleaseBarriers = 16;

// Of an SM.
struct Releases {
  std::array<uint64_t, kWaitReleaseBarriers> count{};
  // The last that a whole block has passed by.
  std::array<uint64_t, kWaitReleaseBarriers> passed{};
  uint64_t total = 0;  // of `count`

  void Release(uint32_t barrier) {
    ++count[barrier];
    ++total;
  }
};

// What a block knows of them. Warps are bits.
class WaitRelease {
 public:
  // `warps`: of the block. `releases` must outlive it.
  void Start(Releases* releases, uint64_t warps);

  // A warp has come to it. False: it waits.
  bool Wait(uint32_t barrier, uint64_t warp);
  // The warps that waited and may go on now.
  uint64_t Wake();
  void Exited(uint64_t warp);

  uint64_t waiting() const { return waiting_; }

 private:
  struct Barrier {
    uint64_t waiting = 0;
    uint64_t passed = 0;   // by `passing`
    uint64_t passing = 0;  // the release, while not all have passed
    uint64_t seen = 0;     // the release by which all have passed
  };
  void Pass(uint32_t barrier, uint64_t warps);

  Releases* releases_ = nullptr;
  uint64_t live_ = 0;
  uint64_t waiting_ = 0;
  std::array<Barrier, kWaitReleaseBarriers> barriers_;
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_WAIT_RELEASE_H_
