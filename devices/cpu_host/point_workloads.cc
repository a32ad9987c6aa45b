// Graphs and clusters: bfs_frontier, kmn, sc.
#include <algorithm>
#include <atomic>

#include "base/status.h"
#include "devices/cpu_host/array_workload.h"
#include "kernels/background/edge_references.h"

namespace carillon::cpu_host {
namespace {

namespace reference = kernels::reference;
using kernels::BfsNode;
using kernels::ScPoint;

// Breadth-first search with two launches a level: one reaches nodes, the other
// makes them the next frontier.
class BfsFrontier final : public ArrayWorkload {
 public:
  explicit BfsFrontier(const WorkloadOptions& options)
      : ArrayWorkload("bfs_expand", GridFor(options), {kBlock, 1, 1}, options) {
    AddInput<BfsNode>("nodes", options.size);
    AddInput<uint32_t>("edges", uint64_t{options.size} * kMaxEdges);
    AddState<uint8_t>("frontier", options.size);
    AddState<uint8_t>("reached", options.size);
    AddState<uint8_t>("visited", options.size);
    AddState<uint32_t>("cost", options.size);
    AddLaunch("bfs_commit", GridFor(options), {kBlock, 1, 1});
    AddState<uint8_t>("over", 1);
    Use("frontier", kFrontier);
    Use("reached", kReached);
    Use("visited", kVisited);
  }

 private:
  enum : size_t { kNodes, kEdges, kFrontier, kReached, kVisited, kCost, kOver };
  static constexpr uint32_t kBlock = 512;
  static constexpr uint32_t kMinEdges = 2;
  static constexpr uint32_t kMaxEdges = 10;

  static edge::Dim3 GridFor(const WorkloadOptions& options) {
    return {(options.size + kBlock - 1) / kBlock, 1, 1};
  }
  absl::Status RunLaunches(edge::Device& device, RunFigures* figures) override {
    // Bounded: a kernel that always reaches a node must not keep us here.
    for (size_t level = 0; level <= input<BfsNode>(kNodes).size(); ++level) {
      RETURN_IF_ERROR(Reset(kOver, device, figures));
      RETURN_IF_ERROR(ArrayWorkload::RunLaunches(device, figures));
      // Written by bfs_commit, which has ended.
      if (output<uint8_t>(kOver)[0] == 0) break;
    }
    return absl::OkStatus();
  }
  void Fill(std::mt19937& random) override {
    const std::span<BfsNode> nodes = input<BfsNode>(kNodes);
    uint32_t edge = 0;
    for (BfsNode& node : nodes) {
      node.first_edge = edge;
      node.edge_count = kMinEdges + random() % (kMaxEdges - kMinEdges + 1);
      edge += node.edge_count;
    }
    for (uint32_t& target : input<uint32_t>(kEdges)) {
      target = static_cast<uint32_t>(random() % nodes.size());
    }
    for (const size_t flags : {kFrontier, kReached, kVisited}) {
      std::ranges::fill(input<uint8_t>(flags), 0);
    }
    std::ranges::fill(input<uint32_t>(kCost), reference::kUnreached);
    input<uint8_t>(kFrontier)[0] = input<uint8_t>(kVisited)[0] = 1;
    input<uint32_t>(kCost)[0] = 0;
    input<uint8_t>(kOver)[0] = 0;
  }
  std::vector<double> Expected(
      size_t array, std::span<const uint64_t> places) const override {
    if (array != kCost) return {};
    return At(reference::BfsDistances(input<BfsNode>(kNodes),
                                      input<uint32_t>(kEdges), 0),
              places);
  }
  double tolerance() const override { return 0; }
};

// K-means: the features one by one, then the nearest centre of each point.
class Kmn final : public ArrayWorkload {
 public:
  explicit Kmn(const WorkloadOptions& options)
      : ArrayWorkload("kmn_invert", GridFor(options), {kBlock, 1, 1}, options) {
    AddInput<float>("by_point", uint64_t{options.size} * kFeatures);
    AddScratch<float>("by_feature", uint64_t{options.size} * kFeatures);
    AddConstant(edge::Constant("points", options.size));
    AddConstant(edge::Constant("features", kFeatures));
    AddLaunch("kmn_point", GridFor(options), {kBlock, 1, 1});
    AddInput<float>("centres", kClusters * kFeatures);
    AddOutput<uint32_t>("membership", options.size);
    Use("by_feature", kByFeature);
    AddConstant(edge::Constant("points", options.size));
    AddConstant(edge::Constant("features", kFeatures));
    AddConstant(edge::Constant("clusters", kClusters));
  }

