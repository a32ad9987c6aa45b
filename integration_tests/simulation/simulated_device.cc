#include "integration_tests/simulation/simulated_device.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "shm/load_shared.h"
#include "shm/ring_layout.h"

namespace carillon::simulation {
namespace {

using shm::EventState;
using shm::Step;

constexpr uint32_t kBytes = 32;  // of an event's input and output

uint64_t WordOf(uint64_t pid, uint64_t generation, uint64_t sequence) {
  return (pid << 48 ^ generation << 24 ^ sequence) * 0x9e37'79b9'7f4a'7c15;
}

std::shared_ptr<const gpud::Peer> MakePeer(uint32_t pid) {
  auto peer = std::make_shared<gpud::Peer>();
  peer->pid = static_cast<pid_t>(pid);
  peer->uid = getuid();
  // Any living process will do.
  peer->pidfd.reset(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  return peer;
}

template <class T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    ADD_FAILURE() << std::string(value.status().message());
    std::abort();
  }
  return *std::move(value);
}

}  // namespace

SimulatedDevice::SimulatedDevice(SimulatedGpud& gpud, std::string name,
                                 uint32_t pid)
    : name_(std::move(name)), peer_(MakePeer(pid)) {
  recording_.name = name_;
  recording_.pid = pid;
  Open(gpud);
}

// From the heap's beginning to the end of the last buffer or ring.
uint64_t SimulatedDevice::UsedBytes(const shm::Aperture& aperture) const {
  const bool submits = &aperture == &submission_;
  uint64_t end = aperture.heap_offset();
  for (const Placed& placed : buffers_) {
    if ((placed.request.place() == v1::INPUT) != submits) continue;
    end = std::max(end, placed.answer.offset() + placed.request.bytes());
  }
  for (const Ring& ring : rings_) {
    const shm::RingLayout& layout = ring.ring->layout();
    end = std::max(end, submits ? layout.esq_offset + layout.esq_bytes()
                                : layout.life_offset + layout.life_bytes());
  }
  return end - aperture.heap_offset();
}

// Fetches new apertures.
void SimulatedDevice::Open(SimulatedGpud& gpud) {
  v1::AttachRequest request;
  request.set_name(name_);
  request.set_kind("simulated");
  constexpr uint64_t kHeapBytes = 64 << 10;
  const bool resumes = submission_.size() != 0;
  const uint64_t submitted = resumes ? UsedBytes(submission_) : 0;
  const uint64_t completed = resumes ? UsedBytes(completion_) : 0;
  request.set_submission_bytes(std::max(kHeapBytes, submitted));
  request.set_completion_bytes(std::max(kHeapBytes, completed));
  request.set_layout_version(shm::kLayoutVersion);
  const auto attached = OrDie(gpud.sessions().Attach(request, peer_));
  session_ = gpud.sessions().FindDevice(attached.device_id());
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  connection_.reset(ends[0]);
  const absl::Status handed = session_->HandOver(UniqueFd(ends[1]), [] {});
  EXPECT_TRUE(handed.ok()) << std::string(handed.message());
  const auto map = [&](const shm::Aperture& aperture, shm::RegionKind kind) {
    return OrDie(
        shm::Aperture::Map(UniqueFd(fcntl(aperture.fd(), F_DUPFD_CLOEXEC, 0)),
                           kind, session_->identity().generation));
  };
  auto submission =
      map(session_->memory().submission(), shm::RegionKind::kSubmission);
  auto completion =
      map(session_->memory().completion(), shm::RegionKind::kCompletion);
  if (resumes) {
    const uint64_t heap = submission_.heap_offset();
    std::memcpy(submission.At(heap), submission_.At(heap), submitted);
    EXPECT_TRUE(submission.TakePlaceOf(submission_).ok());
    EXPECT_TRUE(completion.TakePlaceOf(completion_).ok());
  }
  submission_ = std::move(submission);
  completion_ = std::move(completion);
  recording_.records.push_back(
      {.time_ns = NowNs(),
       .sequence = gpud.pid(),
       .generation = session_->identity().generation.value(),
       .step = Step::kAttached});
  ++recording_.written;
}

bool SimulatedDevice::closed() const {
  return shm::LoadShared(completion_.completion_control().closed,
                         std::memory_order_seq_cst) != 0;
}

absl::StatusOr<v1::AllocateBufferResponse> SimulatedDevice::Allocate(
    v1::BufferPlace place, uint64_t bytes) {
  v1::AllocateBufferRequest request;
  request.set_place(place);
  request.set_bytes(bytes);
  auto answer = session_->AllocateBuffer(request);
  if (!answer.ok()) return answer.status();
  buffers_.push_back({request, *answer});
  return answer;
}

