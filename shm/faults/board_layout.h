// The bytes of a board's file. Text ends with a 0.
//
//   0       8         12        16        24     28         32
//   +-------+---------+---------+---------+------+----------+---------
//   | magic | version | last id | strikes | word | reserved | members
//   +-------+---------+---------+---------+------+----------+---------
//   8224                      37408
//   +-------------------------+--------------------------------
//   | faults, with counters   | strikes: place modulo 1,024
//   +-------------------------+--------------------------------
#ifndef CARILLON_SHM_FAULTS_BOARD_LAYOUT_H_
#define CARILLON_SHM_FAULTS_BOARD_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "shm/faults/board.h"
#include "shm/faults/fault.h"

namespace carillon::faults {

inline constexpr size_t kNameBytes = Fault::kMaxName + 1 + 7;
inline constexpr size_t kGlobBytes = Fault::kMaxGlob + 1;

// A fault, as it lies on the board. Writer: whoever injects, under the board's
// lock, `id` last.
struct FaultWords {
  uint32_t id;  // 0: none
  uint8_t point;
  uint8_t action;
  uint8_t bytes_size;
  uint8_t mask_size;
  char name[kNameBytes];
  char after_fault[kNameBytes];
  char process[kGlobBytes];
  char device[kGlobBytes];
  char method[kGlobBytes];
  char after_process[kGlobBytes];
  uint32_t event_id;
  uint32_t code;
  uint32_t offset;
  uint32_t after_state;
  uint64_t after_count;
  uint64_t nth;
  uint64_t every;
  double probability;
  uint64_t after_ns;
  uint64_t window_ns;
  uint64_t every_ns;
  uint64_t times;
  uint64_t seed;
  uint64_t duration_ns;
  uint64_t jitter_ns;
  uint64_t count;
  uint8_t bytes[kMaxBytes];
  uint8_t mask[kMaxBytes];
  uint64_t injected_ns;
};

// Writers: whoever passes the point (fetch_add, compare and swap); readers:
// they, and whoever lists. Relaxed: each stands for itself.
struct FaultCounters {
  uint64_t passages;
  uint64_t struck;
  // How often `after_state` was reached. Writers: who reaches it (fetch_add).
  uint64_t reached;
};

struct FaultSlot {
  FaultWords words;
  FaultCounters counters;
};

// Its process holds a lock on byte `i` of the file.
struct MemberSlot {
  uint32_t pid;
  // Futex word. Writer: whoever changes the board or wants the member to look,
  // after the change (release). Reader: the member (acquire).
  uint32_t changes;
  // The value of `changes` that the member has seen. Writer: the member
  // (release). It is the futex word of those who wait for the member.
  uint32_t seen;
  uint32_t reserved;
  char name[kNameBytes + 8];
};

struct BoardLayout {
  static constexpr uint64_t kMagic = 0x4452'414f'424c'5243;  // "CRLBOARD"
  static constexpr uint32_t kVersion = 2;

  uint64_t magic;  // written last
  uint32_t version;
  uint32_t next_id;
  uint64_t next_strike;  // writers: whoever strikes (fetch_add)
  uint32_t strike_word;  // futex word: counts strikes
  uint32_t reserved;
  MemberSlot members[kMaxMembers];
  FaultSlot faults[kMaxFaults];
  Strike strikes[kMaxStrikes];
};
static_assert(sizeof(MemberSlot) == 64);
static_assert(sizeof(FaultSlot) == 456);
static_assert(sizeof(Strike) == 24);
static_assert(offsetof(BoardLayout, members) == 32);
static_assert(offsetof(BoardLayout, faults) == 8224);
static_assert(offsetof(BoardLayout, strikes) == 37408);
static_assert(std::is_trivially_copyable_v<BoardLayout>);

}  // namespace carillon::faults

#endif  // CARILLON_SHM_FAULTS_BOARD_LAYOUT_H_
