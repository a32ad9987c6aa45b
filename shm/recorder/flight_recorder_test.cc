#include "shm/recorder/flight_recorder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace carillon::shm {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint64_t kCapacity = 64;

class FlightRecorderTest : public testing::Test {
 protected:
  FlightRecorderTest() {
    char path[] = "/tmp/recorder-test-XXXXXX";
    directory_ = std::string(mkdtemp(path)) + "/recorder";
  }
  ~FlightRecorderTest() override {
    std::filesystem::remove_all(
        std::filesystem::path(directory_).parent_path());
  }

  std::unique_ptr<FlightRecorder> Make(const std::string& name = "nic0",
                                       uint64_t records = kCapacity) {
    auto made = FlightRecorder::Create(directory_, name, records);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? *std::move(made) : nullptr;
  }
  static FlightRecording Read(const std::string& path) {
    auto read = ReadFlightRecording(path);
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() ? *std::move(read) : FlightRecording();
  }
  static void Write(const std::string& path, uint64_t offset, const void* bytes,
                    size_t size) {
    const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(pwrite(fd.get(), bytes, size, offset),
              static_cast<ssize_t>(size));
  }
  static void RingDoorbell(FlightRecorder& recorder, uint64_t sequence) {
    recorder.Record(Step::kRung, 3, Generation(7), sequence);
  }

  std::string directory_;
};

TEST_F(FlightRecorderTest, EveryFieldComesBack) {
  const auto recorder = Make();
  const Nanoseconds before = NowNs();
  recorder->Record(Step::kTaken, 1023, Generation(0xfedcba98), ~uint64_t{0} - 1,
                   EventState::kAborted, 0x89abcdef);
  const Nanoseconds after = NowNs();
  const FlightRecording read = Read(recorder->path());
  EXPECT_EQ(read.name, "nic0");
  EXPECT_EQ(read.pid, static_cast<uint32_t>(getpid()));
  EXPECT_TRUE(read.running);
  EXPECT_EQ(read.written, 1);
  EXPECT_EQ(read.overwritten, 0);
  EXPECT_EQ(read.torn, 0);
  ASSERT_THAT(read.records, SizeIs(1));
  const FlightRecord& record = read.records[0];
  EXPECT_GE(record.time_ns, before);
  EXPECT_LE(record.time_ns, after);
  EXPECT_EQ(record, (FlightRecord{.time_ns = record.time_ns,
                                  .sequence = ~uint64_t{0} - 1,
                                  .generation = 0xfedcba98,
                                  .status = 0x89abcdef,
                                  .event_id = 1023,
                                  .step = Step::kTaken,
                                  .state = EventState::kAborted}));
}

TEST_F(FlightRecorderTest, AStateThatIsNoneStaysNone) {
  const auto recorder = Make();
  recorder->Record(Step::kTaken, 0, Generation(1), 1, EventState(0x101), 0);
  EXPECT_EQ(Read(recorder->path()).records.at(0).state, EventState(0xff));
}

TEST_F(FlightRecorderTest, KeepsTheLastAndCountsWhatItHasOverwritten) {
  const auto recorder = Make();
  for (uint64_t i = 1; i <= 3 * kCapacity + 5; ++i) RingDoorbell(*recorder, i);
  const FlightRecording read = Read(recorder->path());
  EXPECT_EQ(read.written, 3 * kCapacity + 5);
  EXPECT_EQ(read.overwritten, 2 * kCapacity + 5);
  ASSERT_THAT(read.records, SizeIs(kCapacity));
  for (uint64_t i = 0; i < kCapacity; ++i) {
    EXPECT_EQ(read.records[i].sequence, read.overwritten + i + 1);
  }
}