absl::Status SimulatedDevice::Register(uint32_t entries) {
  ASSIGN_OR_RETURN(auto in, Allocate(v1::INPUT, uint64_t{entries} * kBytes));
  ASSIGN_OR_RETURN(auto out, Allocate(v1::OUTPUT, uint64_t{entries} * kBytes));
  Ring ring;
  ring.in_offset = in.offset();
  ring.out_offset = out.offset();
  ring.spoilt.resize(entries);
  ring.request.set_kernel("echo");
  ring.request.mutable_block()->set_x(32);
  ring.request.mutable_block()->set_y(1);
  ring.request.mutable_block()->set_z(1);
  ring.request.set_max_in_flight(entries);
  const auto bind = [&](const char* name, uint32_t buffer) {
    v1::ParameterBinding& binding = *ring.request.add_parameters();
    binding.set_name(name);
    binding.set_buffer_id(buffer);
    binding.set_length(kBytes);
    binding.set_slot_stride(kBytes);
  };
  bind("in", in.buffer_id());
  bind("out", out.buffer_id());
  ASSIGN_OR_RETURN(auto answer, session_->RegisterEvent(ring.request));
  const shm::RingLayout layout = shm::LayoutOf(answer);
  EXPECT_TRUE(shm::CheckRingLayout(layout, submission_, completion_).ok());
  ring.ring =
      std::make_unique<shm::DeviceRing>(layout, &submission_, &completion_);
  Record(Step::kRegistered, &ring, 0, entries);
  rings_.push_back(std::move(ring));
  return absl::OkStatus();
}

absl::Status SimulatedDevice::Unregister(size_t index) {
  Ring& ring = rings_[index];
  const uint32_t event_id = ring.ring->layout().doorbell.value();
  const auto aborted =
      session_->UnregisterEvent(event_id, /*drain_ms=*/1, [] { return true; });
  RecordFound(ring);
  Record(Step::kUnregistered, &ring, ring.ring->last_consumed().value(),
         aborted.ok() ? 0 : 1);
  for (const auto& binding : ring.request.parameters()) {
    (void)session_->FreeBuffer(binding.buffer_id());
    std::erase_if(buffers_, [&](const Placed& placed) {
      return placed.answer.buffer_id() == binding.buffer_id();
    });
  }
  rings_.erase(rings_.begin() + static_cast<ptrdiff_t>(index));
  return aborted.status();
}

void SimulatedDevice::RecordFound(const Ring& ring) {
  const shm::DeviceRing& events = *ring.ring;
  for (shm::Sequence s = events.last_consumed() + 1;
       s <= events.last_committed(); ++s) {
    if (const auto end = events.EndOf(s)) {
      Record(Step::kFound, &ring, s.value(), end->status, end->state);
    }
  }
}

void SimulatedDevice::Record(Step step, const Ring* ring, uint64_t sequence,
                             uint32_t status, EventState state) {
  shm::FlightRecord record{.time_ns = NowNs(),
                           .sequence = sequence,
                           .status = status,
                           .step = step,
                           .state = state};
  if (ring != nullptr) {
    record.generation = ring->ring->layout().generation.value();
    record.event_id =
        static_cast<uint16_t>(ring->ring->layout().doorbell.value());
  }
  recording_.records.push_back(record);
  ++recording_.written;
}

uint32_t SimulatedDevice::free_slots(size_t ring) const {
  return rings_[ring].ring->free_slots();
}
uint64_t SimulatedDevice::in_flight(size_t ring) const {
  return rings_[ring].ring->in_flight();
}
uint64_t SimulatedDevice::uncommitted(size_t ring) const {
  return rings_[ring].ring->last_committed() - rings_[ring].ring->last_rung();
}

void SimulatedDevice::Commit(size_t index) {
  Ring& ring = rings_[index];
  const uint32_t slot = ring.ring->next_slot();
  const uint64_t sequence = ring.ring->Commit().value();
  const uint64_t word = WordOf(pid(), ring.in_offset, sequence);
  std::byte* in = submission_.At(ring.in_offset + slot * kBytes);
  for (uint32_t i = 0; i < kBytes; i += sizeof(word)) {
    std::memcpy(in + i, &word, sizeof(word));
  }
  ring.spoilt[slot] = false;
}

