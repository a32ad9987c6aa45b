#include "tools/cli/top/screen.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace carillon::cli::top {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Figures SomeFigures(uint32_t devices = 3) {
  Figures figures = {.testbed = "lab",
                     .events_per_s = 1234.4,
                     .rung = 50000,
                     .failed = 3,
                     .aborted = 2,
                     .in_flight = 7,
                     .memory_used = 64 << 20,
                     .resident_blocks = 13,
                     .blocks_of_sm = {0, 3, 10},
                     .policy = "priority"};
  figures.processes.push_back(
      {.name = "gpud", .kind = "gpud", .state = "ready", .pid = 100});
  for (uint32_t i = 0; i < devices; ++i) {
    figures.processes.push_back({.name = fmt::format("nic{}", i),
                                 .kind = "nic",
                                 .state = "ready",
                                 .pid = 101 + i,
                                 .cores = 0.1 * i,
                                 .resident_bytes = 1024 * (i + 1),
                                 .restarts = 0,
                                 .peak = i,
                                 .events_per_s = 10.0 * i,
                                 .note = "udp 127.0.0.1:11211"});
    figures.events.push_back({.ekt_index = i,
                              .device = fmt::format("nic{}", i),
                              .kernel = "memc_get (get)",
                              .entries = 64,
                              .pending = i,
                              .peak = i,
                              .events_per_s = 10.0 * i,
                              .rung = 100,
                              .done = 100,
                              .path = "edge"});
  }
  return figures;
}

std::string Drawn(const Figures& figures, Settings* settings, size_t width = 80,
                  size_t height = 24) {
  const Grid grid = Draw(figures, settings, width, height);
  EXPECT_EQ(grid.width(), width);
  EXPECT_EQ(grid.height(), height);
  return grid.ToText();
}

