#include <algorithm>

#include "fmt/format.h"
#include "kernels/background/bfs.cuh"
#include "kernels/background/edge_references.h"
#include "kernels/background/kmn.cuh"
#include "kernels/background/sc.cuh"
#include "sim/experiments/workloads/backgrounds.h"
#include "sim/experiments/workloads/compare.h"

namespace carillon::sim::figures {
namespace {

namespace reference = kernels::reference;

// Nodes of Rodinia's graphs have 6 edges in the mean.
constexpr uint32_t kMinEdges = 2;
constexpr uint32_t kMaxEdges = 10;

class Bfs final : public Background {
 public:
  Bfs(uint32_t nodes, Kernels* kernels)
      : Background("BFS", fmt::format("graph of {} nodes", nodes), kernels),
        nodes_(kernels->Allocate<kernels::BfsNode>(nodes, "BFS nodes")),
        edges_(kernels->Allocate<uint32_t>(nodes * kMaxEdges, "BFS edges")),
        frontier_(kernels->Allocate<uint8_t>(nodes, "BFS frontier")),
        reached_(kernels->Allocate<uint8_t>(nodes, "BFS reached")),
        visited_(kernels->Allocate<uint8_t>(nodes, "BFS visited")),
        over_(kernels->Allocate<uint8_t>(1, "BFS over")),
        cost_(kernels->Allocate<uint32_t>(nodes, "BFS cost")) {}

  // After each level the host looks at `over`.
  std::optional<Launch> Next() override {
    const bool commit = step_ % 2 == 1;
    if (!commit && step_ > 0 && over_.values[0] == 0) return std::nullopt;
    ++step_;
    const Dim3 grid = GridFor(static_cast<uint32_t>(nodes_.values.size()),
                              kernels::kBfsBlock);
    const Dim3 block{kernels::kBfsBlock, 1, 1};
    if (commit) {
      return Make(kernels::bfs_commit_info, grid, block,
                  kernels::BfsCommitArgs{frontier_.span(), reached_.span(),
                                         visited_.span(), over_.span()});
    }
    over_.values[0] = 0;
    return Make(kernels::bfs_expand_info, grid, block,
                kernels::BfsExpandArgs{nodes_.read_only(), edges_.read_only(),
                                       frontier_.span(), reached_.span(),
                                       visited_.read_only(), cost_.span()});
  }

 private:
  void Fill(std::mt19937& random) override {
    const auto count = static_cast<uint32_t>(nodes_.values.size());
    uint32_t edge = 0;
    for (kernels::BfsNode& node : nodes_.values) {
      node.first_edge = edge;
      node.edge_count = kMinEdges + random() % (kMaxEdges - kMinEdges + 1);
      edge += node.edge_count;
    }
    for (uint32_t& target : edges_.values) target = random() % count;
    for (const Array<uint8_t>* flags : {&frontier_, &reached_, &visited_}) {
      std::ranges::fill(flags->values, 0);
    }
    std::ranges::fill(cost_.values, reference::kUnreached);
    frontier_.values[0] = visited_.values[0] = 1;
    cost_.values[0] = 0;
  }
  absl::Status CheckOutput() const override {
    return Compare("BFS: cost", cost_.values,
                   reference::BfsDistances(nodes_.values, edges_.values, 0));
  }

  const Array<kernels::BfsNode> nodes_;
  const Array<uint32_t> edges_;
  const Array<uint8_t> frontier_, reached_, visited_, over_;
  const Array<uint32_t> cost_;
};

class Kmn final : public Background {
 public:
  Kmn(uint32_t points, uint32_t features, uint32_t clusters, Kernels* kernels)
      : Background("KMN",
                   fmt::format("{} points of {} features, {} clusters", points,
                               features, clusters),
                   kernels),
        features_(features),
        clusters_(clusters),
        by_point_(kernels->Allocate<float>(points * features, "KMN points")),
        by_feature_(
            kernels->Allocate<float>(points * features, "KMN features")),
        centres_(kernels->Allocate<float>(clusters * features, "KMN centres")),
        membership_(kernels->Allocate<uint32_t>(points, "KMN membership")) {}

  std::optional<Launch> Next() override {
    const auto points = static_cast<uint32_t>(membership_.values.size());
    const Dim3 grid = GridFor(points, kernels::kKmnBlock);
    const Dim3 block{kernels::kKmnBlock, 1, 1};
    switch (step_++) {
      case 0:
        return Make(
            kernels::kmn_invert_info, grid, block,
            kernels::KmnInvertArgs{by_point_.read_only(), by_feature_.span(),
                                   points, features_});
      case 1:
        return Make(kernels::kmn_point_info, grid, block,
                    kernels::KmnPointArgs{
                        by_feature_.read_only(), centres_.read_only(),
                        membership_.span(), points, features_, clusters_});
      default:
        return std::nullopt;
    }
  }

