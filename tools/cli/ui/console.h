// A command's output: results go to stdout (text for people or one JSON
// document), messages to stderr.
#ifndef CARILLON_TOOLS_CLI_UI_CONSOLE_H_
#define CARILLON_TOOLS_CLI_UI_CONSOLE_H_

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/json.h"
#include "tools/cli/ui/table.h"
#include "tools/cli/ui/terminal_guard.h"

namespace carillon::cli {

// One thread at a time.
class Console {
 public:
  // The caller keeps the streams. Colour is used on a terminal, unless NO_COLOR
  // is set or TERM is "dumb".
  Console(FILE* out, FILE* err);

  // The value of -o: "table" or "json".
  std::string format = "table";
  bool json() const { return format == "json"; }

  bool err_is_terminal() const { return err_is_terminal_; }
  bool out_is_terminal() const { return out_is_terminal_; }

  void Print(std::string_view text);
  void Print(const Table& table);
  // Prints the result of a command under -o json; call it once, or once a block:
  // on a line then. Replaces bytes that are not UTF-8.
  void PrintDocument(const Json& document);
  // Prints `document` under -o json, else the table; says `nothing` in the place
  // of a table without rows, unless `nothing` is empty.
  void Print(const Json& document, const Table& table,
             std::string_view nothing = "");
  bool document_printed() const { return document_printed_; }
  void PrintJsonLine(const Json& document);

  // Prints a message and "\n". It may have text from outside, which is shown by
  // ForTerminal().
  void Say(std::string_view text);
  // Prints a line that the next one overwrites on a terminal, cut to its width
  // (ASCII only); prints nothing elsewhere.
  void SayInPlace(std::string_view text);

  // A command that prints its result again and again prints blocks. On a
  // terminal, one takes the place of the other, with what is said, under a line
  // with `title` and the time; elsewhere an empty line parts them, but for JSON.
  void BeginBlock(std::string_view title);
  // `result`: of the command, not of what keeps it from one.
  void EndBlock(bool result = true);
  // After the last one: a terminal is as it was before them, and shows it whole;
  // after an error the last one with a result.
  void EndBlocks(bool error = false);

  // Adds terminal codes where stdout has colour.
  std::string Bold(std::string_view text) const { return Coloured("1", text); }
  std::string Good(std::string_view text) const { return Coloured("32", text); }
  std::string Bad(std::string_view text) const { return Coloured("31", text); }
  // Returns false once the reader of stdout has gone.
  bool out_ok() const;
  // ResourceExhausted if something could not be written, for another reason than
  // a reader that has gone.
  absl::Status OutStatus() const;

 private:
  std::string Coloured(const char* code, std::string_view text) const;
  void EndLineInPlace();
  // Whether blocks are drawn over each other.
  bool redraws() const;
  void WriteOut(std::string_view text);

  FILE* const out_;
  FILE* const err_;
  bool err_is_terminal_;
  bool out_is_terminal_;
  bool colour_;
  bool in_place_ = false;
  bool document_printed_ = false;
  int out_error_ = 0;  // errno of the first failure
  int blocks_ = 0;
  bool in_block_ = false;
  std::string title_;
  // What is printed and said in a block that is drawn at its end.
  std::string block_;
  std::string last_block_;
  std::string last_result_;
  std::optional<TerminalGuard> guard_;  // while blocks are drawn
};

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_UI_CONSOLE_H_
