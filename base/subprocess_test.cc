#include "base/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

namespace carillon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::chrono::seconds kBound{60};

std::string FileText(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class SubprocessTest : public ::testing::Test {
 protected:
  // What the shell runs, with `log_` for its output.
  SpawnOptions Shell(const std::string& script) const {
    return {.argv = {"sh", "-c", script}, .log_path = log_};
  }
  // The output of a whole run.
  std::string OutputOf(const SpawnOptions& options) {
    auto process = Subprocess::Start(options);
    if (!process.ok()) return process.status().ToString();
    EXPECT_TRUE(process->Reap().ok());
    return FileText(log_);
  }
  static std::string ErrorOf(const SpawnOptions& options) {
    return Subprocess::Start(options).status().ToString();
  }

  // The test's own: nothing of an earlier run is in it.
  const std::string log_ =
      ::testing::TempDir() + "/" +
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(SubprocessTest, ReportsHowItEnded) {
  auto ended = Subprocess::Start(Shell("exit 3"));
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_TRUE(ended->AwaitEnd(kBound));
  EXPECT_FALSE(ended->done());
  EXPECT_EQ(ended->Reap().ToString(), "exit code 3");
  EXPECT_EQ(ended->Reap().ShellCode(), 3);
  EXPECT_TRUE(ended->done());

  auto killed = Subprocess::Start(Shell("kill -SEGV $$"));
  ASSERT_TRUE(killed.ok()) << killed.status();
  EXPECT_EQ(killed->Reap().ToString(), "SIGSEGV");
  EXPECT_EQ(killed->Reap().ShellCode(), 128 + SIGSEGV);
}

TEST_F(SubprocessTest, IsKilledAndReapedWhenItsObjectGoes) {
  pid_t pid = 0;
  {
    auto process = Subprocess::Start({.argv = {"sleep", "infinity"}});
    ASSERT_TRUE(process.ok()) << process.status();
    pid = process->pid();
    EXPECT_FALSE(process->ended());
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST_F(SubprocessTest, DiesWithTheThreadThatStartedItIfItIsTied) {
  std::optional<Subprocess> tied;
  std::optional<Subprocess> free;
  std::thread([&] {
    SpawnOptions options{.argv = {"sleep", "infinity"}};
    tied.emplace(*Subprocess::Start(options));
    options.dies_with_parent = false;
    free.emplace(*Subprocess::Start(options));
  }).join();
  EXPECT_EQ(tied->Reap().signal, SIGKILL);
  EXPECT_FALSE(free->ended());
}

TEST_F(SubprocessTest, SignalsTheWholeOfItsOwnGroup) {
  SpawnOptions options = Shell("sleep infinity & echo $!; wait");
  options.own_group = true;
  auto process = Subprocess::Start(options);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(getpgid(process->pid()), process->pid());
  process->Signal(SIGKILL);
  EXPECT_EQ(process->Reap().signal, SIGKILL);
}

TEST_F(SubprocessTest, StartsWithNoSignalBlockedOrIgnored) {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, nullptr);
  const auto before = signal(SIGPIPE, SIG_IGN);
  for (const char* name : {"PIPE", "TERM"}) {
    auto process =
        Subprocess::Start(Shell("kill -" + std::string(name) + " $$"));
    ASSERT_TRUE(process.ok()) << process.status();
    EXPECT_EQ(process->Reap().ToString(), "SIG" + std::string(name));
  }
  pthread_sigmask(SIG_UNBLOCK, &term, nullptr);
  signal(SIGPIPE, before);
}

TEST_F(SubprocessTest, GetsItsVariablesInPlaceOfTheParents) {
  setenv("CARILLON_COLOUR", "of the parent", 1);
  SpawnOptions options = Shell("env | grep CARILLON_COLOUR");
  options.environment = {"CARILLON_COLOUR=green"};
  EXPECT_EQ(OutputOf(options), "CARILLON_COLOUR=green\n");
  unsetenv("CARILLON_COLOUR");
}

TEST_F(SubprocessTest, StartsInItsDirectoryUnderItsOtherName) {
  EXPECT_EQ(OutputOf({.argv = {"another", "-c", "echo $0; pwd"},
                      .program = "sh",
                      .directory = "/usr",
                      .log_path = log_}),
            "another\n/usr\n");
}

TEST_F(SubprocessTest, HasTheStreamsAndDescriptorsThatAreNamedAndNoOthers) {
  auto output = MakePipe();
  auto given = MakePipe();
  auto kept = MakePipe();
  ASSERT_TRUE(output.ok() && given.ok() && kept.ok());
  // As one that our own parent has left open.
  const UniqueFd left(dup(kept->reader.get()));
  auto process =
      Subprocess::Start({.argv = {"sh", "-c", "ls -l /proc/$$/fd; cat"},
                         .out = output->writer.get(),
                         .inherited = {given->reader.get()}});
  ASSERT_TRUE(process.ok()) << process.status();
  output->writer.reset();
  EXPECT_TRUE(process->Reap().ok());
  char bytes[4096];
  const ssize_t got = read(output->reader.get(), bytes, sizeof(bytes));
  const std::string listed(bytes, got > 0 ? static_cast<size_t>(got) : 0);
  const auto entry = [](int fd) { return " " + std::to_string(fd) + " -> "; };
  EXPECT_THAT(listed, HasSubstr(entry(0) + "/dev/null"));
  EXPECT_THAT(listed, HasSubstr(entry(given->reader.get())));
  EXPECT_THAT(listed, Not(HasSubstr(entry(kept->reader.get()))));
  EXPECT_THAT(listed, Not(HasSubstr(entry(left.get()))));
}

TEST_F(SubprocessTest, SaysWhyItCannotStart) {
  EXPECT_EQ(ErrorOf({.argv = {"/no/such/program"}}),
            "NOT_FOUND: cannot run /no/such/program: No such file or "
            "directory");
  EXPECT_EQ(ErrorOf({.argv = {"no_such_program_9"}}),
            "NOT_FOUND: cannot run no_such_program_9: no such program in PATH");
  std::ofstream(log_) << "x";
  EXPECT_EQ(ErrorOf({.argv = {log_}}),
            "PERMISSION_DENIED: cannot run " + log_ + ": Permission denied");
  // Executable, but no program: the kernel itself refuses.
  chmod(log_.c_str(), 0700);
  EXPECT_EQ(ErrorOf({.argv = {log_}}),
            "INTERNAL: cannot run " + log_ + ": Exec format error");
  EXPECT_EQ(ErrorOf({.argv = {"sh"}, .log_path = "/no/such/folder/x.log"}),
            "PERMISSION_DENIED: cannot write /no/such/folder/x.log: No such "
            "file or directory");
  EXPECT_EQ(ErrorOf({.argv = {"sh"}, .directory = "/no/such/folder"}),
            "INTERNAL: cannot start 'sh': enter the child's directory: No such "
            "file or directory");
}

}  // namespace
}  // namespace carillon