TEST_F(FlightRecorderTest, ThreadsLoseNothingAndKeepTheirOwnOrder) {
  constexpr uint32_t kThreads = 4;
  constexpr uint64_t kEach = 5000;
  const auto recorder = Make("gpud", kThreads * kEach);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 1; i <= kEach; ++i) {
        recorder->Record(Step::kEnded, t, Generation(t + 1), i,
                         EventState::kDone, static_cast<uint32_t>(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const FlightRecording read = Read(recorder->path());
  EXPECT_EQ(read.torn, 0);
  std::map<uint32_t, uint64_t> last;
  for (const FlightRecord& record : read.records) {
    EXPECT_EQ(record.sequence, ++last[record.event_id]);
    EXPECT_EQ(record.status, record.sequence);
  }
  for (uint32_t t = 0; t < kThreads; ++t) EXPECT_EQ(last[t], kEach);
}

uint64_t SpaceOf(const std::string& path) {
  struct stat facts {};
  EXPECT_EQ(stat(path.c_str(), &facts), 0);
  return static_cast<uint64_t>(facts.st_blocks) * 512;
}

TEST_F(FlightRecorderTest, ALargeOneTakesSpaceAsItFills) {
  constexpr uint64_t kSpace = FlightRecorder::kStep * sizeof(FlightSlot);
  const auto recorder = Make("nic0", 8 * FlightRecorder::kStep);
  EXPECT_LT(SpaceOf(recorder->path()), 2 * kSpace);
  constexpr uint64_t kEach = FlightRecorder::kStep;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (uint64_t s = 1; s <= kEach; ++s) RingDoorbell(*recorder, s);
    });
  }
  threads.clear();
  EXPECT_LT(SpaceOf(recorder->path()), 5 * kSpace);
  const FlightRecording read = Read(recorder->path());
  EXPECT_EQ(read.written, 3 * kEach);
  EXPECT_EQ(read.overwritten, 0);
  EXPECT_EQ(read.torn, 0);
  EXPECT_THAT(read.records, SizeIs(3 * kEach));
}

TEST_F(FlightRecorderTest, WhatFindsNoSpaceIsCounted) {
  constexpr uint64_t kRoom = FlightRecorder::kStep;
  const auto recorder = Make("nic0", 8 * kRoom);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full{.rlim_cur = SpaceOf(recorder->path()),
                    .rlim_max = before.rlim_max};
  auto* const handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  for (uint64_t s = 1; s <= 2 * kRoom; ++s) RingDoorbell(*recorder, s);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  const FlightRecording read = Read(recorder->path());
  EXPECT_EQ(read.written, 2 * kRoom);
  EXPECT_EQ(read.torn, kRoom);
  EXPECT_THAT(read.records, SizeIs(kRoom));
  EXPECT_EQ(read.records.back().sequence, kRoom);
}

TEST_F(FlightRecorderTest, WhoAskedForARecorderHearsThatThereIsNoSpace) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  auto* const handler = signal(SIGXFSZ, SIG_IGN);
  setenv(FlightRecorder::kVariable, "64", 1);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  const auto refused = FlightRecorder::FromEnvironment(directory_, "nic0");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  unsetenv(FlightRecorder::kVariable);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(refused.status().message(),
            "cannot reserve the flight recorder " + directory_ + "/nic0-" +
                std::to_string(getpid()) +
                ".rec: File too large; it is wanted by CARILLON_RECORD=64: "
                "make room there, or set it to 0 (`record` in the topology)");
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

TEST_F(FlightRecorderTest, OutlivesSigkill) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto recorder = FlightRecorder::Create(directory_, "nic0", kCapacity);
    if (!recorder.ok()) _exit(1);
    for (uint64_t i = 1; i <= 10; ++i) RingDoorbell(**recorder, i);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const FlightRecording read =
      Read(directory_ + "/nic0-" + std::to_string(child) + ".rec");
  EXPECT_EQ(read.pid, static_cast<uint32_t>(child));
  EXPECT_FALSE(read.running);
  ASSERT_THAT(read.records, SizeIs(10));
  EXPECT_EQ(read.records.back().sequence, 10);
}

TEST_F(FlightRecorderTest, EveryByteOfARecordCounts) {
  const auto recorder = Make();
  for (uint64_t i = 1; i <= 3; ++i) RingDoorbell(*recorder, i);
  const uint64_t second = sizeof(FlightHeader) +
                          FlightRecorder::kRingNames * sizeof(FlightRingName) +
                          sizeof(FlightSlot);
  for (uint64_t at = second; at < second + sizeof(FlightSlot); ++at) {
    uint8_t byte = 0;
    {
      const UniqueFd fd(open(recorder->path().c_str(), O_RDONLY));
      ASSERT_EQ(pread(fd.get(), &byte, 1, at), 1);
    }
    const uint8_t other = byte ^ 1;
    Write(recorder->path(), at, &other, 1);
    const FlightRecording read = Read(recorder->path());
    EXPECT_EQ(read.torn, 1) << "byte " << at - second;
    ASSERT_THAT(read.records, SizeIs(2));
    EXPECT_EQ(read.records[0].sequence, 1);
    EXPECT_EQ(read.records[1].sequence, 3);
    Write(recorder->path(), at, &byte, 1);
  }
}

