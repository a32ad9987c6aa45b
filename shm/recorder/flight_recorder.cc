#include "shm/recorder/flight_recorder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/file_error.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace carillon::shm {
namespace {

namespace fs = std::filesystem;

constexpr char kExtension[] = ".rec";
constexpr char kGpud[] = "gpud";
// A process that attaches under one name again and again, and pids that come
// again.
constexpr int kMaxOfOneName = 10'000;
// The recordings of one name that are kept: always so many, and further ones
// while all of them take no more than this.
constexpr size_t kKeptFiles = 4;
constexpr uint64_t kKeptBytes = 256 << 20;
// How often a folder is read anew when a file in it is removed meanwhile.
constexpr int kReadings = 5;
constexpr size_t kMaxName = sizeof(FlightHeader::name) - 1;

uint64_t SlotsAt(uint32_t ring_names) {
  return sizeof(FlightHeader) + ring_names * sizeof(FlightRingName);
}

uint64_t BytesOf(uint64_t slots,
                 uint32_t ring_names = FlightRecorder::kRingNames) {
  return SlotsAt(ring_names) + slots * sizeof(FlightSlot);
}

uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e37'79b9'7f4a'7c15;
  return hash ^ hash >> 32;
}

// `last`: the slot's last word; its low half is the place for the result.
uint32_t Check(uint64_t place, uint64_t time, uint64_t sequence, uint64_t ring,
               uint64_t last) {
  uint64_t hash = Mix(place + 1, time);
  hash = Mix(hash, sequence);
  hash = Mix(hash, ring);
  return static_cast<uint32_t>(Mix(hash, last >> 32));
}

// False: torn.
bool Decode(const FlightSlot& slot, uint64_t place, FlightRecord* record) {
  const auto& [time, sequence, ring, last] = slot.words;
  if (static_cast<uint32_t>(last) != Check(place, time, sequence, ring, last)) {
    return false;
  }
  const auto step = static_cast<uint8_t>(last >> 48);
  if (time == 0 || step == 0 || step >= kSteps) return false;
  *record = {.time_ns = time,
             .sequence = sequence,
             .generation = static_cast<uint32_t>(ring),
             .status = static_cast<uint32_t>(ring >> 32),
             .event_id = static_cast<uint16_t>(last >> 32),
             .step = Step(step),
             .state = EventState(static_cast<uint8_t>(last >> 56))};
  return true;
}

uint32_t Check(uint64_t place, const FlightRingName& name) {
  std::array<uint64_t, sizeof(FlightRingName) / 8> words;
  std::memcpy(words.data(), &name, sizeof(name));
  uint64_t hash = Mix(place + 1, name.generation);
  for (size_t i = 1; i < words.size(); ++i) hash = Mix(hash, words[i]);
  return static_cast<uint32_t>(hash);
}

template <size_t kSize>
std::string_view TextIn(const char (&text)[kSize]) {
  return {text, strnlen(text, kSize)};
}

// As it may be shown on a terminal.
template <size_t kSize>
std::string ShownIn(const char (&text)[kSize]) {
  return EscapeBytes(TextIn(text), [](unsigned char byte) {
    return !absl::ascii_isprint(byte);
  });
}

// Empty: there is none, or it is torn.
std::optional<RingName> Decode(const FlightRingName& name, uint64_t place) {
  if (name.generation == 0 || name.check != Check(place, name)) return {};
  return RingName{.device = ShownIn(name.device),
                  .kernel = ShownIn(name.kernel),
                  .label = ShownIn(name.label)};
}

bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '-';
         });
}

absl::Status SystemError(std::string_view what, const std::string& path) {
  return FileError(what, "flight recorder", path);
}

struct flock WholeFile(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

// Reads `size` bytes, or as many as there are.
size_t ReadAt(int fd, void* to, size_t size, off_t offset) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got =
        pread(fd, static_cast<char*>(to) + done, size - done, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += got;
  }
  return done;
}

