// Breadth-first search with one launch per level, until a level reaches no
// vertex.
#include <atomic>
#include <cstring>
#include <vector>

#include "base/status.h"
#include "devices/cpu_host/graph.h"
#include "devices/cpu_host/workload.h"
#include "fmt/format.h"

namespace carillon::cpu_host {
namespace {

constexpr uint32_t kDegree = 8;
constexpr uint32_t kThreads = 256;
// Each level has a `changed` word of its own, and all are cleared at once, so
// levels proceed in steps of so many.
constexpr uint32_t kFlags = 64;

class Bfs : public Workload {
 public:
  explicit Bfs(const WorkloadOptions& options)
      : graph_(RandomGraph(options.size, kDegree, options.seed)),
        expected_(BreadthFirst(graph_, 0)),
        priority_(options.priority) {}

  uint64_t submission_bytes() const override {
    return 4 * (graph_.rows.size() + graph_.columns.size() + graph_.vertices() +
                kFlags) +
           shm::kPageSize;
  }
  uint64_t completion_bytes() const override {
    return 4 * (uint64_t{graph_.vertices()} + kFlags) + shm::kPageSize;
  }

  absl::Status Prepare(edge::Device& device) override {
    // A graph may have no edges, but a buffer cannot be empty.
    std::vector<uint32_t> columns = graph_.columns;
    if (columns.empty()) columns.push_back(0);
    std::vector<uint32_t> fresh(graph_.vertices(), kUnvisited);
    fresh[0] = 0;
    const auto rows = Upload(device, graph_.rows);
    const auto edges = Upload(device, columns);
    const auto start = Upload(device, fresh);
    const auto zeros = Upload(device, std::vector<uint32_t>(kFlags));
    const auto levels =
        device.AllocateBuffer(edge::Place::kOutput, 4 * fresh.size());
    const auto changed =
        device.AllocateBuffer(edge::Place::kOutput, 4 * kFlags);
    for (const auto* buffer :
         {&rows, &edges, &start, &zeros, &levels, &changed}) {
      if (!buffer->ok()) return buffer->status();
    }
    levels_ = reinterpret_cast<const uint32_t*>(levels->bytes.data());
    changed_ = reinterpret_cast<uint32_t*>(changed->bytes.data());
    changed_buffer_ = *changed;
    reset_levels_ = Copy(*start, *levels, graph_.vertices());
    reset_flags_ = Copy(*zeros, *changed, kFlags);
    level_.kernel = "bfs_level";
    level_.grid = {(graph_.vertices() + kThreads - 1) / kThreads, 1, 1};
    level_.block = {kThreads, 1, 1};
    level_.priority = priority_;
    level_.parameters = {edge::Fixed("rows", *rows),
                         edge::Fixed("columns", *edges),
                         edge::Fixed("levels", *levels)};
    return absl::OkStatus();
  }

  absl::StatusOr<RunFigures> Run(edge::Device& device) override {
    RunFigures figures;
    RETURN_IF_ERROR(LaunchAndCount(device, reset_levels_, &figures));
    for (uint32_t level = 0;; ++level) {
      const uint32_t flag = level % kFlags;
      if (flag == 0) {
        RETURN_IF_ERROR(LaunchAndCount(device, reset_flags_, &figures));
      }
      edge::Device::LaunchSpec spec = level_;
      spec.parameters.push_back(
          edge::Fixed("changed", changed_buffer_,
                      {.offset = 4 * uint64_t{flag}, .length = 4}));
      spec.parameters.push_back(edge::Constant("level", level));
      RETURN_IF_ERROR(LaunchAndCount(device, spec, &figures));
      // Writer: the kernel, which has ended.
      if (std::atomic_ref<uint32_t>(changed_[flag])
              .load(std::memory_order_acquire) == 0)
        break;
      // A kernel that always says "changed" must not keep us here for ever.
      if (level > graph_.vertices()) break;
    }
    return figures;
  }

  std::string Verify() const override {
    for (uint32_t v = 0; v < graph_.vertices(); ++v) {
      if (levels_[v] == expected_[v]) continue;
      return fmt::format("vertex {} is at level {}, expected {}", v, levels_[v],
                         expected_[v]);
    }
    return "";
  }

 private:
  static absl::StatusOr<edge::Buffer> Upload(
      edge::Device& device, const std::vector<uint32_t>& words) {
    auto buffer = device.AllocateBuffer(edge::Place::kInput, 4 * words.size());
    if (buffer.ok())
      std::memcpy(buffer->bytes.data(), words.data(), 4 * words.size());
    return buffer;
  }
  // A launch that copies `words` words, because the host cannot write where
  // kernels do.
  edge::Device::LaunchSpec Copy(const edge::Buffer& from,
                                const edge::Buffer& to, uint32_t words) const {
    return {.kernel = "echo",
            .grid = {(words + kThreads - 1) / kThreads, 1, 1},
            .block = {kThreads, 1, 1},
            .priority = priority_,
            .parameters = {edge::Fixed("in", from), edge::Fixed("out", to)}};
  }

  const Graph graph_;
  const std::vector<uint32_t> expected_;
  const uint32_t priority_;
  const uint32_t* levels_ = nullptr;
  uint32_t* changed_ = nullptr;  // mapped read-only
  edge::Buffer changed_buffer_;
  edge::Device::LaunchSpec reset_levels_;
  edge::Device::LaunchSpec reset_flags_;
  edge::Device::LaunchSpec level_;
};

}  // namespace

std::unique_ptr<Workload> MakeBfs(const WorkloadOptions& options) {
  return std::make_unique<Bfs>(options);
}

}  // namespace carillon::cpu_host