TEST_F(FlightRecorderTest, ARingsNameOutlivesSigkill) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto recorder = FlightRecorder::Create(directory_, "gpud", kCapacity);
    if (!recorder.ok()) _exit(1);
    (*recorder)->NameRing(3, Generation(7), "camera0", "dct8x8", "frames");
    (*recorder)->NameRing(4, Generation(8), "nic0", std::string(60, 'k'), "");
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const FlightRecording read =
      Read(directory_ + "/gpud-" + std::to_string(child) + ".rec");
  ASSERT_THAT(read.ring_names, SizeIs(2));
  ASSERT_NE(read.NameOf(3, 7), nullptr);
  EXPECT_EQ(*read.NameOf(3, 7), (RingName{"camera0", "dct8x8", "frames"}));
  ASSERT_NE(read.NameOf(4, 8), nullptr);
  EXPECT_EQ(*read.NameOf(4, 8), (RingName{"nic0", std::string(48, 'k'), ""}));
  EXPECT_EQ(read.NameOf(3, 8), nullptr);
}

TEST_F(FlightRecorderTest, NoNameSteersATerminal) {
  const auto recorder = Make("gpud");
  recorder->NameRing(3, Generation(7), "a\x1b[2J", "\x9b[2J",
                     "\xc2\x9b[2J \xe2\x80\xae");
  const FlightRecording read = Read(recorder->path());
  ASSERT_NE(read.NameOf(3, 7), nullptr);
  EXPECT_EQ(*read.NameOf(3, 7), (RingName{"a\\x1b[2J", "\\x9b[2J",
                                          "\\xc2\\x9b[2J \\xe2\\x80\\xae"}));
}

TEST_F(FlightRecorderTest, ADevicesRingsAreItsOwn) {
  const auto recorder = Make("nic0");
  recorder->NameRing(3, Generation(7), "camera0", "echo", "");
  const FlightRecording read = Read(recorder->path());
  ASSERT_NE(read.NameOf(3, 7), nullptr);
  EXPECT_EQ(*read.NameOf(3, 7), (RingName{"nic0", "echo", ""}));
}

TEST_F(FlightRecorderTest, TheNewestRingsKeepTheirNames) {
  const auto recorder = Make();
  constexpr uint32_t kMore = 5;
  for (uint32_t i = 1; i <= FlightRecorder::kRingNames + kMore; ++i) {
    recorder->NameRing(i, Generation(i), "nic0", "echo", std::to_string(i));
  }
  const FlightRecording read = Read(recorder->path());
  EXPECT_THAT(read.ring_names, SizeIs(FlightRecorder::kRingNames));
  EXPECT_EQ(read.NameOf(kMore, kMore), nullptr);
  for (uint32_t i = kMore + 1; i <= FlightRecorder::kRingNames + kMore; ++i) {
    ASSERT_NE(read.NameOf(static_cast<uint16_t>(i), i), nullptr) << i;
    EXPECT_EQ(read.NameOf(static_cast<uint16_t>(i), i)->label,
              std::to_string(i));
  }
}

TEST_F(FlightRecorderTest, ATornNameIsNoName) {
  const auto recorder = Make();
  recorder->NameRing(3, Generation(7), "nic0", "echo", "small");
  EXPECT_THAT(Read(recorder->path()).ring_names, SizeIs(1));
  for (size_t at = 0; at < sizeof(FlightRingName); ++at) {
    const uint64_t place = sizeof(FlightHeader) + at;
    uint8_t byte = 0;
    {
      const UniqueFd fd(open(recorder->path().c_str(), O_RDONLY));
      ASSERT_EQ(pread(fd.get(), &byte, 1, place), 1);
    }
    const uint8_t other = byte ^ 1;
    Write(recorder->path(), place, &other, 1);
    EXPECT_THAT(Read(recorder->path()).ring_names, IsEmpty()) << "byte " << at;
    Write(recorder->path(), place, &byte, 1);
  }
  EXPECT_THAT(Read(recorder->path()).ring_names, SizeIs(1));
}

