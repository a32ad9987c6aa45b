#include "shm/faults/board.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "fmt/format.h"
#include "shm/faults/point.h"

namespace carillon::faults {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class BoardTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "/board-" +
            testing::UnitTest::GetInstance()->current_test_info()->name() +
            fmt::format("-{}", getpid());
    unlink(path_.c_str());
    auto board = Board::Create(path_);
    ASSERT_TRUE(board.ok()) << board.status();
    board_ = *std::move(board);
  }
  void TearDown() override { unlink(path_.c_str()); }

  void Inject(const Fault& fault) {
    const Fault faults[] = {fault};
    auto ids = board_->Inject(faults);
    ASSERT_TRUE(ids.ok()) << ids.status();
  }
  std::unique_ptr<Member> Join(std::string_view name) {
    auto member = Member::Join(path_, name);
    EXPECT_TRUE(member.ok()) << member.status();
    return member.ok() ? *std::move(member) : nullptr;
  }
  // The passages, of `count`, that are struck.
  static std::vector<int> StruckOf(int count, Point point = Point::kDeviceRing,
                                   const Subject& subject = {}) {
    std::vector<int> struck;
    for (int i = 1; i <= count; ++i) {
      if (At(point, subject).has_value()) struck.push_back(i);
    }
    return struck;
  }
  // Runs `body` on the board in another process; returns how that ended.
  int InChild(std::string_view name, const std::function<void()>& body) {
    const pid_t child = fork();
    if (child == 0) {
      auto member = Member::Join(path_, name);
      if (!member.ok()) _exit(99);
      body();
      _exit(0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }

  std::string path_;
  std::unique_ptr<Board> board_;
};

Fault Lose(std::string name = "f") {
  return {.name = std::move(name),
          .point = Point::kDeviceRing,
          .action = Action::kLose};
}

TEST_F(BoardTest, NothingStrikesWithoutAFaultOrAMember) {
  EXPECT_FALSE(Armed(Point::kDeviceRing));
  Inject(Lose());
  EXPECT_TRUE(StruckOf(3).empty());
  auto nic = Join("nic0");
  EXPECT_EQ(StruckOf(3), std::vector<int>{1});
  nic.reset();
  EXPECT_FALSE(Armed(Point::kDeviceRing));
  EXPECT_TRUE(StruckOf(3).empty());
}

TEST_F(BoardTest, StrikesTheNthAndEveryFewTimes) {
  auto nic = Join("nic0");
  Fault fault = Lose();
  fault.nth = 3;
  fault.every = 4;
  fault.times = 3;
  Inject(fault);
  EXPECT_EQ(StruckOf(20), (std::vector<int>{3, 7, 11}));
  const std::vector<Injected> list = board_->List();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].fault, fault);
  // Nobody need count once it is spent.
  EXPECT_GE(list[0].passages, 11u);
  EXPECT_LE(list[0].passages, 20u);
  EXPECT_EQ(list[0].struck, 3u);
  EXPECT_TRUE(list[0].spent);
}

TEST_F(BoardTest, ASpentFaultLeavesItsPointFree) {
  auto nic = Join("nic0");
  Inject(Lose());
  EXPECT_TRUE(Armed(Point::kDeviceRing));
  EXPECT_EQ(StruckOf(1), std::vector<int>{1});
  const auto end = std::chrono::steady_clock::now() + seconds(20);
  while (Armed(Point::kDeviceRing) && std::chrono::steady_clock::now() < end) {
    sched_yield();
  }
  EXPECT_FALSE(Armed(Point::kDeviceRing));
}

TEST_F(BoardTest, ProbabilityIsAStreamOfItsSeed) {
  auto nic = Join("nic0");
  const auto run = [&](uint64_t seed) {
    Fault fault = Lose();
    fault.probability = 0.25;
    fault.times = 0;
    fault.seed = seed;
    Inject(fault);
    std::vector<int> struck = StruckOf(1000);
    EXPECT_TRUE(board_->Clear("f").ok());
    return struck;
  };
  const std::vector<int> first = run(7);
  EXPECT_EQ(run(7), first);
  EXPECT_NE(run(8), first);
  EXPECT_GT(first.size(), 190u);
  EXPECT_LT(first.size(), 310u);
}