void SimulatedDevice::RingDoorbell(size_t index) {
  Ring& ring = rings_[index];
  const auto rings = uncommitted(index);
  if (rings == 0) return;
  Record(Step::kRung, &ring, ring.ring->last_committed().value(),
         static_cast<uint32_t>(rings));
  ring.ring->RingDoorbell();
}

absl::Status SimulatedDevice::Schedule(size_t index) {
  Ring& ring = rings_[index];
  const uint64_t through = ring.ring->last_committed().value();
  Record(Step::kScheduling, &ring, through);
  const absl::Status status =
      session_->ScheduleEvent(ring.ring->layout().doorbell.value(), through);
  if (!status.ok()) return status;
  Record(Step::kRung, &ring, through,
         static_cast<uint32_t>(uncommitted(index)));
  ring.ring->TakeScheduled();
  return status;
}

absl::StatusOr<uint32_t> SimulatedDevice::Take(size_t index, uint32_t most) {
  Ring& ring = rings_[index];
  uint32_t taken = 0;
  for (; taken < most; ++taken) {
    const auto done = ring.ring->Poll();
    if (!done) break;
    const uint32_t slot = ring.ring->layout().SlotOf(done->sequence);
    Record(Step::kTaken, &ring, done->sequence.value(), done->status,
           done->state);
    if (done->state == EventState::kDone) {
      const uint64_t word =
          WordOf(pid(), ring.in_offset, done->sequence.value());
      if (std::memcmp(completion_.At(ring.out_offset + slot * kBytes), &word,
                      sizeof(word)) != 0) {
        return absl::DataLossError(
            fmt::format("{}: event {} echoes something else", name_,
                        done->sequence.value()));
      }
    } else if (done->state == EventState::kFailed && !ring.spoilt[slot]) {
      return absl::DataLossError(
          fmt::format("{}: event {} failed with status {}, and was a good one",
                      name_, done->sequence.value(), done->status));
    }
    ring.ring->Consume();
  }
  return taken;
}

void SimulatedDevice::SpoilLastEntry(size_t index, uint64_t random) {
  Ring& ring = rings_[index];
  const auto entry = ring.ring->last_entry();
  // Without parameters, gpud checks an entry's sequence and generation.
  const size_t byte = random % 12;
  entry[byte] ^= std::byte(1u << (random >> 8) % 8);
  ring.spoilt[ring.ring->layout().SlotOf(ring.ring->last_committed())] = true;
}

void SimulatedDevice::JumpDoorbell(size_t index, uint32_t by) {
  rings_[index].ring->RingWith(by);
}

absl::Status SimulatedDevice::Resume(SimulatedGpud& gpud) {
  Record(Step::kClosed, nullptr, 0,
         static_cast<uint32_t>(shm::CloseReason::kOpen));
  for (const Ring& ring : rings_) RecordFound(ring);
  Open(gpud);
  for (const Placed& placed : buffers_) {
    auto request = placed.request;
    request.mutable_resumed()->set_buffer_id(placed.answer.buffer_id());
    request.mutable_resumed()->set_offset(placed.answer.offset());
    if (auto s = session_->AllocateBuffer(request); !s.ok()) return s.status();
  }
  for (Ring& ring : rings_) {
    const shm::RingLayout before = ring.ring->layout();
    ring.ring->PrepareToResume();
    auto request = ring.request;
    auto* resumed = request.mutable_resumed();
    resumed->set_event_id(before.doorbell.value());
    resumed->set_esq_offset(before.esq_offset);
    resumed->set_ecq_offset(before.ecq_offset);
    resumed->set_consumed(ring.ring->last_consumed().value());
    ASSIGN_OR_RETURN(const auto answer, session_->RegisterEvent(request));
    const shm::RingLayout layout = shm::LayoutOf(answer);
    EXPECT_TRUE(shm::CheckRingLayout(layout, submission_, completion_).ok());
    ring.ring->Resume(layout);
    Record(Step::kResumed, &ring, ring.ring->last_consumed().value());
  }
  return absl::OkStatus();
}

void SimulatedDevice::NoteClosed() {
  Record(Step::kClosed, nullptr, 0,
         shm::LoadShared(completion_.completion_control().closed,
                         std::memory_order_seq_cst));
}

void SimulatedDevice::Detach(SimulatedGpud& gpud) {
  gpud.sessions().End(session_, gpud::SessionEnd::kDetached);
  for (const Ring& ring : rings_) {
    RecordFound(ring);
    Record(Step::kUnregistered, &ring, ring.ring->last_consumed().value(), 1);
  }
  Record(Step::kDetached, nullptr, 0);
}

}  // namespace carillon::simulation