 private:
  void Fill(std::mt19937& random) override {
    // Whole numbers make distances exact.
    for (float& x : by_point_.values) x = static_cast<float>(random() % 64);
    for (float& x : centres_.values) x = static_cast<float>(random() % 64);
    std::ranges::fill(by_feature_.values, -1.0f);
    std::ranges::fill(membership_.values, 77);
  }
  absl::Status CheckOutput() const override {
    return Compare(
        "KMN: centre of point", membership_.values,
        reference::KmnNearest(by_point_.values, centres_.values, features_));
  }

  const uint32_t features_, clusters_;
  const Array<float> by_point_, by_feature_, centres_;
  const Array<uint32_t> membership_;
};

class Sc final : public Background {
 public:
  Sc(uint32_t points, uint32_t dimensions, uint32_t centres, Kernels* kernels)
      : Background("SC",
                   fmt::format("{} points of {} dimensions, {} centres", points,
                               dimensions, centres),
                   kernels),
        dimensions_(dimensions),
        centres_(centres),
        points_(kernels->Allocate<kernels::ScPoint>(points, "SC points")),
        coordinates_(kernels->Allocate<float>(size_t{points} * dimensions,
                                              "SC coordinates")),
        table_(kernels->Allocate<uint32_t>(points, "SC centre table")),
        gains_(kernels->Allocate<float>(points * (centres + 1), "SC gains")),
        switches_(kernels->Allocate<uint8_t>(points, "SC switches")) {}

  std::optional<Launch> Next() override {
    if (step_++ != 0) return std::nullopt;
    return Make(
        kernels::sc_info,
        GridFor(static_cast<uint32_t>(points_.values.size()),
                kernels::kScBlock),
        {kernels::kScBlock, 1, 1},
        kernels::ScArgs{points_.read_only(), coordinates_.read_only(),
                        table_.read_only(), gains_.span(), switches_.span(),
                        dimensions_, centres_, candidate_});
  }

 private:
  void Fill(std::mt19937& random) override {
    const auto count = static_cast<uint32_t>(points_.values.size());
    for (float& x : coordinates_.values) x = static_cast<float>(random() % 8);
    std::ranges::fill(table_.values, reference::kUnreached);
    std::vector<uint32_t> open;
    while (open.size() < centres_) {
      const uint32_t point = random() % count;
      if (table_.values[point] != reference::kUnreached) continue;
      table_.values[point] = static_cast<uint32_t>(open.size());
      open.push_back(point);
    }
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t centre = open[random() % centres_];
      const float weight = static_cast<float>(1 + random() % 3);
      const float distance =
          reference::ScDistance(coordinates_.values, dimensions_, i, centre);
      points_.values[i] = {weight, weight * distance, centre};
    }
    for (float& x : gains_.values) x = static_cast<float>(random() % 16);
    std::ranges::fill(switches_.values, 0);
    candidate_ = random() % count;
    old_gains_.assign(gains_.values.begin(), gains_.values.end());
  }
  absl::Status CheckOutput() const override {
    const reference::ScResult expected =
        reference::ScGains(points_.values, coordinates_.values, table_.values,
                           old_gains_, dimensions_, centres_, candidate_);
    absl::Status status =
        Compare("SC: switch", switches_.values, expected.switches);
    status.Update(Compare("SC: gain", gains_.values, expected.gains));
    return status;
  }

  const uint32_t dimensions_, centres_;
  const Array<kernels::ScPoint> points_;
  const Array<float> coordinates_;
  const Array<uint32_t> table_;
  const Array<float> gains_;
  const Array<uint8_t> switches_;
  uint32_t candidate_ = 0;
  std::vector<float> old_gains_;
};

}  // namespace

std::unique_ptr<Background> MakeBfs(Size size, Kernels* kernels) {
  return std::make_unique<Bfs>(size == Size::kFull ? 65536 : 1500, kernels);
}

// kdd_cup's features and Rodinia's clusters, with a part of its 494,020 points.
std::unique_ptr<Background> MakeKmn(Size size, Kernels* kernels) {
  return size == Size::kFull ? std::make_unique<Kmn>(65536, 34, 5, kernels)
                             : std::make_unique<Kmn>(1000, 7, 3, kernels);
}

std::unique_ptr<Background> MakeSc(Size size, Kernels* kernels) {
  return size == Size::kFull ? std::make_unique<Sc>(65536, 256, 10, kernels)
                             : std::make_unique<Sc>(1100, 6, 3, kernels);
}

}  // namespace carillon::sim::figures
