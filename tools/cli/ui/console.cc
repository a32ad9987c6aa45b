#include "tools/cli/ui/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

namespace carillon::cli {
namespace {

void Write(FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

bool ColourWanted() {
  const char* no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  const char* terminal = std::getenv("TERM");
  return terminal != nullptr && std::string_view(terminal) != "dumb";
}

std::string Dump(const Json& document, int indent) {
  return document.dump(indent, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace

Console::Console(FILE* out, FILE* err)
    : out_(out),
      err_(err),
      err_is_terminal_(isatty(fileno(err)) == 1),
      colour_(isatty(fileno(out)) == 1 && ColourWanted()) {}

void Console::EndLineInPlace() {
  if (!in_place_) return;
  Write(err_, "\r\x1b[K");
  in_place_ = false;
}

void Console::Print(std::string_view text) {
  EndLineInPlace();
  errno = 0;
  Write(out_, text);
  if (!out_ok() && out_error_ == 0) out_error_ = errno;
}

void Console::Print(const Table& table) { Print(table.ToString(colour_)); }

void Console::PrintDocument(const Json& document) {
  document_printed_ = true;
  Print(Dump(document, 2));
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

void Console::Say(std::string_view line) {
  EndLineInPlace();
  Write(err_, fmt::format("{}\n", line));
}

void Console::SayInPlace(std::string_view line) {
  if (!err_is_terminal_) return;
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
