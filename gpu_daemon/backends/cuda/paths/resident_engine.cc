#include "gpu_daemon/backends/cuda/paths/resident_engine.h"

#include <sched.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/paths/gpu_rings.h"

namespace carillon::gpud::cuda {

ResidentHost::ResidentHost(Gpu* gpu, std::string name, ResidentOptions options)
    : gpu_(gpu),
      name_(std::move(name)),
      options_(std::move(options)),
      tracing_(options_.tracing),
      traced_ever_(options_.tracing) {}

std::string ResidentHost::notice() const {
  std::lock_guard lock(notice_mutex_);
  return notice_;
}

void ResidentHost::SetNotice(std::string notice) {
  std::lock_guard lock(notice_mutex_);
  notice_ = std::move(notice);
}

absl::Status ResidentHost::MakeBytes(uint64_t size, DeviceBytes& bytes) const {
  ASSIGN_OR_RETURN(bytes, DeviceBytes::Make(gpu_->driver(), size));
  return absl::OkStatus();
}

bool ResidentHost::Await(const std::function<bool()>& reached) const {
  const Nanoseconds start = NowNs();
  while (!reached()) {
    if (gpu_->Faulted()) return false;
    if (NowNs() - start > longest_kernel_ns()) {
      spdlog::warn(
          "an event kernel of launch path {} did not come to rest: it is "
          "stopped, and the CUDA context with it",
          name_);
      gpu_->StopEverything();
      return false;
    }
    sched_yield();
  }
  return true;
}

bool ResidentHost::IsIdle(CUstream stream) const {
  const CUresult result = gpu_->driver().cuStreamQuery(stream);
  if (result != CUDA_ERROR_NOT_READY) gpu_->Check(result);
  return result == CUDA_SUCCESS;
}

void ResidentHost::NoteViolation(ResidentEvent& resident,
                                 std::string reason) const {
  resident.violation_seen = true;
  if (!options_.on_violation) return;
  options_.on_violation(resident.event->shared_memory(), std::move(reason));
}

EdgeEntry EntryOf(const ResidentEvent& resident) {
  const EventKernel& event = *resident.event;
  const shm::RingLayout& layout = event.ring().layout();
  EdgeEntry entry{};
  entry.esq = event.memory().submission().At(layout.esq_offset);
  entry.ecq = event.ring().completion_slot(shm::Sequence(0));
  entry.lives = &event.ring().life(shm::Sequence(0));
  entry.frames = resident.frames.as<std::byte>();
  entry.scratch = resident.scratch.as<simt::EventScratch>();
  entry.arguments = resident.arguments.as<ArgumentSteps>();
  entry.entries = layout.entries;
  entry.launch_slots = layout.entries;
  entry.entry_bytes = layout.entry_bytes;
  entry.parameter_offset = layout.parameter_offset;
  entry.parameter_bytes = layout.parameter_bytes;
  entry.generation = layout.generation.value();
  entry.frame_bytes = static_cast<uint32_t>(
      simt::EventFrameBytes(event.kmd().kernel->args_size));
  entry.block[0] = event.kmd().block.x;
  entry.block[1] = event.kmd().block.y;
  entry.block[2] = event.kmd().block.z;
  return entry;
}

void NoteProgress(ResidentEvent& resident, uint64_t ended, uint64_t rung,
                  Nanoseconds now) {
  const uint64_t entries = resident.event->ring().layout().entries;
  if (rung < ended || rung - ended > entries) rung = ended;  // a violation
  // What is a lap behind has ended, or its slot would not have been rung again.
  uint64_t oldest =
      std::max({resident.oldest, resident.event->ended_before() + 1,
                rung > entries ? rung - entries + 1 : 1});
  while (oldest <= rung && IsCompleted(*resident.event, oldest)) ++oldest;
  if (rung == ended || oldest != resident.oldest ||
      resident.stands_still_since == 0) {
    resident.oldest = oldest;
    resident.ended_before = ended;
    resident.stands_still_since = now;
  }
}

std::string UnseenViolation(const ResidentEvent& resident) {
  return fmt::format(
      "doorbell of event {} ('{}') rang where the GPU does not see it: the "
      "device has freed the page that it was registered with",
      resident.event->event_id(), resident.event->kmd().kernel->name);
}

}  // namespace carillon::gpud::cuda
