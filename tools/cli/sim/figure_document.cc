#include "tools/cli/sim/figure_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/plots/document.h"

namespace carillon::cli {
namespace {

constexpr const char* kPlotter = "tools/plots/plot_sim_figure.py";

std::string Cell(const Json& value) {
  if (value.is_null()) return "-";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// A number without ".0"; all numbers of a column have three digits.
std::string NumberCell(const Json& value) {
  return value.is_number() ? fmt::format("{}", value.get<double>())
                           : Cell(value);
}

}  // namespace

void PrintFigure(const Json& document, Console& console) {
  console.Print(fmt::format(
      "{}\n", console.Bold(fmt::format("{}: {}", Cell(document["figure"]),
                                       Cell(document["title"])))));
  for (const Json& condition : document["conditions"]) {
    console.Print(fmt::format("- {}\n", Cell(condition)));
  }
  for (const Json& table : document["tables"]) {
    console.Print(fmt::format("\n{}\n", Cell(table["title"])));
    std::vector<Column> columns;
    for (size_t i = 0; i < table["columns"].size(); ++i) {
      std::string header = Cell(table["columns"][i]);
      std::ranges::transform(header, header.begin(),
                             [](unsigned char c) { return std::toupper(c); });
      const Json& first = table["rows"][0][i];
      columns.push_back(
          {header, first.is_string() ? Align::kLeft : Align::kRight});
    }
    Table text(std::move(columns));
    for (const Json& row : table["rows"]) {
      std::vector<std::string> cells;
      for (const Json& value : row) cells.push_back(NumberCell(value));
      text.AddRow(std::move(cells));
    }
    console.Print(text);
  }
  console.Print("\n");
  Table summary(
      {"BESIDE THE PAPER", ">PAPER", ">HERE", ">MEDIAN", ">GEOMEAN", ""});
  for (const Json& row : document["summary"]) {
    summary.AddRow(Cell(row["what"]), NumberCell(row["paper"]),
                   NumberCell(row["ours"]), NumberCell(row["median"]),
                   NumberCell(row["geometric_mean"]), Cell(row["unit"]));
  }
  console.Print(summary);
  console.Print("\n");
}

absl::Status WriteFigure(const std::string& directory, std::string_view name,
                         const Json& document, Console& console) {
  std::vector<std::string> written;
  const absl::Status status =
      plots::WriteDocument(directory, name, document, kPlotter, &written);
  for (const std::string& path : written) {
    console.Say(fmt::format("wrote {}", path));
  }
  if (!absl::IsUnavailable(status)) return status;
  // Only the picture is missing: the numbers are still valid.
  console.Say(std::string(status.message()));
  return absl::OkStatus();
}

}  // namespace carillon::cli
