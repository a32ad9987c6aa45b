#include "tools/cli/ui/console.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/cli/ui/terminal_text.h"

namespace carillon::cli {
namespace {

void Write(FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

bool TerminalTakesCodes() {
  const char* terminal = std::getenv("TERM");
  return terminal != nullptr && *terminal != '\0' &&
         std::string_view(terminal) != "dumb";
}

bool ColourWanted() {
  const char* no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  return TerminalTakesCodes();
}

// On the screen beside the one that a shell writes to.
constexpr char kOtherScreen[] = "\x1b[?1049h";
constexpr char kBackToShell[] = "\x1b[?1049l";
constexpr char kHome[] = "\x1b[H";
constexpr char kRestOfLine[] = "\x1b[K";
constexpr char kRestOfScreen[] = "\x1b[J";

std::string Dump(const Json& document, int indent) {
  return document.dump(indent, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace

Console::Console(FILE* out, FILE* err)
    : out_(out),
      err_(err),
      err_is_terminal_(isatty(fileno(err)) == 1),
      out_is_terminal_(isatty(fileno(out)) == 1),
      colour_(out_is_terminal_ && ColourWanted()) {}

bool Console::redraws() const {
  return out_is_terminal_ && !json() && TerminalTakesCodes();
}

void Console::EndLineInPlace() {
  if (!in_place_) return;
  Write(err_, "\r\x1b[K");
  in_place_ = false;
}

void Console::Print(std::string_view text) {
  if (in_block_ && redraws()) {
    block_ += text;
    return;
  }
  EndLineInPlace();
  WriteOut(text);
}

void Console::WriteOut(std::string_view text) {
  errno = 0;
  Write(out_, text);
  if (!out_ok() && out_error_ == 0) out_error_ = errno;
}

void Console::Print(const Table& table) { Print(table.ToString(colour_)); }

void Console::PrintDocument(const Json& document) {
  document_printed_ = true;
  Print(Dump(document, in_block_ ? -1 : 2));
}

void Console::Print(const Json& document, const Table& table,
                    std::string_view nothing) {
  if (json()) {
    PrintDocument(document);
  } else if (table.empty() && !nothing.empty()) {
    Say(nothing);
  } else {
    Print(table);
  }
}

void Console::PrintJsonLine(const Json& document) {
  document_printed_ = true;
  Print(Dump(document, -1));
}

void Console::BeginBlock(std::string_view title) {
  in_block_ = true;
  title_ = title;
  block_.clear();
  if (blocks_++ == 0 && redraws()) {
    // After Ctrl-\ or Ctrl-Z a shell would go on on the other screen.
    signal(SIGQUIT, SIG_IGN);
    signal(SIGTSTP, SIG_IGN);
    guard_.emplace(fileno(out_), kBackToShell);
    WriteOut(kOtherScreen);
  }
  if (blocks_ > 1 && !redraws() && !json()) {
    Print("\n");
  }
}

void Console::EndBlock(bool result) {
  in_block_ = false;
  last_block_ = block_;
  if (result) last_result_ = block_;
  if (!redraws()) return;
  winsize size{};
  if (ioctl(fileno(out_), TIOCGWINSZ, &size) != 0 || size.ws_col == 0 ||
      size.ws_row == 0) {
    size = {.ws_row = 24, .ws_col = 80};
  }
  const std::string time =
      fmt::format("{:%H:%M:%S}", fmt::localtime(std::time(nullptr)));
  // A line as wide as the terminal leaves the cursor on its last column, so that
  // it is cleared before and not after it.
  const std::vector<std::string> lines =
      CutLines(fmt::format("{}  {}\n\n{}", title_, time, block_), size.ws_col,
               size.ws_row);
  std::string drawn = kHome;
  for (size_t i = 0; i < lines.size(); ++i) {
    drawn += (i == 0 ? "" : "\n") + (kRestOfLine + lines[i]);
  }
  if (lines.size() < size.ws_row) drawn += std::string("\n") + kRestOfScreen;
  WriteOut(drawn);
}

void Console::EndBlocks(bool error) {
  in_block_ = false;
  if (blocks_ == 0 || !redraws()) return;
  WriteOut(kBackToShell + (error ? last_result_ : last_block_));
  guard_.reset();
}

void Console::Say(std::string_view text) {
  // What is said may be from outside.
  const std::string line = LinesForTerminal(text);
  if (in_block_ && redraws()) {
    block_ += fmt::format("{}\n", line);
    return;
  }
  EndLineInPlace();
  Write(err_, fmt::format("{}\n", line));
}

void Console::SayInPlace(std::string_view text) {
  if (!err_is_terminal_) return;
  const std::string shown = ForTerminal(text);
  std::string_view line = shown;
  // A line that wraps could not be overwritten.
  winsize size{};
  if (ioctl(fileno(err_), TIOCGWINSZ, &size) == 0 && size.ws_col > 1) {
    line = line.substr(0, size.ws_col - 1);
  }
  Write(err_, fmt::format("\r\x1b[K{}", line));
  in_place_ = true;
}

std::string Console::Coloured(const char* code, std::string_view text) const {
  if (!colour_) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

absl::Status Console::OutStatus() const {
  // Who reads no more has what it wanted.
  if (out_error_ == 0 || out_error_ == EPIPE) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("cannot write to stdout: {}", std::strerror(out_error_)));
}

bool Console::out_ok() const { return std::ferror(out_) == 0; }

}  // namespace carillon::cli
