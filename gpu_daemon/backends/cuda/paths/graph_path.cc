#include "gpu_daemon/backends/cuda/paths/graph_path.h"

#include <utility>
#include <vector>

#include "base/status.h"

namespace carillon::gpud::cuda {

struct GraphPath::Graphs : Resources {
  void Abandon() override {
    Resources::Abandon();
    for (GraphExec& exec : execs) exec.Abandon();
    graph.of.graph.Reset();  // belongs to no context
  }

  LaunchSequence::Graphed graph;  // each exec has nodes of its own
  std::vector<GraphExec> execs;   // a slot each
};

GraphPath::GraphPath(Gpu* gpu, LaunchGate* gate) : HostLauncher(gpu, gate) {
  Begin();
}

GraphPath::~GraphPath() { End(); }

absl::StatusOr<std::unique_ptr<HostLauncher::Resources>>
GraphPath::MakeResources(EventKernel& event) {
  event.ledger().ExpectEpilogues();
  auto resources = std::make_unique<Graphs>();
  RETURN_IF_ERROR(FillIn(event, *resources));
  const Driver& driver = gpu().driver();
  Stream capture;  // for this alone: others' launches are not to get into it
  if (gpu().reserved_sms() != 0) {
    ASSIGN_OR_RETURN(capture, gpu().MakeStream(SmSet::kRest, event.priority()));
  }
  ASSIGN_OR_RETURN(resources->graph, resources->sequence.AsGraph(
                                         driver, event.kmd(), capture.get()));
  for (uint32_t i = 0; i < event.ring().layout().entries; ++i) {
    ASSIGN_OR_RETURN(auto exec,
                     Instantiate(driver, resources->graph.of.graph.get(), 0));
    resources->execs.push_back(std::move(exec));
  }
  return resources;
}

CUresult GraphPath::Enqueue(Resources& resources, Flight& flight) {
  auto& graphs = static_cast<Graphs&>(resources);
  const uint32_t slot = flight.event->ring().layout().SlotOf(flight.sequence);
  const CUgraphExec exec = graphs.execs[slot].get();
  const CUresult result =
      graphs.sequence.Set(gpu().driver(), exec, graphs.graph, flight.kmd,
                          FrameOf(flight, resources), flight.args.data());
  if (result != CUDA_SUCCESS) return result;
  return gpu().driver().cuGraphLaunch(exec, StreamOf(flight));
}

HostLauncher::Outcome GraphPath::Look(Resources&, Flight& flight, bool) {
  if (!flight.event->ledger().NoteEnded(flight.sequence)) return Outcome::kRuns;
  flight.event->memory().bell().Signal();
  return Outcome::kEnded;
}

}  // namespace carillon::gpud::cuda
