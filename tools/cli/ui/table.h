// A table for people: aligned columns and a header line.
#ifndef CARILLON_TOOLS_CLI_UI_TABLE_H_
#define CARILLON_TOOLS_CLI_UI_TABLE_H_

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace carillon::cli {

enum class Align { kLeft, kRight };

struct Column {
  Column(std::string text, Align at) : header(std::move(text)), align(at) {}
  // ">COUNT" is aligned to the right.
  Column(const char* text)
      : header(*text == '>' ? text + 1 : text),
        align(*text == '>' ? Align::kRight : Align::kLeft) {}

  std::string header;
  Align align;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Missing cells are empty; cells beyond the last column are dropped. A cell may
  // be text from outside: it is shown by ForTerminal().
  void AddRow(std::vector<std::string> cells);
  // The same with text and numbers.
  void AddRow(const auto&... cells) requires(sizeof...(cells) > 1) {
    AddRow({fmt::format("{}", cells)...});
  }
  bool empty() const { return rows_.empty(); }

  // Lines end in '
  // ' and never in spaces. `bold_header` adds the terminal's codes for bold.
  std::string ToString(bool bold_header) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// The lines of `text` that a terminal of that size has room for, each cut to
// its width; terminal codes for colours take none and are not cut. What has no
// room is counted in the last line.
std::vector<std::string> CutLines(std::string_view text, size_t width,
                                  size_t height);

// The character that UTF-8 text, which is not empty, starts with.
struct ShownCharacter {
  size_t bytes = 1;
  // That it takes on a terminal: 2 for most of East Asia's, 0 for accents that
  // stand above the one before.
  size_t columns = 1;
};
ShownCharacter FirstCharacter(std::string_view text);

// How many columns UTF-8 text takes on a terminal.
size_t DisplayWidth(std::string_view text);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_UI_TABLE_H_