absl::Status CheckHeader(const FlightHeader& header, uint64_t file_bytes,
                         const std::string& path) {
  const auto wrong = [&](std::string_view field, uint64_t value,
                         std::string_view expected) {
    return absl::FailedPreconditionError(
        fmt::format("{} is no flight recorder's file: its {} is {:#x}, not {}",
                    path, field, value, expected));
  };
  if (header.magic != FlightHeader::kMagic) {
    return wrong("magic", header.magic,
                 fmt::format("{:#x}", FlightHeader::kMagic));
  }
  if (header.version == FlightHeader::kVersion - 1) {
    return absl::FailedPreconditionError(
        fmt::format("{} was recorded by an older Carillon, in layout {}: this "
                    "one reads {}",
                    path, header.version, FlightHeader::kVersion));
  }
  if (header.version != FlightHeader::kVersion) {
    return wrong("version", header.version,
                 fmt::format("{}", FlightHeader::kVersion));
  }
  if (header.record_bytes != sizeof(FlightSlot)) {
    return wrong("record size", header.record_bytes,
                 fmt::format("{}", sizeof(FlightSlot)));
  }
  // What is left of recordings that were removed (RemoveOldest) has no slots.
  const bool rest = header.capacity == 0;
  if (!rest && (!std::has_single_bit(header.capacity) ||
                header.capacity < FlightRecorder::kMinRecords ||
                header.capacity > FlightRecorder::kMaxRecords)) {
    return wrong(
        "capacity", header.capacity,
        fmt::format("a power of two from {} to {}", FlightRecorder::kMinRecords,
                    FlightRecorder::kMaxRecords));
  }
  if (header.ring_names > FlightRecorder::kRingNames) {
    return wrong("number of ring names", header.ring_names,
                 fmt::format("0 to {}", FlightRecorder::kRingNames));
  }
  const uint64_t least = BytesOf(
      std::min(header.capacity, FlightRecorder::kStep), header.ring_names);
  const uint64_t most = BytesOf(header.capacity, header.ring_names);
  if (file_bytes < least || file_bytes > most) {
    return wrong("size", file_bytes,
                 fmt::format("{:#x} to {:#x}", least, most));
  }
  const std::string_view name(header.name,
                              strnlen(header.name, sizeof(header.name)));
  if (!IsName(name)) {
    return absl::FailedPreconditionError(fmt::format(
        "{} is no flight recorder's file: it names no process", path));
  }
  return absl::OkStatus();
}

// A recording as a folder shows it.
struct OldFile {
  std::string path;
  FlightHeader header;
  uint64_t bytes;  // on the disk
  timespec changed;
};