TEST_F(FlightRecorderTest, ItsTimesCanBeToldInWallTime) {
  const auto realtime = [] {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<uint64_t>(now.tv_nsec);
  };
  const uint64_t before = realtime() - NowNs();
  const auto recorder = Make();
  const uint64_t after = realtime() - NowNs();
  // As far as a clock that is set meanwhile may take it.
  constexpr int64_t kFar = 60'000'000'000;
  const FlightRecording read = Read(recorder->path());
  EXPECT_LT(std::abs(static_cast<int64_t>(read.realtime_offset_ns - before)),
            kFar);
  EXPECT_LT(std::abs(static_cast<int64_t>(read.realtime_offset_ns - after)),
            kFar);
  EXPECT_LE(read.made_ns, NowNs());
}

TEST_F(FlightRecorderTest, ARecordOfAnEarlierLapIsNotTakenForALaterOne) {
  const auto recorder = Make();
  for (uint64_t i = 1; i <= kCapacity; ++i) RingDoorbell(*recorder, i);
  // As if a writer had died between taking its place and writing.
  const uint64_t next = kCapacity + 1;
  Write(recorder->path(), offsetof(FlightHeader, next), &next, sizeof(next));
  const FlightRecording read = Read(recorder->path());
  EXPECT_EQ(read.overwritten, 1);
  EXPECT_EQ(read.torn, 1);
  ASSERT_THAT(read.records, SizeIs(kCapacity - 1));
  EXPECT_EQ(read.records.front().sequence, 2);
}

TEST_F(FlightRecorderTest, NoIndexInTheFileIsBelieved) {
  const auto recorder = Make();
  for (uint64_t i = 1; i <= 3; ++i) RingDoorbell(*recorder, i);
  for (const uint64_t next : {~uint64_t{0}, uint64_t{1} << 63, kCapacity * 9}) {
    Write(recorder->path(), offsetof(FlightHeader, next), &next, sizeof(next));
    const FlightRecording read = Read(recorder->path());
    EXPECT_EQ(read.torn, kCapacity);
    EXPECT_THAT(read.records, IsEmpty());
  }
}

TEST_F(FlightRecorderTest, WhatIsReadWhileThreadsWriteIsWhole) {
  const auto recorder = Make();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 1; !stop.load(std::memory_order_relaxed); ++i) {
        recorder->Record(Step::kRung, t, Generation(static_cast<uint32_t>(i)),
                         i, EventState::kNone, ~static_cast<uint32_t>(i));
      }
    });
  }
  uint64_t seen = 0;
  for (int i = 0; i < 2000 || (seen == 0 && i < 1'000'000); ++i) {
    const FlightRecording read = Read(recorder->path());
    std::map<uint32_t, uint64_t> last;
    for (const FlightRecord& record : read.records) {
      ASSERT_EQ(record.generation, static_cast<uint32_t>(record.sequence));
      ASSERT_EQ(record.status, ~static_cast<uint32_t>(record.sequence));
      ASSERT_GT(record.sequence, last[record.event_id]);
      last[record.event_id] = record.sequence;
    }
    seen += read.records.size();
  }
  stop.store(true, std::memory_order_relaxed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(seen, 0);
}

TEST_F(FlightRecorderTest, FilesThatNoRecorderMadeAreRefused) {
  const auto recorder = Make();
  struct Case {
    size_t offset;
    uint64_t value;
    size_t size;
    const char* named;
  };
  for (const Case& bad : std::vector<Case>{
           {offsetof(FlightHeader, magic), 1, 8, "magic"},
           {offsetof(FlightHeader, version), 3, 4, "version"},
           {offsetof(FlightHeader, version), 1, 4,
            "an older Carillon, in layout 1"},
           {offsetof(FlightHeader, ring_names), 257, 4, "ring names"},
           {offsetof(FlightHeader, ring_names), 255, 4, "size"},
           {offsetof(FlightHeader, record_bytes), 31, 4, "record size"},
           {offsetof(FlightHeader, capacity), 63, 8, "capacity"},
           {offsetof(FlightHeader, capacity), 32, 8, "capacity"},
           {offsetof(FlightHeader, capacity), uint64_t{1} << 40, 8, "capacity"},
           {offsetof(FlightHeader, capacity), 128, 8, "size"},
           {offsetof(FlightHeader, name), 0, 8, "names no process"},
           {offsetof(FlightHeader, name), '/', 8, "names no process"}}) {
    const std::string path = directory_ + "/bad-1.rec";
    std::filesystem::copy_file(
        recorder->path(), path,
        std::filesystem::copy_options::overwrite_existing);
    Write(path, bad.offset, &bad.value, bad.size);
    const auto read = ReadFlightRecording(path);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(bad.named));
  }
}

