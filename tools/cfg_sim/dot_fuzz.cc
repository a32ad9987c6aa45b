// Any text as a graph: it is refused with a sentence, or warps walk through it.
#include "base/testing/fuzz_input.h"
#include "tools/cfg_sim/graph.h"
#include "tools/cfg_sim/walk.h"

namespace carillon::cfg_sim {
namespace {

void Run(std::string_view text) {
  const auto graph = ReadDot(text);
  if (!graph.ok()) {
    FUZZ_CHECK(graph.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(!graph.status().message().empty());
    return;
  }
  for (const Node& node : graph->nodes) {
    FUZZ_CHECK(node.meets == kEnd || node.meets < graph->nodes.size());
    // A loop that hardly ends takes long.
    for (const Edge& edge : node.edges) {
      if (edge.probability != 0 && edge.probability < 0.01) return;
    }
  }
  if (graph->nodes.size() > 20) return;
  const auto walked = Walk({&*graph, 1}, {.warps = 2});
  FUZZ_CHECK(walked.ok(), "%s", walked.status().ToString().c_str());
  FUZZ_CHECK(walked->efficiency() >= 0 && walked->efficiency() <= 1);
}

}  // namespace
}  // namespace carillon::cfg_sim

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::cfg_sim::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
