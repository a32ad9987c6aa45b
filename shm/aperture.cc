#include "shm/aperture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/interprocess/exceptions.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "fmt/format.h"

namespace carillon::shm {
namespace {

namespace bip = boost::interprocess;

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
// Linux 6.3; not yet in Debian 12's headers.
constexpr unsigned kNoExecSeal = 0x0008U;

// The interface that boost::interprocess::mapped_region needs of a mappable
// thing.
class FdMapping {
 public:
  explicit FdMapping(int fd) : fd_(fd) {}
  bip::mapping_handle_t get_mapping_handle() const { return {fd_, false}; }

 private:
  int fd_;
};

absl::StatusOr<bip::mapped_region> MapFd(int fd, bip::mode_t mode,
                                         uint64_t size) {
  try {
    return bip::mapped_region(FdMapping(fd), mode, 0, size);
  } catch (const bip::interprocess_exception& error) {
    return absl::ResourceExhaustedError(fmt::format(
        "cannot map an aperture of {} bytes: {}; raise the limit of address "
        "space (ulimit -v)",
        size, error.what()));
  }
}

uint64_t HeapOffset(RegionKind kind) {
  return kind == RegionKind::kSubmission ? kSubmissionHeapOffset
                                         : kCompletionHeapOffset;
}

// A core dump makes memory of every page that it reads, those that nobody was
// given, too.
void LeaveOutOfCoreDumps(void* base, RegionKind kind, uint64_t size) {
  const uint64_t heap = HeapOffset(kind);
  (void)madvise(static_cast<std::byte*>(base) + heap, size - heap,
                MADV_DONTDUMP);
}

std::string_view KindName(RegionKind kind) {
  switch (kind) {
    case RegionKind::kSubmission:
      return "submission";
    case RegionKind::kCompletion:
      return "completion";
  }
  return "unknown";
}

absl::Status Mismatch(std::string_view field, uint64_t found,
                      uint64_t expected) {
  return absl::FailedPreconditionError(
      fmt::format("this is not a valid aperture: {} is {}, expected {}; do "
                  "gpud and the device "
                  "come from the same build?",
                  field, found, expected));
}

bool IsDoorbellCount(uint32_t count) {
  return count != 0 && count <= kMaxDoorbells && count % kDoorbellsPerLine == 0;
}

std::string WhyNotDoorbellCount(uint32_t count) {
  return fmt::format(
      "doorbell count {}: must be a multiple of {} from {} to {}", count,
      kDoorbellsPerLine, kDoorbellsPerLine, kMaxDoorbells);
}

absl::Status CheckHeader(const RegionHeader& header, uint64_t magic,
                         uint64_t file_size, RegionKind kind,
                         Generation generation) {
  if (magic != kMagic) return Mismatch("magic", magic, kMagic);
  if (header.layout_version != kLayoutVersion) {
    return Mismatch("layout version", header.layout_version, kLayoutVersion);
  }
  if (header.kind != kind) {
    return absl::FailedPreconditionError(
        fmt::format("expected a {} aperture, got kind {}", KindName(kind),
                    static_cast<uint32_t>(header.kind)));
  }
  if (header.size != file_size) return Mismatch("size", header.size, file_size);
  if (header.generation != generation.value()) {
    return Mismatch("generation", header.generation, generation.value());
  }
  if (header.heap_offset != HeapOffset(kind)) {
    return Mismatch("heap offset", header.heap_offset, HeapOffset(kind));
  }
  if (header.heap_size != file_size - header.heap_offset) {
    return Mismatch("heap size", header.heap_size,
                    file_size - header.heap_offset);
  }
  if (!IsDoorbellCount(header.doorbell_count)) {
    return absl::FailedPreconditionError(
        fmt::format("this is not a valid aperture: {}",
                    WhyNotDoorbellCount(header.doorbell_count)));
  }
  return absl::OkStatus();
}

// Bytes that the machine can give without swapping, or nothing if it does not
// say.
std::optional<uint64_t> AvailableMemory() {
  std::ifstream meminfo("/proc/meminfo");
  std::string field;
  uint64_t kibibytes;
  while (meminfo >> field >> kibibytes) {
    if (field == "MemAvailable:") return kibibytes * 1024;
    meminfo.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

// Beyond the limit, the kernel would send SIGXFSZ.
absl::Status CheckFileSize(uint64_t size, std::string_view kind) {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      size <= limit.rlim_cur) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(fmt::format(
      "cannot make a {} aperture of {} bytes: the file size limit (ulimit -f) "
      "is {} bytes",
      kind, size, limit.rlim_cur));
}

// Takes bytes [begin, end) of the file, so that a full machine is an error here
// and not a SIGBUS later. What cannot be there is refused before it is tried:
// the kernel would kill somebody to make room for it.
absl::Status ReserveFile(int fd, uint64_t begin, uint64_t end,
                         std::string_view kind) {
  const uint64_t size = end - begin;
  const auto refused = [&](std::string_view why) {
    return absl::ResourceExhaustedError(fmt::format(
        "cannot reserve {} bytes of shared memory for a {} aperture: {}", size,
        kind, why));
  };
  const auto available = AvailableMemory();
  if (available.has_value() && size > *available / 8 * 7) {
    return refused(fmt::format(
        "this machine has {} available, and an eighth stays free; ask for less",
        *available));
  }
  RETURN_IF_ERROR(CheckFileSize(end, kind));
  // In pieces: on kernels like Debian 12's a signal undoes the piece that it
  // interrupts, and a large one would never get done under a timer.
  constexpr uint64_t kPiece = uint64_t{256} << 10;
  for (uint64_t at = begin; at < end; at += kPiece) {
    int error;
    do {
      error = posix_fallocate(fd, static_cast<off_t>(at),
                              static_cast<off_t>(std::min(kPiece, end - at)));
    } while (error == EINTR);
    if (error != 0) return refused(std::strerror(error));
  }
  return absl::OkStatus();
}

UniqueFd MakeMemFd(const char* name) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd fd(memfd_create(name, kFlags | kNoExecSeal));
  // Linux before 6.3 does not know the seal.
  if (!fd && errno == EINVAL) fd.reset(memfd_create(name, kFlags));
  return fd;
}

}  // namespace

Aperture::Aperture(UniqueFd fd, bip::mapped_region region,
                   const RegionHeader& header)
    : fd_(std::move(fd)),
      region_(std::move(region)),
      kind_(header.kind),
      generation_(header.generation),
      doorbell_count_(header.doorbell_count),
      heap_offset_(header.heap_offset),
      heap_size_(header.heap_size) {}

absl::StatusOr<Aperture> Aperture::Create(const ApertureSpec& spec) {
  if (!IsDoorbellCount(spec.doorbell_count)) {
    return absl::InvalidArgumentError(WhyNotDoorbellCount(spec.doorbell_count));
  }
  if (spec.generation == Generation()) {
    return absl::InvalidArgumentError("generation 0 is reserved for 'none'");
  }
  constexpr uint64_t kMaxHeapBytes = uint64_t{1} << 40;
  if (spec.heap_bytes > kMaxHeapBytes) {
    return absl::ResourceExhaustedError(
        fmt::format("an aperture of {} bytes: the limit is {}", spec.heap_bytes,
                    kMaxHeapBytes));
  }
  if (spec.growth_bytes > kMaxHeapBytes) {
    return absl::InvalidArgumentError(
        fmt::format("a growth of {} bytes: the limit is {}", spec.growth_bytes,
                    kMaxHeapBytes));
  }
  const uint64_t reserved =
      HeapOffset(spec.kind) + AlignUp(spec.heap_bytes, kPageSize);
  const uint64_t size = reserved + AlignUp(spec.growth_bytes, kPageSize);

  UniqueFd fd = MakeMemFd(KindName(spec.kind).data());
  if (!fd) {
    return absl::ResourceExhaustedError(fmt::format(
        "memfd_create: {}; raise the limit on open files (ulimit -n)",
        std::strerror(errno)));
  }
  RETURN_IF_ERROR(ReserveFile(fd.get(), 0, reserved, KindName(spec.kind)));
  RETURN_IF_ERROR(CheckFileSize(size, KindName(spec.kind)));
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot make a {} aperture of {} bytes: {}",
                    KindName(spec.kind), size, std::strerror(errno)));
  }
  ASSIGN_OR_RETURN(auto region, MapFd(fd.get(), bip::read_write, size));
  LeaveOutOfCoreDumps(region.get_address(), spec.kind, size);

  auto* header = new (region.get_address()) RegionHeader{};
  header->layout_version = kLayoutVersion;
  header->kind = spec.kind;
  header->size = size;
  header->generation = spec.generation.value();
  header->device_id = spec.device_id;
  header->heap_offset = HeapOffset(spec.kind);
  header->heap_size = size - header->heap_offset;
  header->doorbell_count = spec.doorbell_count;
  header->gpud_pid = static_cast<uint32_t>(getpid());
  std::atomic_ref<uint64_t>(header->magic)
      .store(kMagic, std::memory_order_release);

  // A completion aperture is writable only through the mapping that exists by
  // now (ours): FUTURE_WRITE refuses every later one.
  const int seals =
      kSizeSeals | F_SEAL_SEAL |
      (spec.kind == RegionKind::kCompletion ? F_SEAL_FUTURE_WRITE : 0);
  if (fcntl(fd.get(), F_ADD_SEALS, seals) != 0) {
    return absl::InternalError(
        fmt::format("cannot seal an aperture: {}; Linux 5.1 or newer is needed",
                    std::strerror(errno)));
  }
  return Aperture(std::move(fd), std::move(region), *header);
}

