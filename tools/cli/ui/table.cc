#include "tools/cli/ui/table.h"

#include <locale.h>
#include <wchar.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "tools/cli/ui/terminal_text.h"

namespace carillon::cli {
namespace {

constexpr char kBold[] = "\x1b[1m";
constexpr char kPlain[] = "\x1b[0m";
constexpr size_t kGap = 2;

// What fits into so many columns of a line; all codes.
std::string CutLine(std::string_view line, size_t width) {
  std::string cut;
  size_t used = 0;
  while (!line.empty()) {
    if (line[0] == '\x1b') {
      const size_t code = std::min(line.find('m'), line.size() - 1) + 1;
      cut += line.substr(0, code);
      line.remove_prefix(code);
      continue;
    }
    const ShownCharacter character = FirstCharacter(line);
    used += character.columns;
    if (used > width) {
      // A code may follow that ends a colour.
      line.remove_prefix(std::min(line.find('\x1b'), line.size()));
      used = width + 1;
      continue;
    }
    cut += line.substr(0, character.bytes);
    line.remove_prefix(character.bytes);
  }
  return cut;
}

// wcwidth() goes by the thread's locale, and a program's is "C" until it asks for
// another.
class Utf8Locale {
 public:
  Utf8Locale() : before_(uselocale(Utf8())) {}
  ~Utf8Locale() { uselocale(before_); }

 private:
  static locale_t Utf8() {
    static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    return utf8;
  }
  const locale_t before_;
};

}  // namespace

std::vector<std::string> CutLines(std::string_view text, size_t width,
                                  size_t height) {
  std::vector<std::string> lines;
  size_t count = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (++count <= height) lines.push_back(CutLine(text.substr(0, end), width));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (count > height && height > 0) {
    lines.back() =
        CutLine(fmt::format("and {} more lines", count - height + 1), width);
  }
  return lines;
}

ShownCharacter FirstCharacter(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (byte(0) < 0x80) return {};
  ShownCharacter character;
  while (character.bytes < text.size() &&
         (byte(character.bytes) & 0xc0) == 0x80) {
    ++character.bytes;
  }
  const Utf8Locale utf8;
  wchar_t wide = 0;
  mbstate_t state{};
  // What is no UTF-8 has no width that is known.
  if (mbrtowc(&wide, text.data(), character.bytes, &state) == character.bytes) {
    const int columns = wcwidth(wide);
    if (columns >= 0) character.columns = static_cast<size_t>(columns);
  }
  return character;
}

size_t DisplayWidth(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const ShownCharacter character = FirstCharacter(text);
    columns += character.columns;
    text.remove_prefix(character.bytes);
  }
  return columns;
}

void Table::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = ForTerminal(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::ToString(bool bold_header) const {
  std::vector<std::string> headers;
  std::vector<size_t> widths;
  for (const Column& column : columns_) {
    headers.push_back(column.header);
    widths.push_back(DisplayWidth(column.header));
  }
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(row[i]));
    }
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) text.append(kGap, ' ');
      const size_t padding = widths[i] - DisplayWidth(cells[i]);
      if (columns_[i].align == Align::kRight) text.append(padding, ' ');
      text += cells[i];
      if (columns_[i].align == Align::kLeft) text.append(padding, ' ');
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  std::string text = bold_header ? kBold + line(headers) + kPlain + "\n"
                                 : line(headers) + "\n";
  for (const auto& row : rows_) text += line(row) + "\n";
  return text;
}

}  // namespace carillon::cli
