#include "gpu_daemon/backends/cuda/paths/baseline_path.h"

#include <utility>

#include "base/clock.h"
#include "base/status.h"

namespace carillon::gpud::cuda {

// With event polling, the kernel's completion is gpud's own, until the CPU has
// seen the CUDA event behind it.
struct BaselinePath::Polled : Resources {
  void Abandon() override {
    Resources::Abandon();
    for (Event& event : events) event.Abandon();
  }

  std::vector<Event> events;  // a slot each
};

BaselinePath::BaselinePath(Gpu* gpu, LaunchGate* gate, Completion completion)
    : HostLauncher(gpu, gate), completion_(completion) {
  Begin();
}

BaselinePath::~BaselinePath() { End(); }

absl::StatusOr<std::unique_ptr<HostLauncher::Resources>>
BaselinePath::MakeResources(EventKernel& event) {
  if (completion_ == Completion::kEpilogue) {
    event.ledger().ExpectEpilogues();
    auto resources = std::make_unique<Resources>();
    RETURN_IF_ERROR(FillIn(event, *resources));
    return resources;
  }
  auto resources = std::make_unique<Polled>();
  RETURN_IF_ERROR(FillIn(event, *resources));
  const uint32_t entries = event.ring().layout().entries;
  for (uint32_t i = 0; i < entries; ++i) {
    ASSIGN_OR_RETURN(auto made, MakeEvent(gpu().driver()));
    resources->events.push_back(std::move(made));
  }
  return resources;
}

CUresult BaselinePath::Enqueue(Resources& resources, Flight& flight) {
  simt::EventFrame frame = FrameOf(flight, resources);
  const uint32_t slot = flight.event->ring().layout().SlotOf(flight.sequence);
  const bool polled = completion_ == Completion::kEventPolling;
  if (polled) {
    frame.ecq = &CompletionOf(flight, resources);
    frame.life = nullptr;
  }
  const CUstream stream = StreamOf(flight);
  const CUresult result = resources.sequence.Launch(
      gpu().driver(), flight.kmd, frame, flight.args.data(), stream);
  if (result != CUDA_SUCCESS || !polled) return result;
  return gpu().driver().cuEventRecord(
      static_cast<Polled&>(resources).events[slot].get(), stream);
}

HostLauncher::Outcome BaselinePath::Look(Resources& resources, Flight& flight,
                                         bool stream_free) {
  EventKernel& event = *flight.event;
  if (completion_ == Completion::kEpilogue) {
    if (!event.ledger().NoteEnded(flight.sequence)) return Outcome::kRuns;
    event.memory().bell().Signal();
    return Outcome::kEnded;
  }
  if (!stream_free) return Outcome::kRuns;
  auto& polled = static_cast<Polled&>(resources);
  const uint32_t slot = event.ring().layout().SlotOf(flight.sequence);
  const CUresult result =
      gpu().driver().cuEventQuery(polled.events[slot].get());
  if (result == CUDA_ERROR_NOT_READY || !gpu().Check(result)) {
    return Outcome::kRuns;
  }
  const shm::EcqEntry& completion = CompletionOf(flight, resources);
  const bool traced = flight.life.seen_ns != 0;
  if (traced) flight.life.finished_ns = NowNs();
  if (event.ledger().Finish(flight.sequence,
                            {.state = completion.state,
                             .status = completion.status,
                             .life = traced ? &flight.life : nullptr})) {
    event.memory().bell().Signal();
  }
  return Outcome::kEnded;
}

}  // namespace carillon::gpud::cuda