// The line that has `part` in it.
std::string LineWith(const std::string& text, const std::string& part) {
  const size_t at = text.find(part);
  if (at == text.npos) return "";
  const size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

void PressAll(const std::string& keys, Settings* settings) {
  for (const char key : keys) EXPECT_TRUE(settings->Press(key)) << key;
}

TEST(TopScreen, ShowsTotalsProcessesAndEventKernels) {
  Settings settings;
  const std::string text = Drawn(SomeFigures(), &settings);
  EXPECT_THAT(text, HasSubstr("carillon top: lab"));
  EXPECT_THAT(text, HasSubstr("events 1,234/s, 7 in flight; 50,000 rung, 3 "
                              "failed, 2 aborted\n"));
  EXPECT_THAT(text,
              HasSubstr("GPU memory 64 MiB; policy priority; tracing off; "
                        "blocks 13 .3+\n"));
  EXPECT_EQ(LineWith(text, "PROCESS "),
            "PROCESS  KIND  STATE  PID  CPU%  MEMORY  PEAK  RATE  SILENT  "
            "RESTARTS");
  EXPECT_EQ(LineWith(text, "nic2     nic"),
            "nic2     nic   ready  103  20.0   3 KiB     2  20.0       -      "
            "   0");
  EXPECT_EQ(LineWith(text, "gpud     gpud"),
            "gpud     gpud  ready  100     -       -     -     -       -      "
            "   -");
  EXPECT_EQ(
      LineWith(text, "nic1    memc"),
      "  1  nic1    memc_get (get)     0     1/64     1  10.0     -    -   "
      " -       0");
  EXPECT_THAT(text, HasSubstr("q quit  space pause  / filter"));
}

// U+5199 takes two columns, U+0301 stands above the e.
TEST(TopScreen, WideAndCombinedCharactersKeepTheColumns) {
  Figures figures = SomeFigures();
  Settings settings;
  figures.events[1].kernel = "abc";
  const std::string plain = LineWith(Drawn(figures, &settings), "nic1    abc");
  ASSERT_THAT(plain, HasSubstr("abc  "));
  const std::string rest = plain.substr(plain.find("abc") + 3);
  for (const std::string same : {"\xe5\x86\x99x", "e\xcc\x81xx"}) {
    figures.events[1].kernel = same;
    EXPECT_EQ(LineWith(Drawn(figures, &settings), "nic1    " + same),
              "  1  nic1    " + same + rest);
  }
  Grid narrow(3, 1);
  EXPECT_EQ(narrow.Put(0, 0, "\xe5\x86\x99\xe5\x86\x99"), 4u);
  EXPECT_EQ(narrow.ToText(), "\xe5\x86\x99\n") << "half of one is not shown";
}

TEST(TopScreen, AWideOneHasAllColumns) {
  Settings settings;
  const std::string text = Drawn(SomeFigures(), &settings, 200, 60);
  EXPECT_EQ(LineWith(text, "PROCESS "),
            "PROCESS  KIND  STATE  PID  CPU%  MEMORY  PEAK  RATE  SILENT  "
            "RESTARTS  NOTE");
  EXPECT_THAT(LineWith(text, "EKT  "), HasSubstr("PATH"));
  EXPECT_THAT(LineWith(text, "EKT  "), HasSubstr("ABORTED  GRID  BLOCK"));
}

TEST(TopScreen, LatenciesThatAreNotThereAreNotInvented) {
  Figures figures = SomeFigures(1);
  Settings settings;
  EXPECT_THAT(LineWith(Drawn(figures, &settings), "memc"),
              HasSubstr("  -    -    -  "));
  figures.events[0].mean_ns = 1500;
  figures.events[0].p99_ns = 20000;
  EXPECT_THAT(LineWith(Drawn(figures, &settings), "memc"),
              HasSubstr("1.50 us    -  20.0 us"));
}

TEST(TopScreen, SortsByAnyColumnAndBackwards) {
  Figures figures = SomeFigures();
  Settings settings;
  const auto order = [&] {
    const std::string text = Drawn(figures, &settings, 200, 60);
    std::string found;
    const std::string rows = text.substr(text.find("EVENT KERNELS"));
    for (size_t at = rows.find("nic"); at != rows.npos;
         at = rows.find("nic", at + 1)) {
      found += rows[at + 3];
    }
    return found;
  };
  EXPECT_EQ(order(), "012");
  PressAll("s", &settings);
  EXPECT_EQ(order(), "210") << "EKT, from high to low";
  PressAll("s", &settings);
  EXPECT_EQ(order(), "012") << "DEVICE, from a to z";
  EXPECT_THAT(Drawn(figures, &settings),
              HasSubstr("EVENT KERNELS, by DEVICE\n"));
  PressAll("r", &settings);
  EXPECT_EQ(order(), "210");
  figures.events[1].events_per_s = 99;
  figures.events[2].events_per_s = std::nullopt;
  PressAll("rssssss", &settings);
  EXPECT_THAT(Drawn(figures, &settings), HasSubstr("by RATE\n"));
  EXPECT_EQ(order(), "102") << "what has no rate comes last";
  // The other table has an order of its own.
  EXPECT_THAT(Drawn(figures, &settings), HasSubstr("PROCESSES\n"));
  PressAll("\tssss", &settings);
  EXPECT_THAT(Drawn(figures, &settings), HasSubstr("PROCESSES, by PID\n"));
  for (int i = 0; i < 8; ++i) PressAll("s", &settings);
  EXPECT_THAT(Drawn(figures, &settings), HasSubstr("PROCESSES\n"));
}

TEST(TopScreen, FiltersWhileItIsTyped) {
  const Figures figures = SomeFigures();
  Settings settings;
  PressAll("/nicq", &settings);
  std::string text = Drawn(figures, &settings);
  EXPECT_THAT(text, HasSubstr("filter: nicq_"));
  EXPECT_THAT(text, Not(HasSubstr("memc_get")));
  EXPECT_TRUE(settings.Press(kBackspace));
  PressAll("1\n", &settings);
  text = Drawn(figures, &settings);
  EXPECT_THAT(text, HasSubstr("EVENT KERNELS 1 to 1 of 1, with 'nic1'"));
  EXPECT_THAT(text, HasSubstr("nic1    memc_get"));
  EXPECT_THAT(text, Not(HasSubstr("nic2")));
  EXPECT_THAT(text, Not(HasSubstr("gpud ")));
  EXPECT_THAT(text, HasSubstr("q quit"));
  EXPECT_TRUE(settings.Press(kEscape));
  EXPECT_THAT(Drawn(figures, &settings), HasSubstr("nic2"));
}

TEST(TopScreen, ScrollsToTheLastRowAndNoFurther) {
  const Figures figures = SomeFigures(30);
  Settings settings;
  std::string text = Drawn(figures, &settings);
  EXPECT_THAT(text, HasSubstr("PROCESSES 1 to 7 of 31"));
  EXPECT_THAT(text, HasSubstr("EVENT KERNELS 1 to 7 of 30"));
  for (int i = 0; i < 100; ++i) settings.Press(kPageDown);
  text = Drawn(figures, &settings);
  EXPECT_THAT(text, HasSubstr("EVENT KERNELS 24 to 30 of 30"));
  EXPECT_THAT(text, HasSubstr("PROCESSES 1 to 7 of 31"));
  settings.Press(kUp);
  EXPECT_THAT(Drawn(figures, &settings), HasSubstr("23 to 29 of 30"));
  // In a larger terminal there is nothing to scroll.
  EXPECT_THAT(Drawn(figures, &settings, 80, 90), Not(HasSubstr(" of 30")));
}

TEST(TopScreen, MarksWhatIsWrong) {
  Figures figures = SomeFigures();
  figures.notice = "gpud has gone";
  figures.processes[1].bad = true;
  figures.events[2].pending = 64;
  Settings settings;
  const Grid grid = Draw(figures, &settings, 80, 24);
  const auto style = [&](const std::string& part) {
    const std::string text = grid.ToText();
    const size_t at = text.find(part);
    EXPECT_NE(at, text.npos) << part << text;
    return grid.At(0, std::count(text.begin(), text.begin() + at, '\n')).style;
  };
  EXPECT_EQ(style("gpud has gone"), Style::kBad);
  EXPECT_EQ(style("nic0     nic"), Style::kBad);
  EXPECT_EQ(style("nic1     nic"), Style::kPlain);
  EXPECT_EQ(style("nic2    memc"), Style::kBad) << "a full ring";
  EXPECT_EQ(style("nic1    memc"), Style::kPlain);
  figures.events[1].pending.reset();
  EXPECT_EQ(
      LineWith(Drawn(figures, &settings), "nic1    memc"),
      "  1  nic1    memc_get (get)     0     -/64     1  10.0     -    -   "
      " -       0");
}

TEST(TopScreen, PauseAndQuitAreTold) {
  Settings settings;
  EXPECT_FALSE(settings.paused());
  PressAll(" ", &settings);
  EXPECT_TRUE(settings.paused());
  EXPECT_THAT(Drawn(SomeFigures(), &settings), HasSubstr("PAUSED  "));
  PressAll(" ", &settings);
  EXPECT_FALSE(settings.paused());
  EXPECT_FALSE(settings.Press('q'));
}

TEST(TopScreen, FitsAnySize) {
  const Figures figures = SomeFigures(30);
  for (const size_t width : {1, 39, 40, 57, 80, 300}) {
    for (const size_t height : {1, 2, 13, 14, 15, 24, 100}) {
      Settings settings;
      const std::string text = Drawn(figures, &settings, width, height);
      const bool small = width < 40 || height < 14;
      EXPECT_EQ(text.find("EVENT KERNELS") == text.npos, small)
          << width << "x" << height << "\n"
          << text;
    }
  }
  // Without figures, before the first picture has come.
  Settings settings;
  EXPECT_THAT(Drawn({}, &settings), HasSubstr("events -/s"));
}

TEST(TopScreen, AsTextHasAllRowsAndNoKeys) {
  const std::string text = DrawText(SomeFigures(40));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 9 + 41 + 40);
  EXPECT_THAT(text, ::testing::ContainsRegex("^carillon top: lab  ..:..:..\n"));
  EXPECT_THAT(text, HasSubstr("nic39    nic"));
  EXPECT_THAT(text, HasSubstr("nic39       0  memc_get (get)"));
  EXPECT_THAT(text, Not(HasSubstr("q quit")));
}

}  // namespace
}  // namespace carillon::cli::top
