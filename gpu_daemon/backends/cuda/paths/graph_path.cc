#include "gpu_daemon/backends/cuda/paths/graph_path.h"

#include <utility>
#include <vector>

#include "base/status.h"

namespace carillon::gpud::cuda {

namespace {

// A graph's kernels stay on the SMs that it was made for.
struct SlotGraphs {
  KernelGraph graph;             // each exec has nodes of its own
  std::vector<GraphExec> execs;  // a slot each
};

absl::StatusOr<SlotGraphs> MakeSlotGraphs(Gpu& gpu,
                                          const LaunchSequence& sequence,
                                          const EventKernel& event, SmSet sms) {
  const Driver& driver = gpu.driver();
  SlotGraphs graphs;
  {
    const Context::OnSms on_sms = gpu.OnSms(sms);
    ASSIGN_OR_RETURN(graphs.graph, sequence.AsGraph(driver, event.kmd()));
  }
  for (uint32_t i = 0; i < event.ring().layout().entries; ++i) {
    // A ring may have very many: whoever launches meanwhile waits for one only.
    const Context::OnSms on_sms = gpu.OnSms(sms);
    ASSIGN_OR_RETURN(auto exec,
                     Instantiate(driver, graphs.graph.graph.get(), 0));
    graphs.execs.push_back(std::move(exec));
  }
  // What each launch does first: a driver that refuses it is to refuse the event
  // kernel, and not its events.
  std::vector<std::byte> args(event.kmd().kernel->args_size);
  const Context::OnSms on_sms = gpu.OnSms(sms);
  RETURN_IF_ERROR(
      ToStatus(driver,
               sequence.Set(driver, graphs.execs.front().get(), graphs.graph,
                            event.kmd(), {}, args.data()),
               "change the arguments of a graph's kernel"));
  return graphs;
}

}  // namespace

struct GraphPath::Graphs : Resources {
  void Abandon() override {
    Resources::Abandon();
    for (SlotGraphs* graphs : {&rest, &part}) {
      for (GraphExec& exec : graphs->execs) exec.Abandon();
      graphs->graph.graph.Reset();  // belongs to no context
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
  ASSIGN_OR_RETURN(resources->rest, MakeSlotGraphs(gpu(), resources->sequence,
                                                   event, SmSet::kRest));
  if (gpu().divided()) RETURN_IF_ERROR(AddForParts(event, *resources));
  return resources;
}

absl::Status GraphPath::AddForParts(EventKernel& event, Resources& resources) {
  auto& graphs = static_cast<Graphs&>(resources);
  if (!graphs.part.execs.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(graphs.part, MakeSlotGraphs(gpu(), graphs.sequence, event,
                                               SmSet::kEvents));
  return absl::OkStatus();
}

void GraphPath::RemoveForParts(Resources& resources) {
  static_cast<Graphs&>(resources).part = {};
}

CUresult GraphPath::Enqueue(Resources& resources, Flight& flight) {
  auto& graphs = static_cast<Graphs&>(resources);
  const uint32_t slot = flight.event->ring().layout().SlotOf(flight.sequence);
  const bool on_part = IsOnPart(flight);
  const SlotGraphs& slots = on_part ? graphs.part : graphs.rest;
  const CUgraphExec exec = slots.execs[slot].get();
  {
    const auto on_sms = gpu().OnSms(on_part ? SmSet::kEvents : SmSet::kRest);
    const CUresult result =
        graphs.sequence.Set(gpu().driver(), exec, slots.graph, flight.kmd,
                            FrameOf(flight, resources), flight.args.data());
    if (result != CUDA_SUCCESS) return result;
  }
  return gpu().driver().cuGraphLaunch(exec, StreamOf(flight));
}

HostLauncher::Outcome GraphPath::Look(Resources&, Flight& flight, bool) {
  if (!flight.event->ledger().NoteEnded(flight.sequence)) return Outcome::kRuns;
  flight.event->memory().bell().Signal();
  return Outcome::kEnded;
}

}  // namespace carillon::gpud::cuda