TEST_F(BoardTest, SelectsByProcessDeviceEventAndMethod) {
  auto gpud = Join("gpud");
  Fault fault = Lose();
  fault.times = 0;
  fault.process = "nic*";
  Inject(fault);
  EXPECT_TRUE(StruckOf(2).empty());
  ASSERT_TRUE(board_->Clear("f").ok());

  fault.process = "gp?d";
  fault.device = "nic[01]";
  fault.event_id = 5;
  Inject(fault);
  const auto at = [](std::string_view device, uint32_t event) {
    return !StruckOf(1, Point::kDeviceRing,
                     {.device = device, .event_id = event})
                .empty();
  };
  EXPECT_TRUE(at("nic1", 5));
  EXPECT_FALSE(at("nic2", 5));
  EXPECT_FALSE(at("nic1", 4));
  EXPECT_EQ(board_->List()[0].passages, 1u);

  Inject({.name = "rpc",
          .method = "Register*",
          .point = Point::kGpudRpc,
          .times = 0,
          .action = Action::kAbort,
          .code = 14});
  EXPECT_TRUE(StruckOf(1, Point::kGpudRpc, {.method = "Attach"}).empty());
  const auto struck = At(Point::kGpudRpc, {.method = "RegisterEvent"});
  ASSERT_TRUE(struck.has_value());
  EXPECT_EQ(struck->action, Action::kAbort);
  EXPECT_EQ(struck->code, 14u);
}

TEST_F(BoardTest, OneFaultWaitsForAnother) {
  auto nic = Join("nic0");
  Fault second = Lose("second");
  second.after_fault = "first";
  second.nth = 2;
  Fault first = Lose("first");
  first.nth = 3;
  const Fault both[] = {first, second};
  ASSERT_TRUE(board_->Inject(both).ok());
  // The second counts from the first one's strike: in the same passage, since
  // it comes after it.
  EXPECT_EQ(StruckOf(10), (std::vector<int>{3, 4}));
}

TEST_F(BoardTest, WaitsForAStateOfAnotherProcess) {
  Fault fault = Lose();
  fault.times = 0;
  fault.process = "gpud";
  fault.after_process = "nic*";
  fault.after_state = State::kReady;
  fault.after_count = 2;
  Inject(fault);
  EXPECT_EQ(board_->List()[0].fault, fault);
  auto gpud = Join("gpud");
  EXPECT_TRUE(StruckOf(2).empty());
  // Another process's, and another state.
  Reached(State::kReady);
  gpud.reset();
  EXPECT_EQ(InChild("nic0", [] { Reached(State::kAttached); }), 0);
  EXPECT_EQ(InChild("nic0", [] { Reached(State::kReady); }), 0);
  gpud = Join("gpud");
  EXPECT_TRUE(StruckOf(2).empty());
  gpud.reset();
  EXPECT_EQ(InChild("nic1", [] { Reached(State::kReady); }), 0);
  gpud = Join("gpud");
  EXPECT_EQ(StruckOf(2), (std::vector<int>{1, 2}));
  // Only passages from there on are counted.
  EXPECT_EQ(board_->List()[0].passages, 2u);
}

TEST_F(BoardTest, AStateFromBeforeTheInjectionDoesNotCount) {
  auto nic = Join("nic0");
  Reached(State::kReady);
  Fault fault = Lose();
  fault.after_process = "nic0";
  fault.after_state = State::kReady;
  Inject(fault);
  EXPECT_TRUE(StruckOf(2).empty());
  ASSERT_TRUE(board_->Clear("f").ok());
  // Nor does one that an earlier fault in its place has counted.
  fault.after_state = State::kStarted;
  Inject(fault);
  EXPECT_TRUE(StruckOf(2).empty());
  nic.reset();
  nic = Join("nic0");
  EXPECT_EQ(StruckOf(2), std::vector<int>{1});
}