 private:
  enum : size_t { kByPoint, kByFeature, kCentres };
  static constexpr uint32_t kBlock = 256;
  // As Rodinia has them.
  static constexpr uint32_t kFeatures = 34;
  static constexpr uint32_t kClusters = 5;

  static edge::Dim3 GridFor(const WorkloadOptions& options) {
    return {(options.size + kBlock - 1) / kBlock, 1, 1};
  }
  // Whole numbers make distances exact.
  void Fill(std::mt19937& random) override {
    for (const size_t array : {kByPoint, kCentres}) {
      for (float& x : input<float>(array)) {
        x = static_cast<float>(random() % 64);
      }
    }
  }
  std::vector<double> Expected(
      size_t, std::span<const uint64_t> places) const override {
    return At(reference::KmnNearest(input<float>(kByPoint),
                                    input<float>(kCentres), kFeatures),
              places);
  }
  double tolerance() const override { return 0; }
};

// Streamcluster: what it gains to open one more centre.
class Sc final : public ArrayWorkload {
 public:
  explicit Sc(const WorkloadOptions& options)
      : ArrayWorkload("sc", {(options.size + kBlock - 1) / kBlock, 1, 1},
                      {kBlock, 1, 1}, options),
        count_(options.size),
        centres_(std::min(kMaxCentres, count_)) {
    AddInput<ScPoint>("points", count_);
    AddInput<float>("coordinates", uint64_t{count_} * kDimensions);
    AddInput<uint32_t>("centre_table", count_);
    AddState<float>("gains", uint64_t{count_} * (centres_ + 1));
    AddState<uint8_t>("switches", count_);
    AddConstant(edge::Constant("dimensions", kDimensions));
    AddConstant(edge::Constant("centres", centres_));
    AddConstant(edge::Constant("candidate", count_ / 2));
  }

 private:
  enum : size_t { kPoints, kCoordinates, kTable, kGains, kSwitches };
  static constexpr uint32_t kBlock = 512;
  static constexpr uint32_t kDimensions = 16;
  static constexpr uint32_t kMaxCentres = 10;

  void Fill(std::mt19937& random) override {
    const std::span<float> coordinates = input<float>(kCoordinates);
    for (float& x : coordinates) x = static_cast<float>(random() % 8);
    const std::span<uint32_t> table = input<uint32_t>(kTable);
    std::ranges::fill(table, reference::kUnreached);
    std::vector<uint32_t> open;
    while (open.size() < centres_) {
      const auto point = static_cast<uint32_t>(random() % count_);
      if (table[point] != reference::kUnreached) continue;
      table[point] = static_cast<uint32_t>(open.size());
      open.push_back(point);
    }
    const std::span<ScPoint> points = input<ScPoint>(kPoints);
    for (uint32_t i = 0; i < count_; ++i) {
      const uint32_t centre = open[random() % centres_];
      const float weight = static_cast<float>(1 + random() % 3);
      points[i] = {
          weight,
          weight * reference::ScDistance(coordinates, kDimensions, i, centre),
          centre};
    }
    for (float& x : input<float>(kGains)) x = static_cast<float>(random() % 16);
    std::ranges::fill(input<uint8_t>(kSwitches), 0);
  }
  std::vector<double> Expected(
      size_t array, std::span<const uint64_t> places) const override {
    const reference::ScResult result =
        reference::ScGains(input<ScPoint>(kPoints), input<float>(kCoordinates),
                           input<uint32_t>(kTable), input<float>(kGains),
                           kDimensions, centres_, count_ / 2);
    return array == kGains ? At(result.gains, places)
                           : At(result.switches, places);
  }
  double tolerance() const override { return 0; }

  const uint32_t count_;
  const uint32_t centres_;
};

}  // namespace

std::unique_ptr<Workload> MakeBfsFrontier(const WorkloadOptions& options) {
  return std::make_unique<BfsFrontier>(options);
}
std::unique_ptr<Workload> MakeKmn(const WorkloadOptions& options) {
  return std::make_unique<Kmn>(options);
}
std::unique_ptr<Workload> MakeSc(const WorkloadOptions& options) {
  return std::make_unique<Sc>(options);
}

}  // namespace carillon::cpu_host
