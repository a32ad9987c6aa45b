#include "sim/timing/edge/interrupts.h"

#include <cstring>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace carillon::sim::timing {
namespace {

// Each set of registers has a line of its own.
constexpr uint64_t kSetBytes = 128;
static_assert(sizeof(isr::InterruptRegisters) <= kSetBytes);

}  // namespace

absl::StatusOr<std::unique_ptr<Interrupts>> Interrupts::Create(
    Gpu* gpu, Memory* memory, const Program* isr) {
  const ProgramFunction* const kernel = isr->FindEntry(isr::kKernel);
  if (kernel == nullptr) {
    return absl::NotFoundError(
        fmt::format("the interrupt service routine, {}, is not in {}",
                    isr::kKernel, isr->module->file));
  }
  constexpr uint64_t kBytes = kMaxPending * kSetBytes;
  ASSIGN_OR_RETURN(const auto address,
                   memory->Allocate(kBytes, "interrupt registers"));
  gpu->SetInterruptRegisters(address, kBytes);
  RETURN_IF_ERROR(gpu->ReserveInstructions(isr, *kernel));
  Launch launch{
      .program = isr, .kernel = kernel, .grid = {1, 1, 1}, .block = {32, 1, 1}};
  return std::unique_ptr<Interrupts>(new Interrupts(
      gpu, std::move(launch), address, *memory->At(address, kBytes)));
}

Interrupts::Interrupts(Gpu* gpu, Launch launch, DeviceAddress address,
                       std::span<std::byte> registers)
    : gpu_(gpu),
      launch_(std::move(launch)),
      address_(address),
      registers_(registers) {
  for (uint32_t set = kMaxPending; set-- > 0;) free_sets_.push_back(set);
}

isr::InterruptRegisters* Interrupts::SetOf(uint32_t set) {
  return reinterpret_cast<isr::InterruptRegisters*>(registers_.data() +
                                                    set * kSetBytes);
}

absl::StatusOr<GridId> Interrupts::Submit(const Interrupt& interrupt, Cycle at,
                                          uint32_t sm, uint32_t set) {
  *SetOf(set) = {
      .vector = interrupt.vector,
      .argument = interrupt.vector == isr::Vector::kLaunchEvent
                      ? static_cast<uint32_t>(interrupt.event)
                      : interrupt.barrier,
      .delay = interrupt.delay,
  };
  Launch launch = launch_;
  const DeviceAddress registers = address_ + set * kSetBytes;
  launch.parameters.resize(sizeof(registers));
  std::memcpy(launch.parameters.data(), &registers, sizeof(registers));
  return gpu_->Submit(std::move(launch), {.not_before = at,
                                          .registers = isr::kRegisters,
                                          .event = true,
                                          .privileged = true,
                                          .sm = sm});
}

absl::Status Interrupts::Check(const Interrupt& interrupt) const {
  if (interrupt.vector == isr::Vector::kLaunchEvent &&
      !gpu_->HasEvent(interrupt.event)) {
    return absl::NotFoundError(
        fmt::format("event {}: there is none", interrupt.event));
  }
  if (interrupt.barrier >= kWaitReleaseBarriers) {
    return absl::InvalidArgumentError(
        fmt::format("wait-release barrier {}: there are {}", interrupt.barrier,
                    kWaitReleaseBarriers));
  }
  if (interrupt.sm != kAnySm && interrupt.sm >= gpu_->config().sm.count) {
    return absl::InvalidArgumentError(fmt::format(
        "SM {}: there are {}", interrupt.sm, gpu_->config().sm.count));
  }
  return absl::OkStatus();
}

absl::StatusOr<InterruptId> Interrupts::Raise(const Interrupt& interrupt,
                                              Cycle at) {
  RETURN_IF_ERROR(Check(interrupt));
  const bool all = interrupt.vector == isr::Vector::kReleaseBarrier &&
                   interrupt.sm == kAnySm;
  const uint32_t count = all ? gpu_->config().sm.count : 1;
  if (free_sets_.size() < count) {
    return absl::ResourceExhaustedError(
        fmt::format("{} interrupts are pending: that is all that the GPU's "
                    "interrupt controllers hold",
                    kMaxPending));
  }
  const InterruptId id = next_++;
  Pending& pending = pending_[id];
  pending.result = {.id = id, .raised = std::max(at, gpu_->cycle())};
  pending.interrupt = interrupt;
  pending.left = count;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t set = free_sets_.back();
    const auto grid = Submit(interrupt, at, all ? i : interrupt.sm, set);
    if (!grid.ok()) {
      // Only the first can fail, since all are alike: nothing is to be undone.
      pending_.erase(id);
      return grid.status();
    }
    free_sets_.pop_back();
    routines_[*grid] = {id, set};
  }
  return id;
}

absl::Status Interrupts::Every(uint32_t period, const Interrupt& interrupt) {
  if (period == 0) {
    return absl::InvalidArgumentError("a timer's period is 1 cycle at least");
  }
  RETURN_IF_ERROR(Check(interrupt));
  Arm(period, interrupt);
  return absl::OkStatus();
}

void Interrupts::Arm(uint32_t period, Interrupt interrupt) {
  gpu_->CallAt(gpu_->cycle() + period,
               [this, period, interrupt, stopped = timers_stopped_] {
                 if (timers_stopped_ != stopped) return;
                 if (!Raise(interrupt, gpu_->cycle()).ok()) ++refused_;
                 Arm(period, interrupt);
               });
}

void Interrupts::Ended(const GridResult& grid) {
  if (const auto found = routines_.find(grid.id); found != routines_.end()) {
    const Routine routine = found->second;
    routines_.erase(found);
    RoutineEnded(grid, routine);
    return;
  }
  const auto found = events_.find(grid.id);
  if (found == events_.end()) return;
  const auto pending = pending_.find(found->second);
  events_.erase(found);
  pending->second.result.event = grid;
  if (--pending->second.left == 0) End(pending);
}

void Interrupts::RoutineEnded(const GridResult& grid, const Routine& routine) {
  const auto found = pending_.find(routine.interrupt);
  Pending& pending = found->second;
  const uint32_t launch = SetOf(routine.registers)->launch;
  free_sets_.push_back(routine.registers);
  pending.result.routines.push_back(grid);
  if (!grid.status.ok()) {
    pending.result.status = grid.status;
  } else if (launch != 0) {
    const auto event = gpu_->RingFromGpu(
        launch - 1, std::exchange(pending.interrupt.parameters, {}));
    if (event.ok()) {
      events_[*event] = routine.interrupt;
      ++pending.left;
    } else {
      pending.result.status = event.status();
    }
  }
  if (--pending.left == 0) End(found);
}

void Interrupts::End(std::map<InterruptId, Pending>::iterator pending) {
  const Pending ended = std::move(pending->second);
  pending_.erase(pending);
  results_[ended.result.id] = ended.result;
}

const InterruptResult* Interrupts::result(InterruptId id) const {
  const auto found = results_.find(id);
  return found == results_.end() ? nullptr : &found->second;
}

}  // namespace carillon::sim::timing
