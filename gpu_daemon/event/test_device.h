// A device in the test's own process: apertures, rings, and both ends of them,
// without a control plane.
#ifndef CARILLON_GPU_DAEMON_EVENT_TEST_DEVICE_H_
#define CARILLON_GPU_DAEMON_EVENT_TEST_DEVICE_H_

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu_daemon/event/event_kernel.h"
#include "shm/device_ring.h"
#include "shm/region_heap.h"
#include "shm/wakeups.h"

namespace carillon::gpud {

class TestDevice {
 public:
  explicit TestDevice(std::string name = "test0",
                      uint64_t heap_bytes = 1 << 20) {
    auto submission =
        shm::Aperture::Create({.kind = shm::RegionKind::kSubmission,
                               .heap_bytes = heap_bytes,
                               .generation = shm::Generation(1)});
    auto completion =
        shm::Aperture::Create({.kind = shm::RegionKind::kCompletion,
                               .heap_bytes = heap_bytes,
                               .generation = shm::Generation(1)});
    memory = std::make_shared<DeviceMemory>(
        std::move(name), *std::move(submission), *std::move(completion),
        shm::CompletionEvent::Create().value());
    submission_heap.emplace(memory->submission().heap_offset(), heap_bytes);
    completion_heap.emplace(memory->completion().heap_offset(), heap_bytes);
    waiter.emplace(&memory->submission(), &memory->completion(), &closed);
  }

  struct Spec {
    const simt::KernelInfo* kernel = nullptr;
    std::vector<ParameterBinding> bindings;
    simt::Dim3 grid = {1, 1, 1};
    simt::Dim3 block = {32, 1, 1};
    uint32_t shared_bytes = 0;
    uint32_t entries = 8;
    uint32_t priority = 0;
    bool modifyable = false;
    std::shared_ptr<ChainLink> hands_to = nullptr;
    std::shared_ptr<ChainLink> takes_from = nullptr;
  };

  // The two ends of one ring.
  struct Event {
    std::shared_ptr<EventKernel> kernel;
    std::unique_ptr<shm::DeviceRing> ring;
  };

  Event Register(const Spec& spec) {
    auto plan = ArgumentPlan::Make(*spec.kernel, spec.bindings);
    auto layout = shm::MakeRingLayout(
        spec.entries, plan->entry_parameter_bytes(), spec.modifyable);
    layout.doorbell = shm::DoorbellIndex(next_doorbell++);
    layout.generation = shm::Generation(7);
    layout.esq_offset = *submission_heap->Allocate(layout.esq_bytes());
    layout.ecq_offset = *completion_heap->Allocate(layout.ecq_bytes());
    layout.life_offset = *completion_heap->Allocate(layout.life_bytes());
    Event event;
    event.kernel = std::make_shared<EventKernel>(
        EventKernel::Registration{.kmd = {.kernel = spec.kernel,
                                          .grid = spec.grid,
                                          .block = spec.block,
                                          .shared_bytes = spec.shared_bytes},
                                  .priority = spec.priority,
                                  .modifyable = spec.modifyable,
                                  .label = "",
                                  .arguments = *plan,
                                  .hands_to = spec.hands_to,
                                  .takes_from = spec.takes_from,
                                  .bindings = spec.bindings},
        memory, layout, layout.doorbell.value());
    event.ring = std::make_unique<shm::DeviceRing>(
        layout, &memory->submission(), &memory->completion());
    return event;
  }

  // The oldest completion, waiting for at most ten seconds; state kNone if
  // there was none.
  shm::Completion Wait(shm::DeviceRing& ring) {
    std::optional<shm::Completion> completion;
    waiter->WaitUntil([&] { return (completion = ring.Poll()).has_value(); },
                      std::chrono::minutes(1), std::chrono::microseconds(5));
    if (completion) ring.Consume();
    return completion.value_or(shm::Completion{});
  }

  std::shared_ptr<DeviceMemory> memory;
  std::optional<shm::RegionHeap> submission_heap;
  std::optional<shm::RegionHeap> completion_heap;
  shm::ClosedWord closed;
  std::optional<shm::CompletionWaiter> waiter;
  uint32_t next_doorbell = 0;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_TEST_DEVICE_H_