TEST_F(FlightRecorderTest, WhatIsLeftOfRemovedOnesIsNotBelievedEither) {
  const auto recorder = Make();
  const std::string path = directory_ + "/nic0-removed.rec";
  std::filesystem::copy_file(recorder->path(), path);
  std::filesystem::resize_file(path, sizeof(FlightHeader));
  const uint64_t none = 0;
  Write(path, offsetof(FlightHeader, capacity), &none, sizeof(none));
  Write(path, offsetof(FlightHeader, ring_names), &none, sizeof(uint32_t));
  EXPECT_THAT(Read(path).records, IsEmpty());
  const std::string no_end(sizeof(FlightHeader::name) + 8, 'x');
  Write(path, offsetof(FlightHeader, name), no_end.data(), no_end.size());
  EXPECT_THAT(std::string(ReadFlightRecording(path).status().message()),
              HasSubstr("names no process"));
}

TEST_F(FlightRecorderTest, OddFilesDoNotHoldTheReader) {
  const auto recorder = Make();
  RingDoorbell(*recorder, 1);
  const std::string fifo = directory_ + "/fifo-1.rec";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const std::string link = directory_ + "/link-1.rec";
  ASSERT_EQ(symlink(recorder->path().c_str(), link.c_str()), 0);
  const std::string cut = directory_ + "/cut-1.rec";
  std::filesystem::copy_file(recorder->path(), cut);
  std::filesystem::resize_file(cut, 300);
  ASSERT_EQ(mkdir((directory_ + "/folder-1.rec").c_str(), 0700), 0);
  std::filesystem::copy_file(recorder->path(), directory_ + "/else.txt");

  std::vector<std::string> unreadable;
  const auto all = ReadFlightRecordings(directory_, &unreadable);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].name, "nic0");
  EXPECT_THAT(unreadable, SizeIs(4));
  EXPECT_THAT(ReadFlightRecordings(directory_ + "/none", &unreadable),
              IsEmpty());
}

TEST_F(FlightRecorderTest, AProcessThatDiedBeforeItsFirstRecordIsPassedOver) {
  const auto recorder = Make();
  std::filesystem::create_directories(directory_);
  std::ofstream(directory_ + "/nic1-1.rec");
  std::ofstream(directory_ + "/nic1-2.rec")
      << std::string(sizeof(FlightHeader), '\0');
  std::vector<std::string> unreadable;
  EXPECT_THAT(ReadFlightRecordings(directory_, &unreadable), SizeIs(1));
  EXPECT_THAT(unreadable, IsEmpty());
}

TEST_F(FlightRecorderTest, NobodyPassesForAnother) {
  const auto recorder = Make();
  std::filesystem::copy_file(recorder->path(), directory_ + "/gpud-1.rec");
  std::vector<std::string> unreadable;
  const auto all = ReadFlightRecordings(directory_, &unreadable);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].pid, static_cast<uint32_t>(getpid()));
  EXPECT_THAT(unreadable, SizeIs(1));
}