// Nothing where it is no recording, or its process runs.
std::optional<OldFile> LookAtOld(const std::string& path) {
  const UniqueFd fd(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat facts;
  OldFile file{.path = path};
  struct flock lock = WholeFile(F_RDLCK);
  if (!fd || fstat(fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode) ||
      ReadAt(fd.get(), &file.header, sizeof(file.header), 0) !=
          sizeof(file.header)) {
    return std::nullopt;
  }
  // The layout before had zeros where this one has ring names and clocks.
  if (file.header.version == FlightHeader::kVersion - 1) {
    file.header.version = FlightHeader::kVersion;
  }
  if (!CheckHeader(file.header, static_cast<uint64_t>(facts.st_size), path)
           .ok() ||
      fcntl(fd.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK) {
    return std::nullopt;
  }
  file.bytes = static_cast<uint64_t>(facts.st_blocks) * 512;
  file.changed = facts.st_mtim;
  return file;
}

// Bounds what the dead processes of one name leave: removes the oldest of their
// recordings. NAME-removed.rec stays for all of them, with no slot and the
// number of their records, which readers take for overwritten.
void RemoveOldest(const std::string& directory, std::string_view name) {
  const UniqueFd folder(
      open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Another process does it meanwhile.
  if (!folder || flock(folder.get(), LOCK_EX | LOCK_NB) != 0) return;
  const std::string rest_path =
      fmt::format("{}/{}-removed{}", directory, name, kExtension);
  std::vector<OldFile> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string file = entry.path().filename();
    if (!file.starts_with(name) || !IsFlightRecordingName(file)) continue;
    auto old = LookAtOld(entry.path());
    if (old && old->header.name == name && old->header.capacity != 0) {
      files.push_back(*std::move(old));
    }
  }
  std::ranges::sort(files, [](const OldFile& a, const OldFile& b) {
    return std::tie(a.changed.tv_sec, a.changed.tv_nsec) >
           std::tie(b.changed.tv_sec, b.changed.tv_nsec);
  });
  uint64_t bytes = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    bytes += files[i].bytes;
    if (i < kKeptFiles || bytes <= kKeptBytes) continue;
    const auto rest = LookAtOld(rest_path);
    FlightHeader sum = rest ? rest->header : files[i].header;
    sum.next = files[i].header.next + (rest ? rest->header.next : 0);
    sum.capacity = 0;
    sum.ring_names = 0;
    sum.pid = 0;
    const UniqueFd fd(open(rest_path.c_str(),
                           O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    // First the sum: who dies between the two lines has counted records twice,
    // and has hidden none.
    if (!fd || pwrite(fd.get(), &sum, sizeof(sum), 0) != sizeof(sum)) return;
    unlink(files[i].path.c_str());
  }
}

// A process can write into its own file that it is another.
bool IsNamedAfter(const std::string& path, const FlightRecording& recording) {
  const std::string file = fs::path(path).filename();
  const std::string stem = fmt::format("{}-{}", recording.name, recording.pid);
  return file == fmt::format("{}-removed{}", recording.name, kExtension) ||
         file == stem + kExtension || file.starts_with(stem + "-");
}

// Whether its process died before it could record anything: a file without a
// header.
bool IsBlank(const std::string& path) {
  const UniqueFd fd(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat facts;
  std::array<char, sizeof(FlightHeader)> header{};
  return fd && fstat(fd.get(), &facts) == 0 && S_ISREG(facts.st_mode) &&
         (facts.st_size == 0 ||
          ReadAt(fd.get(), header.data(), header.size(), 0) == header.size()) &&
         std::ranges::all_of(header, [](char c) { return c == 0; });
}

// No state that is none may look like one of those that are.
uint8_t StateByte(EventState state) {
  return static_cast<uint8_t>(std::min(static_cast<uint32_t>(state), 0xffu));
}

}  // namespace

std::string_view StepName(Step step) {
  constexpr std::array<std::string_view, kSteps> kNames = {
      "none",         "attached",      "detached",      "closed",
      "registered",   "unregistered",  "scheduling",    "rung",
      "taken",        "session_began", "session_ended", "ring_made",
      "ring_removed", "ended",         "end_noted",     "resumed",
      "missed",       "found",         "mismatched",    "seen",
      "dispatched",   "counted"};
  const auto index = static_cast<uint8_t>(step);
  return index < kSteps ? kNames[index] : "unknown";
}

absl::StatusOr<std::unique_ptr<FlightRecorder>> FlightRecorder::Create(
    const std::string& directory, std::string_view name, uint64_t records) {
  if (!IsName(name)) {
    return absl::InvalidArgumentError(
        fmt::format("a flight recorder for '{}': a name has 1 to {} letters, "
                    "digits, '_' and '-'",
                    name, kMaxName));
  }
  if (records < kMinRecords || records > kMaxRecords) {
    return absl::InvalidArgumentError(
        fmt::format("a flight recorder of {} records: must be from {} to {}",
                    records, kMinRecords, kMaxRecords));
  }
  const uint64_t capacity = std::bit_ceil(records);
  const uint64_t bytes = BytesOf(capacity);
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return SystemError("make the folder of", directory);
  }
  std::string path;
  UniqueFd fd;
  for (int i = 1; !fd && i <= kMaxOfOneName; ++i) {
    path = fmt::format("{}/{}-{}{}{}", directory, name, getpid(),
                       i == 1 ? "" : fmt::format("-{}", i), kExtension);
    fd.reset(open(path.c_str(),
                  O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd && errno != EEXIST) break;
  }
  if (!fd) return SystemError("make", path);

  struct flock lock = WholeFile(F_WRLCK);
  const bool locked = fcntl(fd.get(), F_OFD_SETLK, &lock) == 0;
  const uint64_t reserved = std::min(capacity, kStep);
  if (locked) errno = posix_fallocate(fd.get(), 0, BytesOf(reserved));
  if (!locked || errno != 0) {
    const absl::Status status = SystemError(locked ? "reserve" : "lock", path);
    unlink(path.c_str());
    return status;
  }
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) {
    const absl::Status status = SystemError("map", path);
    unlink(path.c_str());
    return status;
  }
  std::unique_ptr<FlightRecorder> recorder(
      new FlightRecorder(path, std::move(fd), memory, capacity, reserved));
  FlightHeader& header = *recorder->header_;
  header.version = FlightHeader::kVersion;
  header.record_bytes = sizeof(FlightSlot);
  header.capacity = capacity;
  header.pid = static_cast<uint32_t>(getpid());
  header.ring_names = kRingNames;
  timespec realtime{};
  clock_gettime(CLOCK_REALTIME, &realtime);
  header.monotonic_ns = NowNs();
  header.realtime_ns = static_cast<uint64_t>(realtime.tv_sec) * 1'000'000'000 +
                       static_cast<uint64_t>(realtime.tv_nsec);
  name.copy(header.name, kMaxName);
  // Writer: this thread; readers: other processes, which check all of it.
  std::atomic_ref<uint64_t>(header.magic)
      .store(FlightHeader::kMagic, std::memory_order_release);
  RemoveOldest(directory, name);
  return recorder;
}

absl::StatusOr<std::unique_ptr<FlightRecorder>> FlightRecorder::FromEnvironment(
    const std::string& directory, std::string_view name) {
  const char* const text = std::getenv(kVariable);
  if (text == nullptr || *text == '\0') return nullptr;
  uint64_t records = 0;
  const char* const end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, records);
  if (error != std::errc() || rest != end) {
    return absl::InvalidArgumentError(
        fmt::format("{}={}: must be a number of records from {} to {}",
                    kVariable, text, kMinRecords, kMaxRecords));
  }
  if (records == 0) return nullptr;
  auto recorder = Create(directory, name, records);
  if (recorder.ok() || absl::IsInvalidArgument(recorder.status())) {
    return recorder;
  }
  // Whoever asked for a record must not find half of one afterwards.
  return absl::Status(
      recorder.status().code(),
      fmt::format("{}; it is wanted by {}={}: make room there, or set it to 0 "
                  "(`record` in the topology)",
                  recorder.status().message(), kVariable, text));
}

FlightRecorder::~FlightRecorder() { munmap(header_, BytesOf(capacity_)); }

bool FlightRecorder::HasRoom(uint64_t place) {
  uint64_t reserved = reserved_.load(std::memory_order_relaxed);
  if (reserved < capacity_ && place + kStep / 2 >= reserved) {
    reserved = ReserveFor(place);
  }
  return reserved == capacity_ || place < reserved;
}

uint64_t FlightRecorder::ReserveFor(uint64_t place) {
  MutexLock lock(mutex_);
  uint64_t reserved = reserved_.load(std::memory_order_relaxed);
  // Ahead of the need, so that few writers come here.
  while (!full_ && reserved < capacity_ && place + kStep / 2 >= reserved) {
    full_ = posix_fallocate(fd_.get(), BytesOf(reserved),
                            kStep * sizeof(FlightSlot)) != 0;
    if (!full_) reserved += kStep;
  }
  reserved_.store(reserved, std::memory_order_relaxed);
  return reserved;
}

void FlightRecorder::Record(Step step, uint32_t event_id, Generation generation,
                            uint64_t sequence, EventState state,
                            uint32_t status) {
  Put(NowNs(), step, event_id, generation, sequence, state, status);
}

void FlightRecorder::RecordAt(Nanoseconds time, Step step, uint32_t event_id,
                              Generation generation, uint64_t sequence) {
  Put(time, step, event_id, generation, sequence, EventState::kNone, 0);
}

// Inlined: the path of every event goes through Record().
[[gnu::always_inline]] inline void FlightRecorder::Put(
    Nanoseconds time, Step step, uint32_t event_id, Generation generation,
    uint64_t sequence, EventState state, uint32_t status) {
  // Relaxed: see FlightHeader.
  const uint64_t place = std::atomic_ref<uint64_t>(header_->next)
                             .fetch_add(1, std::memory_order_relaxed);
  if (!HasRoom(place)) return;
  const uint64_t ring = uint64_t{status} << 32 | generation.value();
  uint64_t last = uint64_t{static_cast<uint16_t>(event_id)} << 32 |
                  uint64_t{static_cast<uint8_t>(step)} << 48 |
                  uint64_t{StateByte(state)} << 56;
  last |= Check(place, time, sequence, ring, last);
  FlightSlot& slot = slots_[place & (capacity_ - 1)];
  const auto store = [&](int word, uint64_t value, std::memory_order order) {
    std::atomic_ref<uint64_t>(slot.words[word]).store(value, order);
  };
  store(0, time, std::memory_order_relaxed);
  store(1, sequence, std::memory_order_relaxed);
  store(2, ring, std::memory_order_relaxed);
  store(3, last, std::memory_order_release);
}

void FlightRecorder::NameRing(uint32_t event_id, Generation generation,
                              std::string_view device, std::string_view kernel,
                              std::string_view label) {
  FlightRingName name{.check = 0,
                      .generation = generation.value(),
                      .event_id = static_cast<uint16_t>(event_id),
                      .zero = {},
                      .device = {},
                      .kernel = {},
                      .label = {}};
  device.copy(name.device, sizeof(name.device));
  kernel.copy(name.kernel, sizeof(name.kernel));
  label.copy(name.label, sizeof(name.label));
  MutexLock lock(names_mutex_);
  const uint64_t place = named_++ % kRingNames;
  FlightRingName& there = names_[place];
  // Who dies here leaves a name whose check is wrong.
  std::memcpy(&there, &name, sizeof(name));
  std::atomic_ref<uint32_t>(there.check)
      .store(Check(place, name), std::memory_order_release);
}

absl::StatusOr<FlightRecording> ReadFlightRecording(const std::string& path) {
  // O_NONBLOCK: a FIFO of that name must not hold the reader.
  const UniqueFd fd(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return SystemError("read", path);
  struct stat facts;
  if (fstat(fd.get(), &facts) != 0) return SystemError("read", path);
  const Nanoseconds read_ns = NowNs();
  FlightHeader header{};
  if (!S_ISREG(facts.st_mode) ||
      ReadAt(fd.get(), &header, sizeof(header), 0) != sizeof(header)) {
    return absl::FailedPreconditionError(
        fmt::format("{} is no flight recorder's file: it has no header", path));
  }
  RETURN_IF_ERROR(
      CheckHeader(header, static_cast<uint64_t>(facts.st_size), path));

  FlightRecording recording;
  recording.read_ns = read_ns;
  recording.name = header.name;
  recording.pid = header.pid;
  recording.made_ns = header.monotonic_ns;
  recording.realtime_offset_ns = header.realtime_ns - header.monotonic_ns;
  // Before the records: one that runs now may be dead when they are read, and
  // is taken for running then, which claims less.
  struct flock lock = WholeFile(F_RDLCK);
  recording.running =
      fcntl(fd.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  const uint64_t capacity = header.capacity;
  const uint64_t end = header.next;
  const uint64_t used = std::min(end, capacity);
  // Records that come while this reads lie where the oldest were.
  std::vector<FlightSlot> slots(used);
  const size_t got = ReadAt(fd.get(), slots.data(), used * sizeof(FlightSlot),
                            static_cast<off_t>(SlotsAt(header.ring_names)));
  slots.resize(got / sizeof(FlightSlot));
  uint64_t end_now = end;
  if (ReadAt(fd.get(), &end_now, sizeof(end_now),
             offsetof(FlightHeader, next)) != sizeof(end_now) ||
      end_now < end) {
    end_now = end;
  }
  recording.written = end;
  recording.overwritten =
      std::min(end, end_now > capacity ? end_now - capacity : 0);
  recording.records.reserve(end - recording.overwritten);
  for (uint64_t place = recording.overwritten; place < end; ++place) {
    const uint64_t index = place & (capacity - 1);
    FlightRecord record;
    if (index < slots.size() && Decode(slots[index], place, &record)) {
      recording.records.push_back(record);
    } else {
      ++recording.torn;
    }
  }
  // After the records: a ring has its name before its first record.
  std::vector<FlightRingName> names(header.ring_names);
  const size_t named =
      ReadAt(fd.get(), names.data(), names.size() * sizeof(FlightRingName),
             sizeof(FlightHeader)) /
      sizeof(FlightRingName);
  for (size_t place = 0; place < named; ++place) {
    auto name = Decode(names[place], place);
    if (!name) continue;
    // A device has rings of its own only.
    if (recording.name != kGpud) name->device = recording.name;
    recording.ring_names.emplace(
        std::pair(names[place].event_id, names[place].generation),
        *std::move(name));
  }
  return recording;
}

bool IsFlightRecordingName(std::string_view file) {
  return file.ends_with(kExtension);
}

std::vector<FlightRecording> ReadFlightRecordings(
    const std::string& directory, std::vector<std::string>* unreadable) {
  std::vector<FlightRecording> recordings;
  bool whole = false;
  for (int i = 1; !whole && i <= kReadings; ++i) {
    std::vector<std::string> paths;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(directory, error)) {
      if (IsFlightRecordingName(entry.path().filename().native())) {
        paths.push_back(entry.path());
      }
    }
    std::sort(paths.begin(), paths.end());
    recordings.clear();
    std::vector<std::string> wrong;
    whole = true;
    for (const std::string& path : paths) {
      auto recording = ReadFlightRecording(path);
      if (recording.ok() && !IsNamedAfter(path, *recording)) {
        recording = absl::FailedPreconditionError(fmt::format(
            "{} says that it is of {} (pid {}), and has not that name", path,
            recording->name, recording->pid));
      }
      if (recording.ok()) {
        recordings.push_back(*std::move(recording));
        continue;
      }
      // Removed since (RemoveOldest): what stands for it may be read already.
      if (absl::IsNotFound(recording.status())) whole = false;
      if (!IsBlank(path)) wrong.emplace_back(recording.status().message());
    }
    if (whole || i == kReadings) {
      unreadable->insert(unreadable->end(), wrong.begin(), wrong.end());
    }
  }
  std::stable_sort(recordings.begin(), recordings.end(),
                   [](const FlightRecording& a, const FlightRecording& b) {
                     return std::tie(a.name, a.pid) < std::tie(b.name, b.pid);
                   });
  return recordings;
}

}  // namespace carillon::shm
