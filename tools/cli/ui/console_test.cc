#include "tools/cli/ui/console.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "tools/cli/ui/exit_code.h"

namespace carillon::cli {
namespace {

std::string Contents(FILE* file) {
  std::rewind(file);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

struct Files {
  FILE* out = std::tmpfile();
  FILE* err = std::tmpfile();
  ~Files() {
    std::fclose(out);
    std::fclose(err);
  }
};

TEST(Console, KeepsResultsAndMessagesApart) {
  Files files;
  Console console(files.out, files.err);
  console.Say("working");
  console.Print("result\n");
  console.SayInPlace("50 %");
  EXPECT_EQ(Contents(files.out), "result\n");
  EXPECT_EQ(Contents(files.err), "working\n");
}

TEST(Console, SaysNothingThatSteersATerminal) {
  Files files;
  Console console(files.out, files.err);
  console.Say("host 'a' failed: \x1b[2J\nits log: a.log\n");
  EXPECT_EQ(Contents(files.err),
            "host 'a' failed: \\x1b[2J\nits log: a.log\n\n");
}

TEST(Console, PrintsDocumentsThatAlwaysParse) {
  Files files;
  Console console(files.out, files.err);
  console.PrintDocument({{"note", "\xff bytes"}, {"count", UINT64_MAX}});
  EXPECT_TRUE(console.document_printed());
  const auto parsed = Json::parse(Contents(files.out), nullptr, false);
  ASSERT_FALSE(parsed.is_discarded());
  EXPECT_EQ(parsed["count"], UINT64_MAX);
}

TEST(Console, PrintsAStreamAsOneObjectALine) {
  Files files;
  Console console(files.out, files.err);
  console.PrintJsonLine({{"a", 1}});
  console.PrintJsonLine({{"a", 2}});
  EXPECT_EQ(Contents(files.out), "{\"a\":1}\n{\"a\":2}\n");
}

TEST(Console, HasNoColourInAFile) {
  Files files;
  Console console(files.out, files.err);
  EXPECT_EQ(console.Bad("x"), "x");
}

TEST(Console, HasColourOnATerminalUnlessNoColorIsSet) {
  int primary;
  int secondary;
  ASSERT_EQ(openpty(&primary, &secondary, nullptr, nullptr, nullptr), 0);
  FILE* terminal = fdopen(secondary, "w");
  setenv("TERM", "xterm", 1);
  unsetenv("NO_COLOR");
  EXPECT_EQ(Console(terminal, terminal).Bad("x"), "\x1b[31mx\x1b[0m");
  setenv("NO_COLOR", "1", 1);
  EXPECT_EQ(Console(terminal, terminal).Bad("x"), "x");
  unsetenv("NO_COLOR");
  setenv("TERM", "dumb", 1);
  EXPECT_EQ(Console(terminal, terminal).Bad("x"), "x");
  std::fclose(terminal);
  close(primary);
}

TEST(Console, CutsALineInPlaceToTheTerminal) {
  int primary;
  int secondary;
  const winsize size = {.ws_row = 24, .ws_col = 10};
  ASSERT_EQ(openpty(&primary, &secondary, nullptr, nullptr, &size), 0);
  FILE* terminal = fdopen(secondary, "w");
  Console console(terminal, terminal);
  console.SayInPlace("0123456789abcdef");
  console.Say("done");
  // A terminal may give it in parts.
  std::string shown;
  char bytes[64];
  for (ssize_t got = 1; got > 0 && !shown.ends_with('\n');) {
    got = read(primary, bytes, sizeof(bytes));
    shown.append(bytes, static_cast<size_t>(std::max<ssize_t>(got, 0)));
  }
  EXPECT_EQ(shown, "\r\x1b[K012345678\r\x1b[Kdone\r\n");
  std::fclose(terminal);
  close(primary);
}

TEST(Console, DrawsABlockOverTheLastOneOnATerminalAndLeavesItAsItWas) {
  int primary;
  int secondary;
  const winsize size = {.ws_row = 3, .ws_col = 5};
  ASSERT_EQ(openpty(&primary, &secondary, nullptr, nullptr, &size), 0);
  FILE* terminal = fdopen(secondary, "w");
  setenv("TERM", "xterm", 1);
  Console console(terminal, terminal);
  const auto shown = [&] {
    char bytes[256];
    const ssize_t got = read(primary, bytes, sizeof(bytes));
    return std::string(bytes, std::max<ssize_t>(got, 0));
  };
  console.BeginBlock("title");
  console.Print("123456\n");
  EXPECT_EQ(shown(), "\x1b[?1049h");
  console.EndBlock();
  EXPECT_EQ(shown(),
            "\x1b[H\x1b[Ktitle\r\n\x1b[K\r\n\x1b[K"
            "12345");
  console.BeginBlock("title");
  console.Print("1\n");
  console.Say("2");
  console.EndBlock();
  EXPECT_EQ(shown(),
            "\x1b[H\x1b[Ktitle\r\n\x1b[K\r\n\x1b[K"
            "and 2");
  console.EndBlocks();
  EXPECT_EQ(shown(), "\x1b[?1049l1\r\n2\r\n");
  std::fclose(terminal);
  close(primary);
}

TEST(Console, AfterAnErrorItLeavesTheLastResultAndNotWhatCameInItsPlace) {
  int primary;
  int secondary;
  const winsize size = {.ws_row = 24, .ws_col = 80};
  ASSERT_EQ(openpty(&primary, &secondary, nullptr, nullptr, &size), 0);
  FILE* terminal = fdopen(secondary, "w");
  setenv("TERM", "xterm", 1);
  const auto left = [&](bool error) {
    Console console(terminal, terminal);
    console.BeginBlock("title");
    console.Print("result\n");
    console.EndBlock();
    console.BeginBlock("title");
    console.Say("gpud has gone");
    console.EndBlock(/*result=*/false);
    // The next one is begun, and not ended.
    console.BeginBlock("title");
    console.Print("half\n");
    console.EndBlocks(error);
    std::string shown;
    size_t back = shown.npos;
    for (char byte; (back == shown.npos || !shown.ends_with("\r\n")) &&
                    read(primary, &byte, sizeof(byte)) == sizeof(byte);) {
      shown += byte;
      back = shown.rfind("\x1b[?1049l");
    }
    return shown.substr(back);
  };
  EXPECT_EQ(left(/*error=*/true), "\x1b[?1049lresult\r\n");
  EXPECT_EQ(left(/*error=*/false), "\x1b[?1049lgpud has gone\r\n");
  std::fclose(terminal);
  close(primary);
}

TEST(Console, PartsBlocksOnATerminalThatTakesNoCodes) {
  for (const char* term : {"", "dumb"}) {
    int primary;
    int secondary;
    ASSERT_EQ(openpty(&primary, &secondary, nullptr, nullptr, nullptr), 0);
    FILE* terminal = fdopen(secondary, "w");
    setenv("TERM", term, 1);
    Console console(terminal, terminal);
    for (const char* text : {"1\n", "2\n"}) {
      console.BeginBlock("title");
      console.Print(text);
      console.EndBlock();
    }
    console.EndBlocks();
    std::string shown;
    for (char byte; !shown.ends_with("2\r\n") &&
                    read(primary, &byte, sizeof(byte)) == sizeof(byte);) {
      shown += byte;
    }
    EXPECT_EQ(shown, "1\r\n\r\n2\r\n");
    std::fclose(terminal);
    close(primary);
  }
}

TEST(Console, PartsBlocksElsewhere) {
  Files files;
  Console console(files.out, files.err);
  for (const char* text : {"1\n", "2\n"}) {
    console.BeginBlock("title");
    console.Print(text);
    console.EndBlock();
  }
  console.EndBlocks();
  EXPECT_EQ(Contents(files.out), "1\n\n2\n");
}

TEST(ExitCode, FollowsTheKindOfFailure) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), ExitCode::kOk);
  EXPECT_EQ(ExitCodeOf(absl::InternalError("")), ExitCode::kFailed);
  EXPECT_EQ(ExitCodeOf(absl::FailedPreconditionError("")), ExitCode::kFailed);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("")), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("")), ExitCode::kNotFound);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("")), ExitCode::kUnavailable);
  EXPECT_EQ(ExitCodeOf(absl::DeadlineExceededError("")),
            ExitCode::kUnavailable);
  EXPECT_EQ(ExitCodeOf(absl::PermissionDeniedError("")), ExitCode::kDenied);
  EXPECT_EQ(ExitCodeOf(absl::DataLossError("")), ExitCode::kViolated);
}

TEST(Hint, TravelsWithTheStatus) {
  const absl::Status status =
      WithHint(absl::NotFoundError("no testbed is up"), "carillon up");
  EXPECT_EQ(HintOf(status), "carillon up");
  EXPECT_EQ(status.message(), "no testbed is up");
  EXPECT_EQ(HintOf(absl::NotFoundError("x")), "");
}

}  // namespace
}  // namespace carillon::cli
