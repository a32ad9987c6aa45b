// EDGE's wait-release barrier (thesis 5.4.3): __wait_threads() holds a block's
// warps until somebody on the same SM calls __release_threads().
//
// The barrier is level-sensitive, for each block separately. A release lets a
// block pass once, whether its warps wait already or come later; when all of
// them have passed, the barrier is locked again. A release that comes while a
// block passes counts for its next pass, since some of its warps may have
// looked for work before the release. (The thesis has one barrier for all
// blocks of an SM, and runs one block there; with one block the two are the
// same.) A block that starts later passes by the last release if no other block
// has passed by it.
#ifndef CARILLON_SIM_EXEC_WAIT_RELEASE_H_
#define CARILLON_SIM_EXEC_WAIT_RELEASE_H_

#include <array>
#include <cstdint>

namespace carillon::sim {

// Barrier 0 is the thesis's. The others allow a release of some blocks only,
// which the thesis leaves open.
inline constexpr uint32_t kWaitReleaseBarriers = 16;

struct Releases {
  std::array<uint64_t, kWaitReleaseBarriers> count{};
  // The last release by which a whole block has passed.
  std::array<uint64_t, kWaitReleaseBarriers> passed{};
  uint64_t total = 0;  // the sum of `count`

  void Release(uint32_t barrier) {
    ++count[barrier];
    ++total;
  }
};

// A block's state at the wait-release barriers. A bit stands for a warp.
class WaitRelease {
 public:
  // `warps` are the block's warps. `releases` must outlive this object.
  void Start(Releases* releases, uint64_t warps);

  // A warp arrives at the barrier. Returns false if it must wait.
  bool Wait(uint32_t barrier, uint64_t warp);
  // Returns the waiting warps that may go on now.
  uint64_t Wake();
  void Exited(uint64_t warp);

  uint64_t waiting() const { return waiting_; }

 private:
  struct Barrier {
    uint64_t waiting = 0;
    uint64_t passed = 0;   // bit i: the warp has passed by `passing`
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
