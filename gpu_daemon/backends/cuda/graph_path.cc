#include "gpu_daemon/backends/cuda/graph_path.h"

#include <utility>
#include <vector>

namespace carillon::gpud::cuda {
namespace {

CUDA_KERNEL_NODE_PARAMS NodeParams(CUfunction function,
                                   const KernelMetadata& kmd,
                                   void** parameters) {
  CUDA_KERNEL_NODE_PARAMS node = {};
  node.func = function;
  node.gridDimX = kmd.grid.x;
  node.gridDimY = kmd.grid.y;
  node.gridDimZ = kmd.grid.z;
  node.blockDimX = kmd.block.x;
  node.blockDimY = kmd.block.y;
  node.blockDimZ = kmd.block.z;
  node.sharedMemBytes = kmd.total_shared();
  node.kernelParams = parameters;
  return node;
}

}  // namespace

struct GraphPath::Graphs : Resources {
  void Abandon() override {
    Resources::Abandon();
    for (GraphExec& exec : execs) exec.Abandon();
    graph.Reset();  // belongs to no context
  }

  Graph graph;  // one node, of which each exec has its own
  CUgraphNode node = nullptr;
  std::vector<GraphExec> execs;  // a slot each
};

GraphPath::GraphPath(Gpu* gpu) : HostLauncher(gpu) { Begin(); }

GraphPath::~GraphPath() { End(); }

absl::StatusOr<std::unique_ptr<HostLauncher::Resources>>
GraphPath::MakeResources(EventKernel& event) {
  event.ExpectEpilogues();
  auto resources = std::make_unique<Graphs>();
  if (auto status = FillIn(event, *resources); !status.ok()) return status;
  const Driver& driver = gpu().driver();
  auto graph = MakeGraph(driver);
  if (!graph.ok()) return graph.status();
  resources->graph = *std::move(graph);
  EventFrame frame{};
  std::vector<std::byte> args(event.kmd().kernel->args_size);
  void* parameters[] = {&frame, args.data()};
  const CUDA_KERNEL_NODE_PARAMS params =
      NodeParams(resources->function, event.kmd(), parameters);
  if (auto status = ToStatus(
          driver,
          driver.cuGraphAddKernelNode(&resources->node, resources->graph.get(),
                                      nullptr, 0, &params),
          "add a kernel to a graph");
      !status.ok()) {
    return status;
  }
  for (uint32_t i = 0; i < event.ring().layout().entries; ++i) {
    auto exec = Instantiate(driver, resources->graph.get(), 0);
    if (!exec.ok()) return exec.status();
    resources->execs.push_back(*std::move(exec));
  }
  return resources;
}

CUresult GraphPath::Enqueue(Resources& resources, Flight& flight) {
  auto& graphs = static_cast<Graphs&>(resources);
  const uint32_t slot = flight.event->ring().layout().SlotOf(flight.sequence);
  const CUgraphExec exec = graphs.execs[slot].get();
  EventFrame frame = FrameOf(flight, resources);
  void* parameters[] = {&frame, flight.args.data()};
  const CUDA_KERNEL_NODE_PARAMS params =
      NodeParams(graphs.function, flight.kmd, parameters);
  const CUresult result =
      gpu().driver().cuGraphExecKernelNodeSetParams(exec, graphs.node, &params);
  if (result != CUDA_SUCCESS) return result;
  return gpu().driver().cuGraphLaunch(exec, StreamOf(flight));
}

HostLauncher::Outcome GraphPath::Look(Resources&, Flight& flight, bool) {
  if (!flight.event->NoteEnded(flight.sequence)) return Outcome::kRuns;
  flight.event->memory().bell().Signal();
  return Outcome::kEnded;
}

}  // namespace carillon::gpud::cuda
