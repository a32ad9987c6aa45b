#include "gpu_daemon/backends/cuda/paths/graph_path.h"

#include <utility>
#include <vector>

#include "base/status.h"

namespace carillon::gpud::cuda {

namespace {

// A graph's kernels stay on the SMs that they were captured on.
struct SlotGraphs {
  LaunchSequence::Graphed graph;  // each exec has nodes of its own
  std::vector<GraphExec> execs;   // a slot each
};

// `capture`: see MakeKernelGraph().
absl::StatusOr<SlotGraphs> MakeSlotGraphs(const Driver& driver,
                                          const LaunchSequence& sequence,
                                          const EventKernel& event,
                                          CUstream capture) {
  SlotGraphs graphs;
  ASSIGN_OR_RETURN(graphs.graph,
                   sequence.AsGraph(driver, event.kmd(), capture));
  for (uint32_t i = 0; i < event.ring().layout().entries; ++i) {
    ASSIGN_OR_RETURN(auto exec,
                     Instantiate(driver, graphs.graph.of.graph.get(), 0));
    graphs.execs.push_back(std::move(exec));
  }
  return graphs;
}

}  // namespace

struct GraphPath::Graphs : Resources {
  void Abandon() override {
    Resources::Abandon();
    for (SlotGraphs* graphs : {&rest, &part}) {
      for (GraphExec& exec : graphs->execs) exec.Abandon();
      graphs->graph.of.graph.Reset();  // belongs to no context
    }
  }

  SlotGraphs rest;
  SlotGraphs part;  // the events'; without execs while the GPU is not divided
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
  Stream capture;  // for this alone: others' launches are not to get into it
  if (gpu().reserved_sms() != 0) {
    ASSIGN_OR_RETURN(capture, gpu().MakeStream(SmSet::kRest, event.priority()));
  }
  ASSIGN_OR_RETURN(resources->rest,
                   MakeSlotGraphs(gpu().driver(), resources->sequence, event,
                                  capture.get()));
  if (gpu().divided()) RETURN_IF_ERROR(AddForParts(event, *resources));
  return resources;
}

absl::Status GraphPath::AddForParts(EventKernel& event, Resources& resources) {
  auto& graphs = static_cast<Graphs&>(resources);
  if (!graphs.part.execs.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Stream capture, gpu().MakeStream(SmSet::kEvents, 0));
  ASSIGN_OR_RETURN(graphs.part, MakeSlotGraphs(gpu().driver(), graphs.sequence,
                                               event, capture.get()));
  return absl::OkStatus();
}

void GraphPath::RemoveForParts(Resources& resources) {
  static_cast<Graphs&>(resources).part = {};
}

CUresult GraphPath::Enqueue(Resources& resources, Flight& flight) {
  auto& graphs = static_cast<Graphs&>(resources);
  const uint32_t slot = flight.event->ring().layout().SlotOf(flight.sequence);
  const SlotGraphs& on_sms = IsOnPart(flight) ? graphs.part : graphs.rest;
  const CUgraphExec exec = on_sms.execs[slot].get();
  const CUresult result =
      graphs.sequence.Set(gpu().driver(), exec, on_sms.graph, flight.kmd,
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