absl::Status Aperture::Reserve(uint64_t begin, uint64_t end) const {
  return ReserveFile(fd_.get(), begin, end, KindName(kind_));
}

uint64_t Aperture::TakenBytes() const {
  constexpr uint64_t kBlock = 512;  // of st_blocks, whatever the file system
  struct stat info;
  if (fstat(fd_.get(), &info) != 0) return 0;
  return static_cast<uint64_t>(info.st_blocks) * kBlock;
}

absl::StatusOr<Aperture> Aperture::Map(UniqueFd fd, RegionKind kind,
                                       Generation generation) {
  if (generation == Generation()) {
    return absl::FailedPreconditionError("generation 0 is reserved for 'none'");
  }
  struct stat info;
  if (fstat(fd.get(), &info) != 0) {
    return absl::FailedPreconditionError(fmt::format(
        "the aperture's descriptor is not usable: {}", std::strerror(errno)));
  }
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals) {
    return absl::FailedPreconditionError(
        "the aperture is not sealed against resizing; refusing to map it");
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size < HeapOffset(kind)) {
    return absl::FailedPreconditionError(
        fmt::format("the aperture has {} bytes; a {} aperture has at least {}",
                    size, KindName(kind), HeapOffset(kind)));
  }
  const bip::mode_t mode =
      kind == RegionKind::kSubmission ? bip::read_write : bip::read_only;
  ASSIGN_OR_RETURN(auto region, MapFd(fd.get(), mode, size));
  LeaveOutOfCoreDumps(region.get_address(), kind, size);

  auto* shared = static_cast<RegionHeader*>(region.get_address());
  const uint64_t magic =
      std::atomic_ref<uint64_t>(shared->magic).load(std::memory_order_acquire);
  RegionHeader header;
  std::memcpy(&header, shared, sizeof(header));
  // Keeps the compiler from reading the shared header again in place of the
  // copy.
  asm volatile("" ::: "memory");
  RETURN_IF_ERROR(CheckHeader(header, magic, size, kind, generation));
  return Aperture(std::move(fd), std::move(region), header);
}

absl::Status Aperture::TakePlaceOf(Aperture& old) {
  if (old.kind_ != kind_)
    return Mismatch("kind", uint64_t(kind_), uint64_t(old.kind_));
  if (old.size() != size()) return Mismatch("size", size(), old.size());
  const int access =
      PROT_READ | (kind_ == RegionKind::kSubmission ? PROT_WRITE : 0);
  // One call, so that nobody else can get the addresses in between.
  if (mmap(old.base(), size(), access, MAP_SHARED | MAP_FIXED, fd_.get(), 0) ==
      MAP_FAILED) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot map an aperture of {} bytes again: {}", size(),
                    std::strerror(errno)));
  }
  LeaveOutOfCoreDumps(old.base(), kind_, size());
  region_.swap(old.region_);
  return absl::OkStatus();
}

}  // namespace carillon::shm
