// The testbed's board of faults: a file in its directory that every process of
// the testbed maps. Whoever injects writes faults on it; the processes find
// theirs there, strike themselves, and count. It outlives them all, so that a
// fault counts on over kills and restarts, gpud's too. A testbed without a
// board (the default) has no faults.
//
// The processes of a testbed that trust one another write to it: nothing else
// of the testbed depends on it, and what is read from it is checked.
#ifndef CARILLON_SHM_FAULTS_BOARD_H_
#define CARILLON_SHM_FAULTS_BOARD_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "shm/faults/fault.h"

namespace carillon::faults {

struct BoardLayout;

inline constexpr size_t kMaxFaults = 64;
inline constexpr size_t kMaxMembers = 128;
inline constexpr size_t kMaxStrikes = 1024;

// A fault on the board.
struct Injected {
  uint32_t id = 0;  // never used twice on one board
  Fault fault;
  Nanoseconds injected_ns = 0;  // CLOCK_MONOTONIC
  uint64_t passages = 0;
  uint64_t struck = 0;
  // No passage will be struck any more: `times` is reached, or the window over.
  bool spent = false;
};

// One time that a fault struck; noted before it takes effect.
struct Strike {
  Nanoseconds time_ns = 0;
  uint32_t fault_id = 0;
  uint32_t pid = 0;
  uint64_t passage = 0;  // 0: at a time
};

// A process that looks at the board.
struct MemberProcess {
  std::string name;
  uint32_t pid = 0;
  bool up_to_date = false;  // it has seen the last change
};

// An open board. Thread safe; several processes may change it at once.
class Board {
 public:
  // Makes the file (0600), or opens the one that is there. Errors:
  // PermissionDenied, ResourceExhausted, FailedPrecondition (no board's file),
  // Internal.
  static absl::StatusOr<std::unique_ptr<Board>> Create(const std::string& path);
  // Errors: NotFound, and as Create().
  static absl::StatusOr<std::unique_ptr<Board>> Open(const std::string& path);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // All or none. On success every member that runs has noticed, unless
  // `patience` is over: Members() tells. Errors: InvalidArgument (Check();
  // `after_fault` unknown), AlreadyExists (name), ResourceExhausted.
  absl::StatusOr<std::vector<uint32_t>> Inject(
      std::span<const Fault> faults,
      std::chrono::milliseconds patience = kPatience);
  // By name; NotFound.
  absl::Status Clear(std::string_view name,
                     std::chrono::milliseconds patience = kPatience);
  // Returns how many there were.
  size_t ClearAll(std::chrono::milliseconds patience = kPatience);

  std::vector<Injected> List() const;   // by id
  std::vector<Strike> Strikes() const;  // the last kMaxStrikes, by time
  uint64_t strikes() const;             // ever
  // Processes that are on the board and run.
  std::vector<MemberProcess> Members() const;
  // Waits until a fault has struck after `seen` strikes, at most `timeout`;
  // returns strikes().
  uint64_t WaitForStrike(uint64_t seen, std::chrono::nanoseconds timeout) const;

  static constexpr std::chrono::milliseconds kPatience{1000};

 private:
  friend class Member;
  class Lock;

  Board(std::string path, UniqueFd fd, void* memory)
      : path_(std::move(path)),
        fd_(std::move(fd)),
        layout_(static_cast<BoardLayout*>(memory)) {}
  static absl::StatusOr<std::unique_ptr<Board>> OpenFile(
      const std::string& path, bool create);
  // A member's, whose process it is until the file is closed.
  absl::StatusOr<size_t> TakePlace(std::string_view name);
  bool Runs(size_t member) const;
  void CountState(std::string_view process, State state);
  void Announce(std::chrono::milliseconds patience);

  const std::string path_;
  const UniqueFd fd_;
  BoardLayout* const layout_;
  // Keeps out this process's threads, as the lock on the file keeps out other
  // processes. The analysis of locks cannot see through the pair (Lock).
  mutable std::mutex mutex_;
};

// This process, on the board: while it exists, faults strike this process. One
// a process.
class Member {
 public:
  // Errors: as Board::Open(); ResourceExhausted (kMaxMembers);
  // FailedPrecondition (this process is on a board).
  static absl::StatusOr<std::unique_ptr<Member>> Join(const std::string& path,
                                                      std::string_view name);
  // Joins for as long as the process lives, if there is a board and the process
  // is on none. Errors: as Join(), but for NotFound and PermissionDenied (a
  // device of another user): OK then.
  static absl::Status JoinForGood(const std::string& path,
                                  std::string_view name);
  ~Member();  // no thread may be at a point
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  class Impl;

 private:
  explicit Member(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace carillon::faults

#endif  // CARILLON_SHM_FAULTS_BOARD_H_
