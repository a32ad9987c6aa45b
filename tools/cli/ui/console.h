// Where a command's words go: results to stdout (text for people or one JSON
// document), messages to stderr.
#ifndef CARILLON_TOOLS_CLI_UI_CONSOLE_H_
#define CARILLON_TOOLS_CLI_UI_CONSOLE_H_

#include <cstdio>
#include <string>
#include <string_view>

#include "base/json.h"
#include "tools/cli/ui/table.h"

namespace carillon::cli {

// One thread at a time.
class Console {
 public:
  // The streams stay the caller's. Colour: on a terminal, unless NO_COLOR is
  // set to anything or TERM is "dumb".
  Console(FILE* out, FILE* err);

  // "table" or "json": -o.
  std::string format = "table";
  bool json() const { return format == "json"; }

  bool out_is_terminal() const { return out_is_terminal_; }
  bool err_is_terminal() const { return err_is_terminal_; }

  // A result.
  void Print(std::string_view text);
  void Print(const Table& table);
  // The result of a command under -o json: once a run. Bytes that are not UTF-8
  // are replaced.
  void PrintDocument(const Json& document);
  bool document_printed() const { return document_printed_; }
  // One line of a stream under -o json.
  void PrintJsonLine(const Json& document);

  // A message, with "\n" added.
  void Say(std::string_view line);
  // A line that the next one overwrites on a terminal, cut to its width (ASCII
  // only); nothing elsewhere.
  void SayInPlace(std::string_view line);

  // With terminal codes where stdout has colour.
  std::string Bold(std::string_view text) const;
  std::string Good(std::string_view text) const;
  std::string Bad(std::string_view text) const;
  // False once the reader of stdout is gone.
  bool out_ok() const;

 private:
  std::string Coloured(const char* code, std::string_view text) const;
  void EndLineInPlace();

  FILE* const out_;
  FILE* const err_;
  bool out_is_terminal_;
  bool err_is_terminal_;
  bool colour_;
  bool in_place_ = false;
  bool document_printed_ = false;
};

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_UI_CONSOLE_H_
