#include "tools/cli/top/screen.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <span>
#include <variant>

#include "base/text.h"
#include "tools/cli/ui/rate.h"
#include "tools/cli/ui/table.h"

namespace carillon::cli::top {
namespace {

constexpr size_t kLeastWidth = 40;
constexpr size_t kLeastHeight = 14;
constexpr size_t kTextWidth = 1000;
constexpr size_t kGap = 2;
constexpr size_t kPage = 10;
constexpr size_t kMostFilter = 60;
// A column that is cut rather than left out has at least as much.
constexpr size_t kLeastCut = 10;
// Lines beside the rows of the two tables: three of totals, one for what is
// wrong, title and header of each table, one between them; and one of keys.
constexpr size_t kOtherLines = 9;

template <class Row>
struct Column {
  const char* header;  // ">COUNT": to the right
  // The columns with the lowest ones are shown where there is no room for all.
  int rank;
  std::string (*text)(const Row&);
  // What it is sorted by: numbers from high to low, words from a to z; null: by
  // the words.
  double (*number)(const Row&) = nullptr;

  bool right() const { return *header == '>'; }
  std::string name() const { return header + (right() ? 1 : 0); }
};

template <class T>
std::string OrDash(const std::optional<T>& value, std::string (*text)(T)) {
  return value ? text(*value) : "-";
}
template <class T>
double OrLeast(const std::optional<T>& value) {
  return value ? static_cast<double>(*value) : -1;
}
std::string Ns(const std::optional<uint64_t>& ns) {
  return ns ? FormatNanoseconds(*ns) : "-";
}
template <class T>
std::string Count(const std::optional<T>& count) {
  return count ? FormatCount(*count) : "-";
}

const Column<Process> kProcessColumns[] = {
    {"PROCESS", 1, [](const Process& row) { return row.name; }},
    {"KIND", 6, [](const Process& row) { return row.kind; }},
    {"STATE", 2, [](const Process& row) { return row.state; }},
    {">PID", 7, [](const Process& row) { return std::to_string(row.pid); },
     [](const Process& row) -> double { return row.pid; }},
    {">CPU%", 3,
     [](const Process& row) {
       return row.cores ? fmt::format("{:.1f}", *row.cores * 100) : "-";
     },
     [](const Process& row) { return OrLeast(row.cores); }},
    {">MEMORY", 8,
     [](const Process& row) {
       return row.resident_bytes ? FormatBytes(*row.resident_bytes) : "-";
     },
     [](const Process& row) { return OrLeast(row.resident_bytes); }},
    {">PEAK", 5, [](const Process& row) { return Count(row.peak); },
     [](const Process& row) { return OrLeast(row.peak); }},
    {">RATE", 4,
     [](const Process& row) { return FormatRate(row.events_per_s); },
     [](const Process& row) { return OrLeast(row.events_per_s); }},
    {">SILENT", 9,
     [](const Process& row) {
       return row.silent_ns == 0 ? "-" : FormatAge(row.silent_ns);
     },
     [](const Process& row) { return static_cast<double>(row.silent_ns); }},
    {">RESTARTS", 10, [](const Process& row) { return Count(row.restarts); },
     [](const Process& row) { return OrLeast(row.restarts); }},
    {"NOTE", 11, [](const Process& row) { return row.note; }},
};

const Column<Event> kEventColumns[] = {
    {">EKT", 11, [](const Event& row) { return std::to_string(row.ekt_index); },
     [](const Event& row) -> double { return row.ekt_index; }},
    {"DEVICE", 1, [](const Event& row) { return row.device; }},
    {">EVENT", 12,
     [](const Event& row) { return std::to_string(row.event_id); },
     [](const Event& row) -> double { return row.event_id; }},
    {"KERNEL", 2, [](const Event& row) { return row.kernel; }},
    {">PRIO", 10, [](const Event& row) { return std::to_string(row.priority); },
     [](const Event& row) -> double { return row.priority; }},
    {">PENDING", 5,
     [](const Event& row) {
       return fmt::format("{}/{}", Count(row.pending), row.entries);
     },
     [](const Event& row) { return OrLeast(row.pending); }},
    {">PEAK", 4, [](const Event& row) { return Count(row.peak); },
     [](const Event& row) { return OrLeast(row.peak); }},
    {">RATE", 3, [](const Event& row) { return FormatRate(row.events_per_s); },
     [](const Event& row) { return OrLeast(row.events_per_s); }},
    {">MEAN", 7, [](const Event& row) { return Ns(row.mean_ns); },
     [](const Event& row) { return OrLeast(row.mean_ns); }},
    {">P50", 9, [](const Event& row) { return Ns(row.p50_ns); },
     [](const Event& row) { return OrLeast(row.p50_ns); }},
    {">P99", 6, [](const Event& row) { return Ns(row.p99_ns); },
     [](const Event& row) { return OrLeast(row.p99_ns); }},
    {">RUNG", 13, [](const Event& row) { return FormatCount(row.rung); },
     [](const Event& row) { return static_cast<double>(row.rung); }},
    {">DONE", 14, [](const Event& row) { return FormatCount(row.done); },
     [](const Event& row) { return static_cast<double>(row.done); }},
    {">FAILED", 8, [](const Event& row) { return FormatCount(row.failed); },
     [](const Event& row) { return static_cast<double>(row.failed); }},
    {">ABORTED", 15, [](const Event& row) { return FormatCount(row.aborted); },
     [](const Event& row) { return static_cast<double>(row.aborted); }},
    {"GRID", 17, [](const Event& row) { return row.grid; }},
    {"BLOCK", 18, [](const Event& row) { return row.block; }},
    {"PATH", 16, [](const Event& row) { return row.path; }},
};

bool Matches(const Process& row, const std::string& filter) {
  return fmt::format("{} {} {} {}", row.name, row.kind, row.state, row.note)
             .find(filter) != std::string::npos;
}
bool Matches(const Event& row, const std::string& filter) {
  return fmt::format("{} {} {}", row.device, row.kernel, row.path)
             .find(filter) != std::string::npos;
}

bool IsBad(const Process& row) { return row.bad; }
// A full ring: its device has to wait.
bool IsBad(const Event& row) {
  return row.entries != 0 && row.pending && *row.pending >= row.entries;
}

template <class Row>
std::vector<const Row*> Chosen(const std::vector<Row>& rows,
                               std::span<const Column<Row>> columns,
                               const std::string& filter, int sort,
                               bool reversed) {
  std::vector<const Row*> chosen;
  for (const Row& row : rows) {
    if (filter.empty() || Matches(row, filter)) chosen.push_back(&row);
  }
  if (sort >= 0) {
    const Column<Row>& by = columns[sort];
    std::ranges::stable_sort(chosen, [&](const Row* a, const Row* b) {
      return by.number != nullptr ? by.number(*a) > by.number(*b)
                                  : by.text(*a) < by.text(*b);
    });
  }
  if (reversed) std::ranges::reverse(chosen);
  return chosen;
}

std::string Clock(uint64_t time_ns) {
  return fmt::format(
      "{:%H:%M:%S}",
      fmt::localtime(static_cast<time_t>(time_ns / 1'000'000'000)));
}

// One character an SM: how many blocks it has.
std::string SmBlocks(const Figures& figures) {
  std::string text;
  for (const uint32_t blocks : figures.blocks_of_sm) {
    text += blocks == 0   ? '.'
            : blocks < 10 ? static_cast<char>('0' + blocks)
                          : '+';
  }
  return text;
}

}  // namespace

class Painter {
 public:
  Painter(const Figures& figures, Settings* settings, size_t width,
          size_t height)
      : figures_(figures), settings_(*settings), grid_(width, height) {}

  Grid Paint(bool keys) {
    if (keys &&
        (grid_.width() < kLeastWidth || grid_.height() < kLeastHeight)) {
      grid_.Put(0, 0, "too small:");
      grid_.Put(0, 1, fmt::format("{}x{} at least", kLeastWidth, kLeastHeight));
      return std::move(grid_);
    }
    PaintTotals(keys);
    const size_t rows = grid_.height() - kOtherLines - (keys ? 1 : 0);
    const size_t processes = figures_.processes.size();
    const size_t events = figures_.events.size();
    // Each has its half, and what the other one does not need.
    const size_t for_processes =
        std::min(processes, std::max(rows / 2, rows - std::min(rows, events)));
    PaintTable<Process>("PROCESSES", kProcessColumns, figures_.processes,
                        Settings::kProcesses, for_processes);
    ++y_;
    PaintTable<Event>("EVENT KERNELS", kEventColumns, figures_.events,
                      Settings::kEvents, rows - for_processes);
    if (keys) PaintKeys();
    return std::move(grid_);
  }

 private:
  void PaintTotals(bool keys) {
    const size_t left =
        grid_.Put(0, 0, fmt::format("carillon top: {}", figures_.testbed));
    const std::string right = fmt::format(
        "{}{}", settings_.paused_ ? "PAUSED  " : "", Clock(figures_.time_ns));
    grid_.Put(keys ? grid_.width() - right.size() : left + kGap, 0, right);
    grid_.Paint(0, Style::kReversed);
    grid_.Put(0, 1,
              fmt::format(
                  "events {}/s, {} in flight; {} rung, {} failed, {} "
                  "aborted",
                  FormatRate(figures_.events_per_s),
                  FormatCount(figures_.in_flight), FormatCount(figures_.rung),
                  FormatCount(figures_.failed), FormatCount(figures_.aborted)));
    grid_.Put(0, 2,
              fmt::format("GPU memory {}; policy {}; tracing {}; blocks {} {}",
                          FormatBytes(figures_.memory_used), figures_.policy,
                          figures_.tracing ? "on" : "off",
                          figures_.resident_blocks, SmBlocks(figures_)));
    grid_.Put(0, 3, figures_.notice, Style::kBad);
    y_ = 4;
  }

  template <class Row>
  void PaintTable(const char* title, std::span<const Column<Row>> columns,
                  const std::vector<Row>& all, int table, size_t lines) {
    Settings::Table& of = settings_.tables_[table];
    const auto rows =
        Chosen(all, columns, settings_.filter_, of.sort, of.reversed);
    of.scroll = std::min(of.scroll, rows.size() - std::min(rows.size(), lines));
    const size_t first = of.scroll;
    const size_t last = std::min(rows.size(), first + lines);
    PaintTitle(title, of, of.sort >= 0 ? columns[of.sort].name() : "", table,
               rows.size() == all.size() && last - first == rows.size()
                   ? ""
                   : fmt::format(" {} to {} of {}", first + (last > first),
                                 last, rows.size()));
    std::vector<size_t> widths;
    for (const Column<Row>& column : columns) {
      size_t width = column.name().size();
      for (const Row* row : rows) {
        width = std::max(width, DisplayWidth(column.text(*row)));
      }
      widths.push_back(width);
    }
    Leave<Row>(columns, &widths);
    PaintLine<Row>(columns, widths, Style::kBold, of.sort,
                   [](const Column<Row>& column) { return column.name(); });
    for (size_t i = first; i < first + lines; ++i) {
      if (i < last) {
        PaintLine<Row>(
            columns, widths, IsBad(*rows[i]) ? Style::kBad : Style::kPlain, -1,
            [&](const Column<Row>& column) { return column.text(*rows[i]); });
      } else {
        ++y_;
      }
    }
  }

  void PaintTitle(const std::string& title, const Settings::Table& of,
                  const std::string& sort, int table,
                  const std::string& which) {
    std::string text = title + which;
    if (!sort.empty()) text += fmt::format(", by {}", sort);
    if (of.reversed) text += ", reversed";
    if (!settings_.filter_.empty()) {
      text += fmt::format(", with '{}'", settings_.filter_);
    }
    grid_.Put(0, y_++, text,
              table == settings_.table_ ? Style::kReversed : Style::kPlain);
  }

  // Gives columns that have no room the width 0.
  template <class Row>
  void Leave(std::span<const Column<Row>> columns,
             std::vector<size_t>* widths) const {
    std::vector<size_t> order(columns.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, [&](size_t a, size_t b) {
      return columns[a].rank < columns[b].rank;
    });
    size_t used = 0;
    bool room = true;
    for (const size_t i : order) {
      size_t& width = (*widths)[i];
      const size_t gap = used == 0 ? 0 : kGap;
      const size_t left = grid_.width() - std::min(grid_.width(), used + gap);
      // Words are cut, numbers are not.
      if (width > left && left >= kLeastCut && !columns[i].right()) {
        width = left;
      }
      room &= width <= left;
      if (!room) width = 0;
      if (room) used += gap + width;
    }
  }

  template <class Row, class Text>
  void PaintLine(std::span<const Column<Row>> columns,
                 const std::vector<size_t>& widths, Style style, int sorted,
                 Text text_of) {
    size_t x = 0;
    for (size_t i = 0; i < columns.size(); ++i) {
      if (widths[i] == 0) continue;
      const std::string text = text_of(columns[i]);
      const size_t width = std::min(DisplayWidth(text), widths[i]);
      Grid cut(widths[i], 1);
      cut.Put(columns[i].right() ? widths[i] - width : 0, 0, text);
      for (size_t j = 0; j < widths[i]; ++j) {
        grid_.Put(x + j, y_, cut.At(j, 0).character,
                  sorted == static_cast<int>(i) ? Style::kReversed : style);
      }
      x += widths[i] + kGap;
    }
    ++y_;
  }

  void PaintKeys() {
    const size_t y = grid_.height() - 1;
    if (settings_.typing_) {
      grid_.Put(0, y,
                fmt::format("filter: {}_  (Enter keeps it, Esc drops it)",
                            settings_.filter_));
    } else {
      grid_.Put(0, y,
                "q quit  space pause  / filter  tab table  s sort  r reverse  "
                "arrows scroll");
    }
    grid_.Paint(y, Style::kBold);
  }

  const Figures& figures_;
  Settings& settings_;
  Grid grid_;
  size_t y_ = 0;
};

bool Settings::Press(int key) {
  Table& table = tables_[table_];
  if (typing_) {
    if (key == '\n' || key == '\r') {
      typing_ = false;
    } else if (key == kEscape) {
      typing_ = false;
      filter_.clear();
    } else if (key == kBackspace) {
      if (!filter_.empty()) filter_.pop_back();
    } else if (key >= ' ' && key < 0x7f && filter_.size() < kMostFilter) {
      filter_ += static_cast<char>(key);
    }
    return true;
  }
  const int columns = table_ == kProcesses
                          ? static_cast<int>(std::size(kProcessColumns))
                          : static_cast<int>(std::size(kEventColumns));
  switch (key) {
    case 'q':
      return false;
    case ' ':
      paused_ = !paused_;
      break;
    case '/':
      typing_ = true;
      filter_.clear();
      break;
    case kEscape:
      filter_.clear();
      break;
    case '\t':
      table_ = (table_ + 1) % kTables;
      break;
    case 's':
      table.sort = table.sort + 1 == columns ? -1 : table.sort + 1;
      break;
    case 'r':
      table.reversed = !table.reversed;
      break;
    case kUp:
      table.scroll -= std::min<size_t>(table.scroll, 1);
      break;
    case kDown:
      ++table.scroll;
      break;
    case kPageUp:
      table.scroll -= std::min(table.scroll, kPage);
      break;
    case kPageDown:
      table.scroll += kPage;
      break;
  }
  return true;
}

Grid Draw(const Figures& figures, Settings* settings, size_t width,
          size_t height) {
  return Painter(figures, settings, width, height).Paint(/*keys=*/true);
}

std::string DrawText(const Figures& figures) {
  Settings settings;
  const size_t height =
      kOtherLines + figures.processes.size() + figures.events.size();
  return Painter(figures, &settings, kTextWidth, height)
      .Paint(/*keys=*/false)
      .ToText();
}

}  // namespace carillon::cli::top
