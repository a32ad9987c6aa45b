#include "devices/cpu_host/graph.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace carillon::cpu_host {
namespace {

TEST(GraphTest, BreadthFirstFindsTheShortestDistances) {
  // 0 -> 1 -> 2 -> 3, a shortcut 0 -> 2, a way back 3 -> 0, and 4 out of reach.
  const Graph graph{.rows = {0, 2, 3, 4, 5, 6}, .columns = {1, 2, 2, 3, 0, 0}};
  EXPECT_EQ(BreadthFirst(graph, 0),
            (std::vector<uint32_t>{0, 1, 1, 2, kUnvisited}));
  EXPECT_EQ(BreadthFirst(graph, 3),
            (std::vector<uint32_t>{1, 2, 2, 0, kUnvisited}));
  EXPECT_EQ(BreadthFirst(graph, 4), (std::vector<uint32_t>{1, 2, 2, 3, 0}));
}

TEST(GraphTest, RandomGraphsAreWellFormedAndOfTheSizeAskedFor) {
  for (const uint32_t vertices : {1u, 2u, 1000u}) {
    const Graph graph = RandomGraph(vertices, 8, 1);
    EXPECT_EQ(graph.vertices(), vertices);
    EXPECT_EQ(graph.rows.front(), 0u);
    EXPECT_EQ(graph.rows.back(), graph.columns.size());
    EXPECT_TRUE(std::is_sorted(graph.rows.begin(), graph.rows.end()));
    for (const uint32_t column : graph.columns) EXPECT_LT(column, vertices);
  }
  EXPECT_NEAR(static_cast<double>(RandomGraph(1000, 8, 1).columns.size()), 8000,
              800);
}

TEST(GraphTest, TheSeedDecidesTheGraph) {
  // Exactly this graph on every machine, so that results can be compared.
  EXPECT_EQ(RandomGraph(4, 2, 7).columns, RandomGraph(4, 2, 7).columns);
  EXPECT_NE(RandomGraph(100, 2, 7).columns, RandomGraph(100, 2, 8).columns);
}

TEST(GraphTest, ASearchOfARandomGraphHasManyLevelsAndUnreachedVertices) {
  const std::vector<uint32_t> levels =
      BreadthFirst(RandomGraph(20000, 4, 1), 0);
  EXPECT_GT(std::count(levels.begin(), levels.end(), 4u), 0);
  EXPECT_GT(std::count(levels.begin(), levels.end(), kUnvisited), 0);
  EXPECT_LT(std::count(levels.begin(), levels.end(), kUnvisited), 2000);
}

}  // namespace
}  // namespace carillon::cpu_host
