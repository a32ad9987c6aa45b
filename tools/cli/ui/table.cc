#include "tools/cli/ui/table.h"

#include <algorithm>
#include <utility>

#include "tools/cli/ui/terminal_text.h"

namespace carillon::cli {
namespace {

constexpr char kBold[] = "\x1b[1m";
constexpr char kPlain[] = "\x1b[0m";
constexpr size_t kGap = 2;

// The first `width` characters of a line; all codes.
std::string CutLine(std::string_view line, size_t width) {
  std::string cut;
  size_t used = 0;
  while (!line.empty()) {
    size_t length = 1;
    if (line[0] == '\x1b') {
      length = std::min(line.find('m'), line.size() - 1) + 1;
    } else {
      while (length < line.size() &&
             (static_cast<unsigned char>(line[length]) & 0xc0) == 0x80) {
        ++length;
      }
      if (++used > width) length = 0;
    }
    if (length == 0) {
      // A code may follow that ends a colour.
      line.remove_prefix(std::min(line.find('\x1b'), line.size()));
    } else {
      cut += line.substr(0, length);
      line.remove_prefix(length);
    }
  }
  return cut;
}

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

size_t DisplayWidth(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  });
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