TEST_F(BoardTest, AStateStartsAFaultInTime) {
  Fault fault{.name = "f",
              .process = "nic1",
              .after_process = "nic0",
              .after_state = State::kAttached};
  Inject(fault);
  const pid_t child = fork();
  if (child == 0) {
    auto member = Member::Join(path_, "nic1");
    if (!member.ok()) _exit(99);
    while (true) pause();
  }
  while (board_->Members().empty()) sched_yield();
  auto nic = Join("nic0");
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, WNOHANG), 0);
  Reached(State::kAttached);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST_F(BoardTest, StrikesNotBeforeItsTimeAndNotAfterIt) {
  auto nic = Join("nic0");
  Fault fault = Lose();
  fault.times = 0;
  fault.after_ns = 20'000'000;
  fault.window_ns = 20'000'000;
  Inject(fault);
  const Nanoseconds begin = board_->List()[0].injected_ns;
  Nanoseconds first = 0;
  Nanoseconds last = 0;
  while (NowNs() < begin + 100'000'000) {
    const Nanoseconds before = NowNs();
    if (!At(Point::kDeviceRing)) continue;
    if (first == 0) first = NowNs();
    last = before;
  }
  EXPECT_GE(first, begin + 20'000'000);
  EXPECT_LE(last, begin + 40'000'000);
  EXPECT_TRUE(board_->List()[0].spent);
}

