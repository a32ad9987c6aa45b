#include "shm/aperture.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

namespace carillon::shm {
namespace {

using testing::HasSubstr;

ApertureSpec Spec(RegionKind kind) {
  return {.kind = kind,
          .heap_bytes = 10'000,
          .generation = Generation(7),
          .device_id = 3,
          .doorbell_count = 64};
}

UniqueFd Copy(int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

// The number that the next descriptor gets: grows when one leaks.
int NextFd() { return UniqueFd(dup(0)).get(); }

class ApertureTest : public testing::TestWithParam<RegionKind> {
 protected:
  void SetUp() override {
    auto made = Aperture::Create(Spec(GetParam()));
    ASSERT_TRUE(made.ok()) << made.status();
    aperture_ = *std::move(made);
  }
  absl::StatusOr<Aperture> MapCopy() const {
    return Aperture::Map(Copy(aperture_.fd()), GetParam(), Generation(7));
  }
  Aperture aperture_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, ApertureTest,
                         testing::Values(RegionKind::kSubmission,
                                         RegionKind::kCompletion),
                         [](const auto& kind) -> std::string {
                           return kind.param == RegionKind::kSubmission
                                      ? "Submission"
                                      : "Completion";
                         });

TEST_P(ApertureTest, BothSidesSeeTheSameGeometryAndTheSameBytes) {
  const auto mapped = MapCopy();
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(mapped->kind(), GetParam());
  EXPECT_EQ(mapped->size(), aperture_.size());
  EXPECT_EQ(mapped->generation(), Generation(7));
  EXPECT_EQ(mapped->doorbell_count(), 64u);
  EXPECT_EQ(mapped->heap_offset(), aperture_.heap_offset());
  EXPECT_EQ(mapped->heap_size(), aperture_.heap_size());
  EXPECT_GE(mapped->heap_size(), 10'000u);
  EXPECT_EQ(mapped->heap_size() % kPageSize, 0u);
  *aperture_.At(aperture_.size() - 1) = std::byte{0x77};
  EXPECT_EQ(*mapped->At(mapped->size() - 1), std::byte{0x77});
}

TEST_P(ApertureTest, AnotherOneTakesItsPlace) {
  auto mapped = MapCopy();
  ASSERT_TRUE(mapped.ok());
  ApertureSpec spec = Spec(GetParam());
  spec.generation = Generation(8);
  const auto made = Aperture::Create(spec);
  ASSERT_TRUE(made.ok());
  auto next = Aperture::Map(Copy(made->fd()), GetParam(), Generation(8));
  ASSERT_TRUE(next.ok());
  std::byte* const place = mapped->At(mapped->heap_offset());
  *aperture_.At(aperture_.heap_offset()) = std::byte{1};
  *made->At(made->heap_offset()) = std::byte{2};
  ASSERT_EQ(*place, std::byte{1});
  ASSERT_TRUE(next->TakePlaceOf(*mapped).ok());
  *mapped = *std::move(next);
  EXPECT_EQ(*place, std::byte{2});
  EXPECT_EQ(mapped->At(mapped->heap_offset()), place);
  EXPECT_EQ(mapped->generation(), Generation(8));
  *made->At(made->heap_offset()) = std::byte{3};
  EXPECT_EQ(*place, std::byte{3});
  // Read-only as before.
  if (GetParam() == RegionKind::kCompletion) {
    EXPECT_NE(mprotect(mapped->At(0), mapped->size(), PROT_READ | PROT_WRITE),
              0);
  }
}

TEST_P(ApertureTest, OneOfAnotherSizeOrKindDoesNotTakeItsPlace) {
  ApertureSpec spec = Spec(GetParam());
  spec.heap_bytes += kPageSize;
  auto larger = Aperture::Create(spec);
  ASSERT_TRUE(larger.ok());
  const absl::Status status = larger->TakePlaceOf(aperture_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("size"));
  auto other = Aperture::Create(Spec(GetParam() == RegionKind::kSubmission
                                         ? RegionKind::kCompletion
                                         : RegionKind::kSubmission));
  ASSERT_TRUE(other.ok());
  EXPECT_THAT(std::string(other->TakePlaceOf(aperture_).message()),
              HasSubstr("kind"));
}

TEST_P(ApertureTest, ItIsBornZeroed) {
  for (uint64_t at = sizeof(RegionHeader); at < aperture_.size(); ++at) {
    ASSERT_EQ(*aperture_.At(at), std::byte{0}) << at;
  }
}

TEST_P(ApertureTest, NobodyCanResizeOrResealIt) {
  const UniqueFd other = Copy(aperture_.fd());
  const auto size = static_cast<off_t>(aperture_.size());
  EXPECT_NE(ftruncate(other.get(), 0), 0);
  EXPECT_NE(ftruncate(other.get(), size - 4096), 0);
  EXPECT_NE(ftruncate(other.get(), size + 4096), 0);
  EXPECT_NE(fallocate(other.get(), 0, size, 4096), 0);
  for (const int seal : {F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE,
                         F_SEAL_FUTURE_WRITE}) {
    EXPECT_NE(fcntl(other.get(), F_ADD_SEALS, seal), 0) << seal;
  }
  const std::string path = "/proc/self/fd/" + std::to_string(other.get());
  EXPECT_FALSE(UniqueFd(open(path.c_str(), O_RDWR | O_TRUNC | O_CLOEXEC)));
  EXPECT_EQ(lseek(other.get(), 0, SEEK_END), size);
}

TEST_P(ApertureTest, ItsSpaceIsReserved) {
  ApertureSpec spec = Spec(GetParam());
  for (const uint64_t heap_bytes : {0, 1, 4096, 3'000'000}) {
    spec.heap_bytes = heap_bytes;
    const auto made = Aperture::Create(spec);
    ASSERT_TRUE(made.ok()) << made.status();
    struct stat info;
    ASSERT_EQ(fstat(made->fd(), &info), 0);
    EXPECT_EQ(static_cast<uint64_t>(info.st_blocks) * 512, made->size());
  }
}

// The flags of the mapping in which `place` is, as the kernel abbreviates them.
std::string MappingFlags(const std::byte* place) {
  std::ifstream maps("/proc/self/smaps");
  const auto address = reinterpret_cast<uintptr_t>(place);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      inside = begin <= address && address < end;
    }
    if (inside && line.starts_with("VmFlags:")) return line + " ";
  }
  return "no mapping";
}

// The kernel would have memory for every page that it dumps.
TEST_P(ApertureTest, ItsHeapIsInNoCoreDump) {
  const auto flags = [](const Aperture& aperture) {
    return MappingFlags(aperture.At(aperture.heap_offset()));
  };
  EXPECT_THAT(flags(aperture_), HasSubstr(" dd "));
  auto mapped = MapCopy();
  ASSERT_TRUE(mapped.ok());
  EXPECT_THAT(flags(*mapped), HasSubstr(" dd "));
  auto next = MapCopy();
  ASSERT_TRUE(next.ok() && next->TakePlaceOf(*mapped).ok());
  EXPECT_THAT(flags(*next), HasSubstr(" dd "));
}

TEST_P(ApertureTest, ItsGrowthTakesMemoryOnlyWhenItIsReserved) {
  ApertureSpec spec = Spec(GetParam());
  spec.growth_bytes = uint64_t{1} << 30;
  const auto made = Aperture::Create(spec);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto mapped =
      Aperture::Map(Copy(made->fd()), GetParam(), Generation(7));
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(mapped->size(), aperture_.size() + spec.growth_bytes);
  EXPECT_EQ(mapped->heap_size(), aperture_.heap_size() + spec.growth_bytes);
  EXPECT_EQ(made->TakenBytes(), aperture_.size());

  const uint64_t begin = made->size() - 4 * kPageSize;
  ASSERT_TRUE(made->Reserve(begin, begin + 2 * kPageSize).ok());
  EXPECT_EQ(made->TakenBytes(), aperture_.size() + 2 * kPageSize);
  *made->At(begin + 2 * kPageSize - 1) = std::byte{0x55};
  EXPECT_EQ(*mapped->At(begin + 2 * kPageSize - 1), std::byte{0x55});
  EXPECT_EQ(made->TakenBytes(), aperture_.size() + 2 * kPageSize);
  // Whoever touches more is seen, even one who only reads.
  const volatile std::byte* const beyond = mapped->At(begin + 3 * kPageSize);
  EXPECT_TRUE(*beyond == std::byte{0});
  EXPECT_GT(made->TakenBytes(), aperture_.size() + 2 * kPageSize);
}

TEST_P(ApertureTest, AScribbledHeaderChangesNothingForWhoHasMappedIt) {
  const auto mapped = MapCopy();
  ASSERT_TRUE(mapped.ok());
  const uint64_t size = aperture_.size();
  std::memset(aperture_.At(0), 0xff, sizeof(RegionHeader));
  EXPECT_EQ(mapped->size(), size);
  EXPECT_EQ(mapped->generation(), Generation(7));
  EXPECT_EQ(mapped->doorbell_count(), 64u);
  EXPECT_TRUE(mapped->Contains(mapped->heap_offset(), mapped->heap_size()));
  EXPECT_FALSE(
      mapped->Contains(mapped->heap_offset(), mapped->heap_size() + 1));
}

TEST_P(ApertureTest, ContainsNeverOverflows) {
  const uint64_t size = aperture_.size();
  EXPECT_TRUE(aperture_.Contains(0, size));
  EXPECT_TRUE(aperture_.Contains(size, 0));
  EXPECT_FALSE(aperture_.Contains(size, 1));
  EXPECT_FALSE(aperture_.Contains(size + 1, 0));
  EXPECT_FALSE(aperture_.Contains(1, ~uint64_t{0}));
  EXPECT_FALSE(aperture_.Contains(~uint64_t{0}, 1));
  EXPECT_FALSE(aperture_.Contains(~uint64_t{0}, ~uint64_t{0}));
}

TEST(CompletionApertureTest, OnlyItsMakerCanWriteToIt) {
  const auto made = Aperture::Create(Spec(RegionKind::kCompletion));
  ASSERT_TRUE(made.ok()) << made.status();
  const auto mapped =
      Aperture::Map(Copy(made->fd()), RegionKind::kCompletion, Generation(7));
  ASSERT_TRUE(mapped.ok()) << mapped.status();

  EXPECT_NE(mprotect(mapped->At(0), mapped->size(), PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(mmap(nullptr, made->size(), PROT_READ | PROT_WRITE, MAP_SHARED,
                 made->fd(), 0),
            MAP_FAILED);
  const char byte = 1;
  EXPECT_NE(pwrite(made->fd(), &byte, 1, 0), 1);
  EXPECT_NE(fallocate(made->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                      4096),
            0);
  const std::string path = "/proc/self/fd/" + std::to_string(made->fd());
  const UniqueFd reopened(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (reopened) {
    EXPECT_EQ(mmap(nullptr, made->size(), PROT_READ | PROT_WRITE, MAP_SHARED,
                   reopened.get(), 0),
              MAP_FAILED);
  }
  EXPECT_DEATH(*mapped->At(0) = std::byte{1}, "");
  *made->At(made->size() - 1) = std::byte{9};
  EXPECT_EQ(*mapped->At(mapped->size() - 1), std::byte{9});
}

// --- Create() refuses.

struct BadSpec {
  const char* name;
  std::function<void(ApertureSpec&)> spoil;
  const char* message;
};
void PrintTo(const BadSpec& bad, std::ostream* out) { *out << bad.name; }

class BadSpecTest : public testing::TestWithParam<BadSpec> {};

TEST_P(BadSpecTest, IsRefusedAndLeaksNothing) {
  for (const RegionKind kind :
       {RegionKind::kSubmission, RegionKind::kCompletion}) {
    ApertureSpec spec = Spec(kind);
    GetParam().spoil(spec);
    const int next_fd = NextFd();
    const auto made = Aperture::Create(spec);
    ASSERT_FALSE(made.ok());
    EXPECT_THAT(std::string(made.status().message()),
                HasSubstr(GetParam().message));
    EXPECT_EQ(NextFd(), next_fd);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Specs, BadSpecTest,
    testing::Values(
        BadSpec{"NoDoorbells", [](auto& spec) { spec.doorbell_count = 0; },
                "doorbell count 0: must be a multiple of 32 from 32 to 1024"},
        BadSpec{"OddDoorbells", [](auto& spec) { spec.doorbell_count = 33; },
                "doorbell count 33"},
        BadSpec{"ManyDoorbells", [](auto& spec) { spec.doorbell_count = 1056; },
                "doorbell count 1056"},
        BadSpec{"NoGeneration",
                [](auto& spec) { spec.generation = Generation(); },
                "generation 0"},
        BadSpec{"GrowsBeyondAll",
                [](auto& spec) { spec.growth_bytes = ~uint64_t{0}; },
                "a growth of 18446744073709551615 bytes: the limit is"},
        BadSpec{"AllAddressSpace",
                [](auto& spec) { spec.heap_bytes = ~uint64_t{0}; },
                "18446744073709551615 bytes: the limit is 1099511627776"}),
    [](const auto& bad) { return bad.param.name; });

class LimitTest : public testing::Test {
 protected:
  // Until the test ends.
  void Limit(int resource, rlim_t value) {
    resource_ = resource;
    ASSERT_EQ(getrlimit(resource, &before_), 0);
    const rlimit now{.rlim_cur = value, .rlim_max = before_.rlim_max};
    ASSERT_EQ(setrlimit(resource, &now), 0);
  }
  void TearDown() override { setrlimit(resource_, &before_); }

 private:
  int resource_ = RLIMIT_NOFILE;
  rlimit before_;
};

TEST_F(LimitTest, NoDescriptorsLeftIsAnErrorThatSaysSo) {
  Limit(RLIMIT_NOFILE, NextFd());
  const auto made = Aperture::Create(Spec(RegionKind::kSubmission));
  TearDown();  // UBSan looks at what is printed through a pipe
  EXPECT_EQ(made.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("ulimit -n"));
}

TEST_F(LimitTest, MoreThanTheMachineHasIsRefusedBeforeItIsTried) {
  // Were it tried all the same, this limit and not the machine would suffer.
  Limit(RLIMIT_FSIZE, 1 << 30);
  const int next_fd = NextFd();
  ApertureSpec spec = Spec(RegionKind::kSubmission);
  spec.heap_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * kPageSize;
  const auto made = Aperture::Create(spec);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(made.status().message()),
              HasSubstr("available, and an eighth stays free"));
  EXPECT_EQ(NextFd(), next_fd);
}

TEST_F(LimitTest, AFileSizeLimitIsAnErrorAndNotASignal) {
  constexpr rlim_t kLimit = 1 << 20;
  Limit(RLIMIT_FSIZE, kLimit);
  const int next_fd = NextFd();
  ApertureSpec large = Spec(RegionKind::kSubmission);
  large.heap_bytes = kLimit;
  ApertureSpec grows = Spec(RegionKind::kSubmission);
  grows.growth_bytes = kLimit;
  for (const ApertureSpec& spec : {large, grows}) {
    const auto made = Aperture::Create(spec);
    EXPECT_EQ(made.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(made.status().message()), HasSubstr("1048576"));
    EXPECT_EQ(NextFd(), next_fd);
  }
}

// Sanitizers need address space of their own all the time.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(LimitTest, NoAddressSpaceLeftIsAnErrorAndLeaksNothing) {
  const int next_fd = NextFd();
  Limit(RLIMIT_AS, 1);
  const auto made = Aperture::Create(Spec(RegionKind::kSubmission));
  TearDown();
  EXPECT_EQ(made.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("cannot map"));
  EXPECT_EQ(NextFd(), next_fd);
}
#endif

// --- Map() refuses.

// A memfd that looks like an aperture but for what a test spoils.
struct Forgery {
  RegionHeader header;
  uint64_t file_size;
  int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

  explicit Forgery(RegionKind kind) {
    const auto real = Aperture::Create(Spec(kind));
    EXPECT_TRUE(real.ok());
    std::memcpy(&header, real->At(0), sizeof(header));
    file_size = real->size();
  }
  UniqueFd Make() const {
    UniqueFd fd(memfd_create("forgery", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(file_size)), 0);
    const size_t length = std::min<uint64_t>(file_size, sizeof(header));
    EXPECT_EQ(pwrite(fd.get(), &header, length, 0),
              static_cast<ssize_t>(length));
    EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    return fd;
  }
};

struct BadAperture {
  const char* name;
  std::function<void(Forgery&)> spoil;
  const char* message;
};
void PrintTo(const BadAperture& bad, std::ostream* out) { *out << bad.name; }

class BadApertureTest : public testing::TestWithParam<BadAperture> {};

TEST_P(BadApertureTest, IsRefusedByNameAndLeaksNothing) {
  for (const RegionKind kind :
       {RegionKind::kSubmission, RegionKind::kCompletion}) {
    Forgery forgery(kind);
    ASSERT_TRUE(Aperture::Map(forgery.Make(), kind, Generation(7)).ok());
    GetParam().spoil(forgery);
    const int next_fd = NextFd();
    const auto mapped = Aperture::Map(forgery.Make(), kind, Generation(7));
    ASSERT_FALSE(mapped.ok());
    EXPECT_EQ(mapped.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(mapped.status().message()),
                HasSubstr(GetParam().message));
    EXPECT_EQ(NextFd(), next_fd);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Fields, BadApertureTest,
    testing::Values(
        BadAperture{"NoSeals", [](auto& forged) { forged.seals = F_SEAL_SEAL; },
                    "not sealed against resizing"},
        BadAperture{"CanShrink",
                    [](auto& forged) { forged.seals = F_SEAL_GROW; },
                    "not sealed against resizing"},
        BadAperture{"CanGrow",
                    [](auto& forged) { forged.seals = F_SEAL_SHRINK; },
                    "not sealed against resizing"},
        BadAperture{"Empty", [](auto& forged) { forged.file_size = 0; },
                    "the aperture has 0 bytes"},
        BadAperture{"OnePage", [](auto& forged) { forged.file_size = 4096; },
                    "the aperture has 4096 bytes"},
        BadAperture{"Magic", [](auto& forged) { forged.header.magic ^= 1; },
                    "magic is"},
        BadAperture{"NoMagicYet", [](auto& forged) { forged.header.magic = 0; },
                    "magic is 0"},
        BadAperture{"OldVersion",
                    [](auto& forged) { forged.header.layout_version = 0; },
                    "layout version is 0, expected 2"},
        BadAperture{"NewVersion",
                    [](auto& forged) { forged.header.layout_version = 3; },
                    "layout version is 3, expected 2"},
        BadAperture{"UnknownKind",
                    [](auto& forged) {
                      forged.header.kind = static_cast<RegionKind>(9);
                    },
                    "got kind 9"},
        BadAperture{"SmallerThanItSays",
                    [](auto& forged) { forged.header.size += 4096; },
                    "size is"},
        BadAperture{"LargerThanItSays",
                    [](auto& forged) { forged.header.size -= 4096; },
                    "size is"},
        BadAperture{"OldGeneration",
                    [](auto& forged) { forged.header.generation = 6; },
                    "generation is 6, expected 7"},
        BadAperture{"HeapOffset",
                    [](auto& forged) { forged.header.heap_offset += 4096; },
                    "heap offset is"},
        BadAperture{"HeapSize",
                    [](auto& forged) { forged.header.heap_size = ~0ull; },
                    "heap size is 18446744073709551615"},
        BadAperture{"NoDoorbells",
                    [](auto& forged) { forged.header.doorbell_count = 0; },
                    "doorbell count 0"},
        BadAperture{
            "ManyDoorbells",
            [](auto& forged) { forged.header.doorbell_count = 1u << 31; },
            "doorbell count 2147483648"}),
    [](const auto& bad) { return bad.param.name; });

TEST(MapTest, TheOtherKindIsRefused) {
  ApertureSpec spec = Spec(RegionKind::kCompletion);
  spec.heap_bytes = 1 << 20;
  const auto made = Aperture::Create(spec);
  ASSERT_TRUE(made.ok());
  const auto mapped =
      Aperture::Map(Copy(made->fd()), RegionKind::kSubmission, Generation(7));
  // A writable mapping of it is refused by the seal before the kind is read.
  EXPECT_FALSE(mapped.ok());
  spec.kind = RegionKind::kSubmission;
  const auto other = Aperture::Create(spec);
  ASSERT_TRUE(other.ok());
  const auto confused =
      Aperture::Map(Copy(other->fd()), RegionKind::kCompletion, Generation(7));
  EXPECT_THAT(std::string(confused.status().message()),
              HasSubstr("expected a completion aperture, got kind 1"));
}

TEST(MapTest, WhatIsNoMemFdIsRefused) {
  const int next_fd = NextFd();
  EXPECT_THAT(std::string(Aperture::Map(UniqueFd(), RegionKind::kSubmission,
                                        Generation(1))
                              .status()
                              .message()),
              HasSubstr("not usable"));
  EXPECT_THAT(
      std::string(Aperture::Map(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)),
                                RegionKind::kSubmission, Generation(1))
                      .status()
                      .message()),
      HasSubstr("not sealed"));
  EXPECT_EQ(NextFd(), next_fd);
}

TEST(MapTest, AnApertureBeyondTheAddressSpaceIsRefused) {
  Forgery forgery(RegionKind::kCompletion);
  forgery.file_size = uint64_t{1} << 60;
  forgery.header.size = forgery.file_size;
  const int next_fd = NextFd();
  const auto mapped =
      Aperture::Map(forgery.Make(), RegionKind::kCompletion, Generation(7));
  EXPECT_THAT(std::string(mapped.status().message()),
              HasSubstr("cannot map an aperture of 1152921504606846976 bytes"));
  EXPECT_EQ(NextFd(), next_fd);
}

TEST(MapTest, GenerationZeroIsNeverValid) {
  Forgery forgery(RegionKind::kSubmission);
  forgery.header.generation = 0;
  EXPECT_FALSE(
      Aperture::Map(forgery.Make(), RegionKind::kSubmission, Generation())
          .ok());
}

TEST(MapTest, AMovedApertureKeepsItsAddress) {
  auto made = Aperture::Create(Spec(RegionKind::kSubmission));
  ASSERT_TRUE(made.ok());
  std::byte* const before = made->At(0);
  const Aperture moved = *std::move(made);
  EXPECT_EQ(moved.At(0), before);
  EXPECT_EQ(moved.size(), kSubmissionHeapOffset + 3 * kPageSize);
}

}  // namespace
}  // namespace carillon::shm
