#include "kernels/background/bfs.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/background/edge_references.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::Dim3;
using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

const Dim3 kBlock{512, 1, 1};

struct Search {
  explicit Search(const std::vector<std::vector<uint32_t>>& neighbours)
      : frontier(neighbours.size()),
        reached(neighbours.size()),
        visited(neighbours.size()),
        cost(neighbours.size(), reference::kUnreached) {
    for (const std::vector<uint32_t>& targets : neighbours) {
      nodes.push_back({static_cast<uint32_t>(edges.size()),
                       static_cast<uint32_t>(targets.size())});
      edges.insert(edges.end(), targets.begin(), targets.end());
    }
  }
  BfsExpandArgs expand() {
    return {ReadOnly(nodes),   ReadOnly(edges),   Writable(frontier),
            Writable(reached), ReadOnly(visited), Writable(cost)};
  }
  BfsCommitArgs commit() {
    return {Writable(frontier), Writable(reached), Writable(visited),
            Writable(over)};
  }
  Dim3 grid() const {
    return {static_cast<uint32_t>((nodes.size() + 511) / 512), 1, 1};
  }

  std::vector<BfsNode> nodes;
  std::vector<uint32_t> edges;
  std::vector<uint8_t> frontier, reached, visited;
  std::vector<uint32_t> cost;
  std::vector<uint8_t> over = {0};
};

TEST(FigBfs, GivesEveryNodeItsDistance) {
  std::mt19937 random(5);
  for (const uint32_t count : {1u, 511u, 512u, 513u, 3000u}) {
    std::vector<std::vector<uint32_t>> neighbours(count);
    for (std::vector<uint32_t>& targets : neighbours) {
      // About a third of the nodes stay out of reach.
      for (uint32_t n = random() % 3; n > 0; --n) {
        targets.push_back(random() % count);
      }
    }
    Search search(neighbours);
    search.frontier[0] = search.visited[0] = 1;
    search.cost[0] = 0;
    uint32_t levels = 0;
    do {
      search.over[0] = 0;
      ASSERT_EQ(RunGrid(bfs_expand_info, search.grid(), kBlock, search.expand(),
                        {.workers = 2})
                    .status,
                simt::kFailNone);
      ASSERT_EQ(RunGrid(bfs_commit_info, search.grid(), kBlock, search.commit(),
                        {.workers = 2})
                    .status,
                simt::kFailNone);
      ASSERT_LE(++levels, count);
    } while (search.over[0] != 0);

    EXPECT_EQ(search.cost,
              reference::BfsDistances(search.nodes, search.edges, 0))
        << count;
    EXPECT_EQ(search.frontier, std::vector<uint8_t>(count));
  }
}

TEST(FigBfs, AGraphThatLeavesItselfFails) {
  const std::vector<std::vector<uint32_t>> chain = {{1}, {2}, {0}};
  for (int wrong = 0; wrong < 4; ++wrong) {
    Search search(chain);
    search.frontier[1] = 1;
    if (wrong == 0) search.edges[1] = 3;
    if (wrong == 1) search.nodes[1] = {3, 1};
    if (wrong == 2) search.nodes[1] = {1, 3};
    if (wrong == 3) search.nodes[1] = {0xffffffff, 0xffffffff};
    EXPECT_EQ(
        RunGrid(bfs_expand_info, {1, 1, 1}, kBlock, search.expand()).status,
        kBfsBadEdges)
        << wrong;
    EXPECT_EQ(search.reached, std::vector<uint8_t>(3)) << wrong;
  }
}

TEST(FigBfs, ArgumentsThatDoNotFitFailAndTouchNothing) {
  Search search({{1}, {2}, {0}});
  search.frontier[0] = 1;
  search.reached[2] = 1;
  const BfsExpandArgs expand = search.expand();
  const BfsCommitArgs commit = search.commit();
  std::vector<BfsExpandArgs> bad_expand(4, expand);
  bad_expand[0].frontier.size = 2;
  bad_expand[1].reached.size = 2;
  bad_expand[2].visited.size = 2;
  bad_expand[3].cost.size = 2;
  std::vector<BfsCommitArgs> bad_commit(3, commit);
  bad_commit[0].frontier.size = 2;
  bad_commit[1].visited.size = 2;
  bad_commit[2].over.size = 0;
  const Dim3 grid{1, 1, 1};
  for (const BfsExpandArgs& bad : bad_expand) {
    EXPECT_EQ(RunGrid(bfs_expand_info, grid, kBlock, bad).status,
              simt::kFailBadArguments);
    EXPECT_NE(bfs_expand_info.validate({grid, kBlock}, &bad), nullptr);
  }
  for (const BfsCommitArgs& bad : bad_commit) {
    EXPECT_EQ(RunGrid(bfs_commit_info, grid, kBlock, bad).status,
              simt::kFailBadArguments);
    EXPECT_NE(bfs_commit_info.validate({grid, kBlock}, &bad), nullptr);
  }
  const Dim3 narrow{256, 1, 1};
  EXPECT_EQ(RunGrid(bfs_expand_info, grid, narrow, expand).status,
            simt::kFailBadShape);
  EXPECT_EQ(RunGrid(bfs_commit_info, grid, narrow, commit).status,
            simt::kFailBadShape);
  EXPECT_NE(bfs_expand_info.check_shape({grid, narrow}), nullptr);
  EXPECT_NE(bfs_commit_info.check_shape({grid, narrow}), nullptr);
  EXPECT_EQ(search.frontier, (std::vector<uint8_t>{1, 0, 0}));
  EXPECT_EQ(search.reached, (std::vector<uint8_t>{0, 0, 1}));
  EXPECT_EQ(bfs_expand_info.validate({grid, kBlock}, &expand), nullptr);
  EXPECT_EQ(bfs_commit_info.validate({grid, kBlock}, &commit), nullptr);
}

}  // namespace
}  // namespace carillon::kernels
