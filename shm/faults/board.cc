#include "shm/faults/board.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "base/file_error.h"
#include "base/status.h"
#include "fmt/format.h"
#include "shm/faults/board_layout.h"
#include "shm/waiting.h"

namespace carillon::faults {
namespace {

// The lock of those who change the board: a byte beyond those of the members.
constexpr off_t kLockByte = kMaxMembers;
constexpr std::chrono::seconds kLockPatience{2};

absl::Status SystemError(std::string_view what, const std::string& path) {
  return FileError(what, "board of faults", path);
}

struct flock LockOf(off_t byte, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

}  // namespace

// The right to change the board; a holder that dies lets go of it.
class Board::Lock {
 public:
  static absl::StatusOr<Lock> Take(const Board& board) {
    const auto until = std::chrono::steady_clock::now() + kLockPatience;
    struct flock lock = LockOf(kLockByte, F_WRLCK);
    std::unique_lock<std::mutex> threads(board.mutex_);
    while (fcntl(board.fd_.get(), F_OFD_SETLK, &lock) != 0) {
      if (errno != EAGAIN && errno != EACCES && errno != EINTR) {
        return SystemError("lock", board.path_);
      }
      if (std::chrono::steady_clock::now() > until) {
        return absl::UnavailableError(
            fmt::format("another process holds the board of faults {} locked",
                        board.path_));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return Lock(board, std::move(threads));
  }
  Lock(Lock&& other) noexcept
      : board_(std::exchange(other.board_, nullptr)),
        threads_(std::move(other.threads_)) {}
  ~Lock() {
    if (board_ == nullptr) return;
    struct flock lock = LockOf(kLockByte, F_UNLCK);
    fcntl(board_->fd_.get(), F_OFD_SETLK, &lock);
  }

 private:
  Lock(const Board& board, std::unique_lock<std::mutex> threads)
      : board_(&board), threads_(std::move(threads)) {}

  const Board* board_;
  std::unique_lock<std::mutex> threads_;
};

namespace {

template <size_t size>
void Put(char (&to)[size], std::string_view text) {
  std::memset(to, 0, size);
  text.copy(to, size - 1);
}

template <size_t size>
std::string Get(const char (&from)[size]) {
  return std::string(from, strnlen(from, size));
}

template <class From, class To>
void CopyNumbers(const From& from, To* to) {
  to->event_id = from.event_id;
  to->code = from.code;
  to->offset = from.offset;
  to->after_count = from.after_count;
  to->nth = from.nth;
  to->every = from.every;
  to->probability = from.probability;
  to->after_ns = from.after_ns;
  to->window_ns = from.window_ns;
  to->every_ns = from.every_ns;
  to->times = from.times;
  to->seed = from.seed;
  to->duration_ns = from.duration_ns;
  to->jitter_ns = from.jitter_ns;
  to->count = from.count;
}

FaultWords Pack(const Fault& fault) {
  FaultWords words{};
  words.point = static_cast<uint8_t>(fault.point);
  words.action = static_cast<uint8_t>(fault.action);
  words.bytes_size = static_cast<uint8_t>(fault.bytes.size());
  words.mask_size = static_cast<uint8_t>(fault.mask.size());
  Put(words.name, fault.name);
  Put(words.after_fault, fault.after_fault);
  Put(words.process, fault.process);
  Put(words.device, fault.device);
  Put(words.method, fault.method);
  Put(words.after_process, fault.after_process);
  words.after_state = static_cast<uint32_t>(fault.after_state);
  CopyNumbers(fault, &words);
  std::memcpy(words.bytes, fault.bytes.data(), fault.bytes.size());
  std::memcpy(words.mask, fault.mask.data(), fault.mask.size());
  words.injected_ns = NowNs();
  return words;
}

Fault Unpack(const FaultWords& words) {
  Fault fault;
  fault.point = Point(words.point);
  fault.action = Action(words.action);
  fault.name = Get(words.name);
  fault.after_fault = Get(words.after_fault);
  fault.process = Get(words.process);
  fault.device = Get(words.device);
  fault.method = Get(words.method);
  fault.after_process = Get(words.after_process);
  // What does not fit would look like another state.
  fault.after_state = State(std::min<uint32_t>(words.after_state, kStates));
  CopyNumbers(words, &fault);
  fault.bytes.assign(reinterpret_cast<const char*>(words.bytes),
                     std::min<size_t>(words.bytes_size, kMaxBytes));
  fault.mask.assign(reinterpret_cast<const char*>(words.mask),
                    std::min<size_t>(words.mask_size, kMaxBytes));
  return fault;
}

// The words behind the one that holds `id`: atomics, since members read while
// an injector writes.
using Words = std::array<uint64_t, sizeof(FaultWords) / 8>;
static_assert(sizeof(Words) == sizeof(FaultWords));

void StoreWords(FaultWords* to, const FaultWords& from) {
  Words words;
  std::memcpy(&words, &from, sizeof(words));
  auto* at = reinterpret_cast<uint64_t*>(to);
  for (size_t i = words.size(); i-- > 0;) {
    // The first holds the id, and is stored last.
    std::atomic_ref<uint64_t>(at[i]).store(words[i], std::memory_order_release);
  }
}

// Nothing if there is none, or it changes meanwhile.
std::optional<FaultWords> LoadWords(FaultWords* from) {
  Words words;
  auto* at = reinterpret_cast<uint64_t*>(from);
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = std::atomic_ref<uint64_t>(at[i]).load(std::memory_order_acquire);
  }
  if (std::atomic_ref<uint64_t>(at[0]).load(std::memory_order_acquire) !=
      words[0]) {
    return std::nullopt;
  }
  FaultWords copy;
  std::memcpy(&copy, &words, sizeof(copy));
  if (copy.id == 0) return std::nullopt;
  return copy;
}

template <class T>
T Load(T& word) {
  return std::atomic_ref<T>(word).load(std::memory_order_acquire);
}

bool IsSpent(const Fault& fault, uint64_t struck, Nanoseconds injected,
             Nanoseconds now) {
  if (fault.times != 0 && struck >= fault.times) return true;
  return fault.window_ns != 0 &&
         now > injected + fault.after_ns + fault.window_ns;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Board>> Board::OpenFile(const std::string& path,
                                                       bool create) {
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT : 0);
  UniqueFd fd(open(path.c_str(), flags, 0600));
  if (!fd) return SystemError("open", path);
  constexpr size_t kBytes = sizeof(BoardLayout);
  struct stat file {};
  if (fstat(fd.get(), &file) != 0) return SystemError("look at", path);
  if (!S_ISREG(file.st_mode) ||
      (file.st_size != kBytes && !(create && file.st_size == 0))) {
    return absl::FailedPreconditionError(
        fmt::format("{} is no board of faults: it has {} bytes, not {}", path,
                    file.st_size, kBytes));
  }
  if (file.st_size == 0) {
    if ((errno = posix_fallocate(fd.get(), 0, kBytes)) != 0) {
      const absl::Status status = SystemError("reserve", path);
      unlink(path.c_str());
      return status;
    }
  }
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return SystemError("map", path);
  std::unique_ptr<Board> board(new Board(path, std::move(fd), memory));

  BoardLayout& layout = *board->layout_;
  std::atomic_ref<uint64_t> magic(layout.magic);
  if (create && magic.load(std::memory_order_acquire) == 0) {
    ASSIGN_OR_RETURN(auto lock, Lock::Take(*board));
    layout.version = BoardLayout::kVersion;
    magic.store(BoardLayout::kMagic, std::memory_order_release);
  }
  if (magic.load(std::memory_order_acquire) != BoardLayout::kMagic ||
      layout.version != BoardLayout::kVersion) {
    return absl::FailedPreconditionError(
        fmt::format("{} is no board of faults of this version", path));
  }
  return board;
}

absl::StatusOr<std::unique_ptr<Board>> Board::Create(const std::string& path) {
  return OpenFile(path, true);
}

absl::StatusOr<std::unique_ptr<Board>> Board::Open(const std::string& path) {
  return OpenFile(path, false);
}

Board::~Board() { munmap(layout_, sizeof(BoardLayout)); }

absl::StatusOr<std::vector<uint32_t>> Board::Inject(
    std::span<const Fault> faults, std::chrono::milliseconds patience) {
  std::vector<std::string> names;
  for (const Fault& fault : faults) {
    if (auto status = Check(fault); !status.ok()) {
      return absl::Status(status.code(), fmt::format("fault {}: {}", fault.name,
                                                     status.message()));
    }
    names.push_back(fault.name);
  }
  std::vector<uint32_t> ids;
  {
    ASSIGN_OR_RETURN(auto lock, Lock::Take(*this));
    const std::vector<Injected> there = List();
    if (there.size() + faults.size() > kMaxFaults) {
      return absl::ResourceExhaustedError(
          fmt::format("the board holds {} faults, and {} are on it; clear some",
                      kMaxFaults, there.size()));
    }
    for (const Injected& injected : there) names.push_back(injected.fault.name);
    for (const Fault& fault : faults) {
      if (std::count(names.begin(), names.end(), fault.name) > 1) {
        return absl::AlreadyExistsError(
            fmt::format("there are two faults called {}", fault.name));
      }
      if (!fault.after_fault.empty() &&
          std::count(names.begin(), names.end(), fault.after_fault) == 0) {
        return absl::InvalidArgumentError(
            fmt::format("fault {}: after_fault: there is no fault called {}",
                        fault.name, fault.after_fault));
      }
    }
    size_t slot = 0;
    for (const Fault& fault : faults) {
      while (Load(layout_->faults[slot].words.id) != 0) ++slot;
      FaultCounters& counters = layout_->faults[slot].counters;
      for (uint64_t* word :
           {&counters.passages, &counters.struck, &counters.reached}) {
        std::atomic_ref<uint64_t>(*word).store(0, std::memory_order_relaxed);
      }
      FaultWords words = Pack(fault);
      words.id = ++layout_->next_id;
      StoreWords(&layout_->faults[slot].words, words);
      ids.push_back(words.id);
    }
  }
  Announce(patience);
  return ids;
}

absl::Status Board::Clear(std::string_view name,
                          std::chrono::milliseconds patience) {
  bool found = false;
  {
    ASSIGN_OR_RETURN(auto lock, Lock::Take(*this));
    for (FaultSlot& slot : layout_->faults) {
      const auto words = LoadWords(&slot.words);
      if (!words || Get(words->name) != name) continue;
      found = true;
      StoreWords(&slot.words, FaultWords{});
    }
  }
  if (!found) {
    return absl::NotFoundError(
        fmt::format("there is no fault called {}", name));
  }
  Announce(patience);
  return absl::OkStatus();
}

size_t Board::ClearAll(std::chrono::milliseconds patience) {
  size_t cleared = 0;
  {
    auto lock = Lock::Take(*this);
    if (!lock.ok()) return 0;
    for (FaultSlot& slot : layout_->faults) {
      if (Load(slot.words.id) == 0) continue;
      ++cleared;
      StoreWords(&slot.words, FaultWords{});
    }
  }
  if (cleared > 0) Announce(patience);
  return cleared;
}

absl::StatusOr<size_t> Board::TakePlace(std::string_view name) {
  ASSIGN_OR_RETURN(auto lock, Lock::Take(*this));
  for (size_t i = 0; i < kMaxMembers; ++i) {
    struct flock mine = LockOf(static_cast<off_t>(i), F_WRLCK);
    if (fcntl(fd_.get(), F_OFD_SETLK, &mine) != 0) continue;
    MemberSlot& slot = layout_->members[i];
    Put(slot.name, name);
    std::atomic_ref<uint32_t>(slot.pid).store(static_cast<uint32_t>(getpid()),
                                              std::memory_order_release);
    return i;
  }
  return absl::ResourceExhaustedError(
      fmt::format("{} processes are on the board of faults", kMaxMembers));
}

bool Board::Runs(size_t member) const {
  struct flock lock = LockOf(static_cast<off_t>(member), F_RDLCK);
  return fcntl(fd_.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

void Board::Announce(std::chrono::milliseconds patience) {
  std::array<uint32_t, kMaxMembers> wanted{};
  for (size_t i = 0; i < kMaxMembers; ++i) {
    if (!Runs(i)) continue;
    uint32_t& changes = layout_->members[i].changes;
    wanted[i] = std::atomic_ref<uint32_t>(changes).fetch_add(
                    1, std::memory_order_acq_rel) +
                1;
    shm::FutexWakeAll(&changes);
  }
  const auto until = std::chrono::steady_clock::now() + patience;
  for (size_t i = 0; i < kMaxMembers; ++i) {
    while (wanted[i] != 0 && Runs(i)) {
      uint32_t& word = layout_->members[i].seen;
      const uint32_t seen = Load(word);
      if (static_cast<int32_t>(seen - wanted[i]) >= 0) break;
      const auto left = until - std::chrono::steady_clock::now();
      if (left <= left.zero()) break;
      // Its death wakes nobody.
      const shm::FutexWord futex{&word, seen};
      shm::FutexWait({&futex, 1}, std::min<std::chrono::nanoseconds>(
                                      left, std::chrono::milliseconds(20)));
    }
  }
}

std::vector<Injected> Board::List() const {
  std::vector<Injected> all;
  const Nanoseconds now = NowNs();
  for (FaultSlot& slot : layout_->faults) {
    const auto words = LoadWords(&slot.words);
    if (!words) continue;
    Injected injected{.id = words->id,
                      .fault = Unpack(*words),
                      .injected_ns = words->injected_ns,
                      .passages = Load(slot.counters.passages),
                      .struck = Load(slot.counters.struck)};
    // Any process that can write to the file may have written this.
    if (!Check(injected.fault).ok()) continue;
    injected.spent =
        IsSpent(injected.fault, injected.struck, injected.injected_ns, now);
    all.push_back(std::move(injected));
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  return all;
}

void Board::CountState(std::string_view process, State state) {
  bool counted = false;
  for (FaultSlot& slot : layout_->faults) {
    const auto words = LoadWords(&slot.words);
    if (!words || words->after_state != static_cast<uint32_t>(state) ||
        fnmatch(Get(words->after_process).c_str(), std::string(process).c_str(),
                0) != 0) {
      continue;
    }
    std::atomic_ref<uint64_t>(slot.counters.reached)
        .fetch_add(1, std::memory_order_relaxed);
    counted = true;
  }
  // Who waits for the time of a fault looks at the counters again.
  if (counted) shm::BumpAndWake(&layout_->strike_word);
}

uint64_t Board::strikes() const { return Load(layout_->next_strike); }

std::vector<Strike> Board::Strikes() const {
  const uint64_t end = strikes();
  std::vector<Strike> all;
  for (uint64_t i = end > kMaxStrikes ? end - kMaxStrikes : 0; i < end; ++i) {
    Strike& from = layout_->strikes[i % kMaxStrikes];
    Strike strike{.time_ns = Load(from.time_ns),
                  .fault_id = Load(from.fault_id),
                  .pid = Load(from.pid),
                  .passage = Load(from.passage)};
    // Zero: taken, and not yet written.
    if (strike.time_ns != 0) all.push_back(strike);
  }
  std::sort(all.begin(), all.end(), [](const Strike& a, const Strike& b) {
    return a.time_ns < b.time_ns;
  });
  return all;
}

std::vector<MemberProcess> Board::Members() const {
  std::vector<MemberProcess> all;
  for (size_t i = 0; i < kMaxMembers; ++i) {
    if (!Runs(i)) continue;
    MemberSlot& slot = layout_->members[i];
    const uint32_t pid = Load(slot.pid);
    if (pid == 0) continue;
    all.push_back({.name = Get(slot.name),
                   .pid = pid,
                   .up_to_date = Load(slot.seen) == Load(slot.changes)});
  }
  return all;
}

uint64_t Board::WaitForStrike(uint64_t seen,
                              std::chrono::nanoseconds timeout) const {
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (true) {
    const uint32_t word = Load(layout_->strike_word);
    const uint64_t now = strikes();
    const auto left = until - std::chrono::steady_clock::now();
    if (now > seen || left <= left.zero()) return now;
    const shm::FutexWord futex{&layout_->strike_word, word};
    shm::FutexWait({&futex, 1}, left);
  }
}

}  // namespace carillon::faults
