#include "tools/cli/ui/table.h"

#include <algorithm>
#include <utility>

namespace carillon::cli {
namespace {

constexpr char kBold[] = "\x1b[1m";
constexpr char kPlain[] = "\x1b[0m";
constexpr size_t kGap = 2;

}  // namespace

size_t DisplayWidth(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  });
}

void Table::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
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
