#include "kernels/bfs_level.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <queue>
#include <random>
#include <vector>

#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

struct Graph {
  std::vector<uint32_t> rows;
  std::vector<uint32_t> columns;
};

Graph RandomGraph(uint32_t vertices, uint32_t edges, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::vector<uint32_t>> neighbours(vertices);
  for (uint32_t i = 0; i < edges; ++i) {
    neighbours[random() % vertices].push_back(random() % vertices);
  }
  Graph graph{{0}, {}};
  for (const std::vector<uint32_t>& of_vertex : neighbours) {
    graph.columns.insert(graph.columns.end(), of_vertex.begin(),
                         of_vertex.end());
    graph.rows.push_back(static_cast<uint32_t>(graph.columns.size()));
  }
  return graph;
}

std::vector<uint32_t> Reference(const Graph& graph, uint32_t source) {
  std::vector<uint32_t> levels(graph.rows.size() - 1, kBfsUnvisited);
  std::queue<uint32_t> queue;
  levels[source] = 0;
  queue.push(source);
  while (!queue.empty()) {
    const uint32_t v = queue.front();
    queue.pop();
    for (uint32_t e = graph.rows[v]; e < graph.rows[v + 1]; ++e) {
      if (levels[graph.columns[e]] != kBfsUnvisited) continue;
      levels[graph.columns[e]] = levels[v] + 1;
      queue.push(graph.columns[e]);
    }
  }
  return levels;
}

TEST(BfsLevel, FindsTheDistanceOfEveryVertex) {
  for (const auto& [vertices, edges] :
       std::vector<std::pair<uint32_t, uint32_t>>{
           {1, 0}, {2, 5}, {100, 120}, {1000, 1500}, {5000, 40000}}) {
    const Graph graph = RandomGraph(vertices, edges, vertices);
    std::vector<uint32_t> levels(vertices, kBfsUnvisited);
    levels[vertices / 2] = 0;
    uint32_t launches = 0;
    for (bool more = true; more; ++launches) {
      ASSERT_LE(launches, vertices);
      std::vector<uint32_t> changed(1);
      const simt::GridResult result =
          RunGrid(bfs_level_info, {7, 1, 1}, {48, 1, 1},
                  BfsLevelArgs{ReadOnly(graph.rows), ReadOnly(graph.columns),
                               Writable(levels), Writable(changed), launches},
                  {.workers = 3});
      ASSERT_EQ(result.status, simt::kFailNone);
      more = changed[0] != 0;
    }
    EXPECT_EQ(levels, Reference(graph, vertices / 2)) << vertices;
  }
}

TEST(BfsLevel, ABrokenGraphFailsAndIsNotFollowed) {
  const auto run = [](std::vector<uint32_t> rows,
                      std::vector<uint32_t> columns) {
    std::vector<uint32_t> levels{0, kBfsUnvisited};
    std::vector<uint32_t> changed(1);
    return RunGrid(bfs_level_info, {}, {32, 1, 1},
                   BfsLevelArgs{ReadOnly(rows), ReadOnly(columns),
                                Writable(levels), Writable(changed), 0})
        .status;
  };
  EXPECT_EQ(run({0, 1, 1}, {1}), simt::kFailNone);
  EXPECT_EQ(run({0, 1, 1}, {2}), kBfsBadGraph);
  EXPECT_EQ(run({0, 2, 2}, {1}), kBfsBadGraph);
  EXPECT_EQ(run({1, 0, 0}, {1}), kBfsBadGraph);
  EXPECT_EQ(run({0, 1}, {1}), simt::kFailBadArguments);
  EXPECT_EQ(run({}, {}), simt::kFailBadArguments);
}

}  // namespace
}  // namespace carillon::kernels