TEST_F(FlightRecorderTest, TheOldestRecordingsOfANameMakeRoom) {
  constexpr uint64_t kLives = 300;
  const auto other = FlightRecorder::Create(directory_, "nic00", 64);
  ASSERT_TRUE(other.ok());
  // What a Carillon before has left: a recording, and what stands for others.
  constexpr uint64_t kBefore[] = {10, 1000};
  FlightHeader old{.magic = FlightHeader::kMagic,
                   .version = 1,
                   .record_bytes = sizeof(FlightSlot),
                   .capacity = 64,
                   .pid = 1,
                   .name = "nic0",
                   .next = kBefore[0]};
  std::ofstream(directory_ + "/nic0-1.rec")
      .write(reinterpret_cast<const char*>(&old), sizeof(old));
  std::filesystem::resize_file(directory_ + "/nic0-1.rec",
                               sizeof(old) + 64 * sizeof(FlightSlot));
  old.capacity = 0;
  old.next = kBefore[1];
  std::ofstream(directory_ + "/nic0-removed.rec")
      .write(reinterpret_cast<const char*>(&old), sizeof(old));
  const auto running = FlightRecorder::Create(directory_, "nic0", 1 << 16);
  ASSERT_TRUE(running.ok());
  RingDoorbell(**running, 1);
  for (uint64_t i = 1; i <= kLives; ++i) {
    const auto recorder = FlightRecorder::Create(directory_, "nic0", 1 << 16);
    ASSERT_TRUE(recorder.ok()) << recorder.status();
    RingDoorbell(**recorder, i);
  }
  std::vector<std::string> unreadable;
  const auto all = ReadFlightRecordings(directory_, &unreadable);
  EXPECT_THAT(unreadable, IsEmpty());
  uint64_t written = 0;
  uint64_t overwritten = 0;
  uint64_t newest = 0;
  for (const FlightRecording& recording : all) {
    if (recording.name != "nic0") continue;
    written += recording.written;
    overwritten += recording.overwritten;
    for (const auto& record : recording.records) {
      newest = std::max(newest, record.sequence);
    }
  }
  // Not one record is forgotten: it is there, or counted as overwritten.
  EXPECT_EQ(written, kLives + 1 + kBefore[0] + kBefore[1]);
  EXPECT_GT(overwritten, 0);
  EXPECT_EQ(newest, kLives);
  EXPECT_TRUE(std::filesystem::exists((*running)->path()));
  EXPECT_TRUE(std::filesystem::exists((*other)->path()));
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    struct stat facts;
    ASSERT_EQ(stat(entry.path().c_str(), &facts), 0);
    bytes += static_cast<uint64_t>(facts.st_blocks) * 512;
  }
  EXPECT_LE(bytes, uint64_t{260} << 20);
}

TEST_F(FlightRecorderTest, ANameTakenGetsAnotherFile) {
  const auto first = Make();
  const auto second = Make();
  EXPECT_NE(first->path(), second->path());
  RingDoorbell(*first, 1);
  EXPECT_EQ(Read(second->path()).written, 0);
  struct stat facts;
  ASSERT_EQ(stat(first->path().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600);
  ASSERT_EQ(stat(directory_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0700);
}

TEST_F(FlightRecorderTest, ImpossibleRecordersAreRefused) {
  for (const char* name : {"", "a/b", "a b", ".."}) {
    EXPECT_EQ(FlightRecorder::Create(directory_, name, 64).status().code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_FALSE(
      FlightRecorder::Create(directory_, std::string(40, 'n'), 64).ok());
  for (const uint64_t records :
       {uint64_t{0}, uint64_t{63}, FlightRecorder::kMaxRecords + 1}) {
    EXPECT_EQ(FlightRecorder::Create(directory_, "n", records).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(FlightRecorder::Create(directory_ + "/no/such", "n", 64).ok());
}

TEST_F(FlightRecorderTest, TheEnvironmentTurnsItOn) {
  const auto made = [&](const char* value) {
    setenv(FlightRecorder::kVariable, value, 1);
    auto recorder = FlightRecorder::FromEnvironment(directory_, "nic0");
    unsetenv(FlightRecorder::kVariable);
    return recorder;
  };
  unsetenv(FlightRecorder::kVariable);
  const auto off = FlightRecorder::FromEnvironment(directory_, "nic0");
  ASSERT_TRUE(off.ok());
  EXPECT_EQ(*off, nullptr);
  EXPECT_EQ(*made("0"), nullptr);
  EXPECT_NE(*made("100"), nullptr);
  for (const char* bad : {"abc", "100x", "-1", "99999999999", "5"}) {
    const auto refused = made(bad);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.status().message()),
                HasSubstr("from 64 to"));
  }
}

}  // namespace
}  // namespace carillon::shm