TEST_F(BoardTest, KillsAtTheNthPassage) {
  Inject({.name = "f", .point = Point::kDeviceRing, .nth = 5});
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const int status = InChild("nic0", [&] {
    for (char i = 1; i <= 10; ++i) {
      At(Point::kDeviceRing);
      if (write(pipes[1], &i, 1) != 1) _exit(98);
    }
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  char passed[16];
  EXPECT_EQ(read(pipes[0], passed, sizeof(passed)), 4);
  close(pipes[0]);
  close(pipes[1]);
  // The next process of that name has passed: the fault is spent.
  EXPECT_EQ(InChild("nic0", [] { At(Point::kDeviceRing); }), 0);
  ASSERT_EQ(board_->Strikes().size(), 1u);
  EXPECT_EQ(board_->Strikes()[0].passage, 5u);
  EXPECT_EQ(board_->List()[0].passages, 5u);
}

TEST_F(BoardTest, CountsOnInTheNextProcess) {
  Inject({.name = "f", .point = Point::kDeviceRing, .nth = 5});
  const auto pass_twice = [] {
    At(Point::kDeviceRing);
    At(Point::kDeviceRing);
  };
  EXPECT_EQ(InChild("nic0", pass_twice), 0);
  EXPECT_EQ(InChild("nic1", pass_twice), 0);
  EXPECT_TRUE(WIFSIGNALED(InChild("nic0", pass_twice)));
}

TEST_F(BoardTest, StopsAndGoesOn) {
  Inject({.name = "f",
          .point = Point::kDeviceRing,
          .action = Action::kStop,
          .duration_ns = 30'000'000});
  const pid_t child = fork();
  if (child == 0) {
    auto member = Member::Join(path_, "nic0");
    if (!member.ok()) _exit(99);
    At(Point::kDeviceRing);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status)) << status;
  // Nobody but the fault lets it go on.
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(BoardTest, KillsInTimeWithoutAPoint) {
  const pid_t child = fork();
  if (child == 0) {
    auto member = Member::Join(path_, "nic0");
    if (!member.ok()) _exit(99);
    while (true) pause();
  }
  while (board_->Members().empty()) sched_yield();
  Inject({.name = "f", .process = "nic0", .after_ns = 10'000'000});
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(board_->Members().empty());
}

TEST_F(BoardTest, AFaultInTimeThatIsSpentIsLookedAtOnce) {
  const pid_t child = fork();
  if (child == 0) {
    auto member = Member::Join(path_, "nic0");
    if (!member.ok()) _exit(99);
    while (true) pause();
  }
  while (board_->Members().empty()) sched_yield();
  Inject({.name = "f",
          .process = "nic0",
          .after_ns = 1'000'000,
          .action = Action::kStop,
          .duration_ns = 1'000'000});
  board_->WaitForStrike(0, std::chrono::minutes(1));
  // It may have looked, or still have to.
  constexpr int kEnough = 1000;
  int in_a_row = 0;
  for (int i = 0; i < 100 * kEnough && in_a_row < kEnough; ++i) {
    in_a_row = board_->Members()[0].up_to_date ? in_a_row + 1 : 0;
    usleep(10);
  }
  EXPECT_EQ(in_a_row, kEnough) << "it looks at the board again and again";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(BoardTest, AfterAnotherFaultInTime) {
  Fault first = Lose("first");
  first.process = "nic0";
  Fault second{.name = "second", .process = "nic1", .after_fault = "first"};
  const Fault both[] = {first, second};
  ASSERT_TRUE(board_->Inject(both).ok());
  const pid_t child = fork();
  if (child == 0) {
    auto member = Member::Join(path_, "nic1");
    if (!member.ok()) _exit(99);
    while (true) pause();
  }
  while (board_->Members().empty()) sched_yield();
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, WNOHANG), 0);
  auto nic = Join("nic0");
  EXPECT_EQ(StruckOf(1), std::vector<int>{1});
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST_F(BoardTest, DelaysTheThread) {
  auto nic = Join("nic0");
  Inject({.name = "f",
          .point = Point::kDeviceTake,
          .action = Action::kDelay,
          .duration_ns = 20'000'000,
          .jitter_ns = 5'000'000});
  const Nanoseconds begin = NowNs();
  EXPECT_FALSE(At(Point::kDeviceTake).has_value());
  EXPECT_GE(NowNs() - begin, 15'000'000u);
}

TEST_F(BoardTest, LimitsBytes) {
  auto nic = Join("nic0");
  Inject({.name = "f",
          .point = Point::kNicSend,
          .times = 0,
          .action = Action::kLimit,
          .count = 1'000'000});
  const Nanoseconds begin = NowNs();
  for (int i = 0; i < 21; ++i) At(Point::kNicSend, {.bytes = 1000});
  EXPECT_GE(NowNs() - begin, 20'000'000u);
}

TEST_F(BoardTest, Corrupts) {
  auto nic = Join("nic0");
  Fault fault{.name = "f",
              .point = Point::kDeviceCommit,
              .times = 0,
              .action = Action::kCorrupt};
  const auto corrupt = [&](const Fault& of) {
    Inject(of);
    std::vector<std::byte> data(4, std::byte{0x0f});
    const auto struck = At(Point::kDeviceCommit);
    EXPECT_TRUE(struck.has_value());
    if (struck) struck->Corrupt(data);
    EXPECT_TRUE(board_->Clear("f").ok());
    std::string text;
    for (const std::byte b : data) {
      text += fmt::format("{:02x}", std::to_integer<int>(b));
    }
    return text;
  };
  fault.offset = 2;
  fault.bytes = "\xab\xcd\xef";
  EXPECT_EQ(corrupt(fault), "0f0fabcd");
  fault.bytes.clear();
  fault.mask = "\xff";
  EXPECT_EQ(corrupt(fault), "0f0ff00f");
  fault.mask.clear();
  EXPECT_NE(corrupt(fault), "0f0f0f0f");
}

TEST_F(BoardTest, InjectsAllOrNothing) {
  const Fault bad[] = {Lose("a"), {.name = "b", .action = Action::kHang}};
  EXPECT_TRUE(absl::IsInvalidArgument(board_->Inject(bad).status()));
  const Fault twice[] = {Lose("a"), Lose("a")};
  EXPECT_TRUE(absl::IsAlreadyExists(board_->Inject(twice).status()));
  Fault orphan = Lose("a");
  orphan.after_fault = "nobody";
  EXPECT_TRUE(absl::IsInvalidArgument(board_->Inject({&orphan, 1}).status()));
  EXPECT_TRUE(board_->List().empty());

  std::vector<Fault> many;
  for (size_t i = 0; i <= kMaxFaults; ++i) {
    many.push_back(Lose(fmt::format("f{}", i)));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(board_->Inject(many).status()));
  EXPECT_TRUE(board_->List().empty());
  many.pop_back();
  EXPECT_TRUE(board_->Inject(many).ok());
  EXPECT_EQ(board_->List().size(), kMaxFaults);
  EXPECT_TRUE(absl::IsNotFound(board_->Clear("nobody")));
  EXPECT_EQ(board_->ClearAll(), kMaxFaults);
  EXPECT_TRUE(board_->List().empty());
}

TEST_F(BoardTest, ManyInjectAtOnce) {
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      auto board = Board::Open(path_);
      if (!board.ok()) _exit(99);
      for (int j = 0; j < 20; ++j) {
        const Fault fault = Lose(fmt::format("f{}-{}", i, j));
        if (!(*board)->Inject({&fault, 1}).ok()) _exit(98);
        if (j % 5 != 0 && !(*board)->Clear(fault.name).ok()) _exit(97);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const std::vector<Injected> left = board_->List();
  EXPECT_EQ(left.size(), 8u * 4);
  for (size_t i = 1; i < left.size(); ++i) {
    EXPECT_LT(left[i - 1].id, left[i].id);
  }
}

TEST_F(BoardTest, AStoppedMemberIsSaidToBeBehind) {
  const pid_t child = fork();
  if (child == 0) {
    auto member = Member::Join(path_, "nic0");
    if (!member.ok()) _exit(99);
    raise(SIGSTOP);
    while (true) pause();
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  const Fault fault = Lose();
  ASSERT_TRUE(board_->Inject({&fault, 1}, milliseconds(10)).ok());
  const auto members = board_->Members();
  ASSERT_EQ(members.size(), 1u);
  EXPECT_EQ(members[0].name, "nic0");
  EXPECT_EQ(members[0].pid, static_cast<uint32_t>(child));
  EXPECT_FALSE(members[0].up_to_date);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, &status, 0), child);
}

TEST_F(BoardTest, AnInjectorThatDiesLetsGoOfTheBoard) {
  const pid_t child = fork();
  if (child == 0) {
    auto board = Board::Open(path_);
    if (!board.ok()) _exit(99);
    for (int i = 0;; ++i) {
      const Fault fault = Lose("g");
      (void)(*board)->Inject({&fault, 1});
      (void)(*board)->Clear("g");
      if (i == 100) kill(getpid(), SIGKILL);
    }
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  Inject(Lose());
}

TEST_F(BoardTest, WaitsForAStrike) {
  EXPECT_EQ(board_->WaitForStrike(0, milliseconds(1)), 0u);
  Inject(Lose());
  std::thread striker([&] {
    auto nic = Join("nic0");
    StruckOf(1);
  });
  EXPECT_EQ(board_->WaitForStrike(0, seconds(10)), 1u);
  striker.join();
}

TEST_F(BoardTest, OneMemberAProcess) {
  auto nic = Join("nic0");
  EXPECT_TRUE(absl::IsFailedPrecondition(Member::Join(path_, "nic1").status()));
  EXPECT_TRUE(Member::JoinForGood(path_, "nic1").ok());
  EXPECT_EQ(board_->Members().size(), 1u);
}

TEST(Board, RefusesWhatIsNoBoard) {
  const std::string path = testing::TempDir() + "/no-board";
  EXPECT_TRUE(absl::IsNotFound(Board::Open(path + "-not-there").status()));
  EXPECT_TRUE(Member::JoinForGood(path + "-not-there", "nic0").ok());
  std::ofstream(path) << "text";
  EXPECT_TRUE(absl::IsFailedPrecondition(Board::Open(path).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(Board::Create(path).status()));
  unlink(path.c_str());
  ASSERT_TRUE(Board::Create(path).ok());
  // Its magic.
  std::fstream(path, std::ios::in | std::ios::out) << "x";
  EXPECT_TRUE(absl::IsFailedPrecondition(Board::Create(path).status()));
  unlink(path.c_str());
  ASSERT_EQ(symlink("/dev/null", path.c_str()), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(Board::Create(path).status()));
  unlink(path.c_str());
}

// Whoever can write to the file can write anything.
TEST(Board, GarbageOnItStrikesNobodyAndBreaksNothing) {
  const std::string path = testing::TempDir() + "/garbage-board";
  unlink(path.c_str());
  auto board = Board::Create(path);
  ASSERT_TRUE(board.ok());
  struct stat file {};
  ASSERT_EQ(stat(path.c_str(), &file), 0);
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    std::vector<char> garbage(file.st_size - 16);
    uint32_t state = seed;
    for (char& c : garbage) {
      state = state * 1664525 + 1013904223;
      c = static_cast<char>(state >> 24);
    }
    UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(pwrite(fd.get(), garbage.data(), garbage.size(), 16),
              static_cast<ssize_t>(garbage.size()));
    auto member = Member::Join(path, "nic0");
    ASSERT_TRUE(member.ok()) << member.status();
    for (const PointInfo& point : Points()) {
      EXPECT_FALSE(At(point.point, {.device = "nic0"}).has_value());
    }
    (*board)->List();
    (*board)->Strikes();
    (*board)->Members();
  }
  unlink(path.c_str());
}

}  // namespace
}  // namespace carillon::faults
