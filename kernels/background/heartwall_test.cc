#include "kernels/background/heartwall.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "kernels/background/edge_references.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::Dim3;
using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

const Dim3 kBlock{256, 1, 1};

struct Film {
  Film(uint32_t of_width, uint32_t of_height, uint32_t of_size,
       uint32_t of_search)
      : width(of_width),
        height(of_height),
        size(of_size),
        search(of_search),
        frame(of_width * of_height) {
    std::mt19937 random(23);
    // Small integers: all sums are exact.
    for (float& x : frame) x = static_cast<float>(random() % 32);
  }
  reference::Picture picture() const { return {frame, width, height}; }
  // Adds a point whose template is cut around `from` in the frame.
  void AddPoint(HeartwallPlace was, HeartwallPlace from) {
    places.push_back(was);
    const int half = int(size) / 2;
    for (int y = -half; y <= half; ++y) {
      for (int x = -half; x <= half; ++x) {
        templates.push_back(picture().at(int(from.x) + x, int(from.y) + y));
      }
    }
    scores.push_back(-9);
    scratch.resize(places.size() * search * search);
  }
  HeartwallArgs args() {
    return {ReadOnly(frame),
            ReadOnly(templates),
            Writable(places),
            Writable(scores),
            Writable(scratch),
            width,
            height,
            size,
            search};
  }
  uint32_t Run() {
    return RunGrid(heartwall_info, {uint32_t(places.size()) + 1, 1, 1}, kBlock,
                   args(), {.workers = 2})
        .status;
  }

  uint32_t width, height, size, search;
  std::vector<float> frame, templates;
  std::vector<HeartwallPlace> places;
  std::vector<float> scores, scratch;
};

TEST(Heartwall, FindsWhatMoved) {
  for (const auto& [size, search] :
       {std::pair{9u, 11u}, std::pair{51u, 81u}, std::pair{3u, 21u}}) {
    Film film(200, 150, size, search);
    const uint32_t reach = search / 2;
    const HeartwallPlace was{100, 70};
    film.AddPoint(was, was);
    film.AddPoint(was, {was.x + reach, was.y - reach});
    film.AddPoint(was, {was.x - reach, was.y + reach});
    film.AddPoint(was, {was.x + 3, was.y + 4});
    // At the frame's corners.
    film.AddPoint({1, 2}, {0, 0});
    film.AddPoint({198, 149}, {199, 148});
    ASSERT_EQ(film.Run(), simt::kFailNone);
    const HeartwallPlace expected[] = {was,
                                       {was.x + reach, was.y - reach},
                                       {was.x - reach, was.y + reach},
                                       {was.x + 3, was.y + 4},
                                       {0, 0},
                                       {199, 148}};
    for (size_t i = 0; i < film.places.size(); ++i) {
      EXPECT_EQ(film.places[i].x, expected[i].x) << size << ": " << i;
      EXPECT_EQ(film.places[i].y, expected[i].y) << size << ": " << i;
      EXPECT_NEAR(film.scores[i], 1.0, 1e-4) << size << ": " << i;
    }
  }
}

TEST(Heartwall, TakesTheBestPlaceOfAll) {
  Film film(60, 50, 7, 9);
  std::mt19937 random(24);
  std::vector<HeartwallPlace> was;
  for (int i = 0; i < 20; ++i) {
    was.push_back({uint32_t(random() % 60), uint32_t(random() % 50)});
    film.AddPoint(was.back(), was.back());
  }
  // Templates that are nowhere in the frame.
  for (float& x : film.templates) x = static_cast<float>(random() % 32);
  ASSERT_EQ(film.Run(), simt::kFailNone);
  for (size_t i = 0; i < was.size(); ++i) {
    const reference::HeartwallMatch best = reference::HeartwallBest(
        film.picture(), std::span(film.templates).subspan(i * 49, 49), 7, 9,
        was[i]);
    EXPECT_NEAR(film.scores[i], best.score, 1e-4) << i;
    EXPECT_EQ(film.places[i].x, best.place.x) << i;
    EXPECT_EQ(film.places[i].y, best.place.y) << i;
  }
}

TEST(Heartwall, OfEqualPlacesItTakesTheFirst) {
  Film film(60, 50, 7, 9);
  constexpr float kPattern[7] = {3, 1, 4, 1, 5, 9, 2};
  for (uint32_t i = 0; i < 60 * 50; ++i) {
    film.frame[i] = kPattern[(i % 60 + 2 * (i / 60)) % 7];
  }
  film.AddPoint({30, 20}, {30, 20});
  ASSERT_EQ(film.Run(), simt::kFailNone);
  // The pattern repeats where dx + 2 dy is a multiple of 7, so also 4 to the
  // left.
  EXPECT_EQ(film.places[0].x, 31u);
  EXPECT_EQ(film.places[0].y, 16u);
}

TEST(Heartwall, WhereAllIsOfOneGreyItTakesTheFirstPlace) {
  Film film(60, 50, 7, 9);
  film.AddPoint({30, 20}, {30, 20});
  std::fill(film.frame.begin(), film.frame.end(), 5.0f);
  ASSERT_EQ(film.Run(), simt::kFailNone);
  EXPECT_EQ(film.scores[0], -1.0f);
  EXPECT_EQ(film.places[0].x, 26u);
  EXPECT_EQ(film.places[0].y, 16u);
}

TEST(Heartwall, ArgumentsThatDoNotFitFailAndTouchNothing) {
  Film film(40, 30, 5, 7);
  film.AddPoint({20, 20}, {20, 21});
  film.AddPoint({10, 10}, {10, 11});
  const HeartwallArgs good = film.args();
  std::vector<HeartwallArgs> bad(13, good);
  bad[0].frame.size -= 1;
  bad[1].templates.size -= 1;
  bad[2].scores.size -= 1;
  bad[3].scratch.size -= 1;
  bad[4].width = 0;
  bad[5].height = 0;
  bad[6].width = 0xffffffff;
  bad[7].height = 0xffffffff;
  bad[8].template_size = 4;
  bad[9].template_size = 53;
  bad[10].search_size = 6;
  bad[11].search_size = 83;
  bad[12].places.size = 3;
  const Dim3 grid{2, 1, 1};
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(heartwall_info, grid, kBlock, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(heartwall_info.validate({grid, kBlock}, &bad[i]), nullptr) << i;
  }
  for (const simt::LaunchShape& wrong :
       {simt::LaunchShape{grid, {128, 1, 1}},
        simt::LaunchShape{{2, 2, 1}, kBlock}}) {
    EXPECT_EQ(RunGrid(heartwall_info, wrong.grid, wrong.block, good).status,
              simt::kFailBadShape);
    EXPECT_NE(heartwall_info.check_shape(wrong), nullptr);
  }
  EXPECT_NE(heartwall_info.validate({{1, 1, 1}, kBlock}, &good), nullptr);
  EXPECT_EQ(heartwall_info.validate({grid, kBlock}, &good), nullptr);
  for (const HeartwallPlace& outside :
       {HeartwallPlace{40, 0}, HeartwallPlace{0, 30},
        HeartwallPlace{0xffffffff, 0xffffffff}}) {
    film.places[0] = outside;
    EXPECT_EQ(RunGrid(heartwall_info, {1, 1, 1}, kBlock, film.args()).status,
              kHeartwallBadPlace);
  }
  EXPECT_EQ(film.scores, (std::vector<float>{-9, -9}));
}

}  // namespace
}  // namespace carillon::kernels
