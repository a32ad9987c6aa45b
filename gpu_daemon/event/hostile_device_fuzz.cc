// gpud's side of a device's apertures, with a device that stores what it
// likes, where it likes, between any two of gpud's steps. What must hold:
// nothing of gpud's is reached by a device's numbers; each event that gpud took
// ends once, and its slot says so; gpud takes no more than the ring holds, and
// counts what it refuses; nothing is written to the device's own memory.
//
//   u8           bits 0..1: where the doorbells begin
//   steps        u8: what, and of which ring (bits 6..7); then what it takes
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "base/testing/fuzz_input.h"
#include "gpu_daemon/event/checked_entry.h"
#include "gpu_daemon/event/test_device.h"
#include "kernels/registry.h"
#include "shm/histogram.h"

namespace carillon::gpud {
namespace {

using shm::EventState;
using shm::EventStatus;
using shm::Sequence;

constexpr uint64_t kHeapBytes = 8 << 10;
constexpr uint64_t kBufferBytes = 256;
constexpr size_t kRings = 3;
constexpr size_t kMaxSteps = 2000;

// As device and gpud map them; made once and reset for every input.
struct Testbed {
  Testbed() : device("fuzz0", kHeapBytes) {
    inputs = *device.submission_heap->Allocate(kBufferBytes);
    outputs = *device.completion_heap->Allocate(kBufferBytes);
    shadow.resize(submission().size());
  }
  const shm::Aperture& submission() const {
    return device.memory->submission();
  }
  const shm::Aperture& completion() const {
    return device.memory->completion();
  }
  BufferRange input() const { return {submission().At(inputs), kBufferBytes}; }
  BufferRange output() const {
    return {completion().At(outputs), kBufferBytes};
  }

  TestDevice device;
  uint64_t inputs = 0;
  uint64_t outputs = 0;
  // What the device has stored: gpud adds nothing to it.
  std::vector<std::byte> shadow;
};

struct Ring {
  std::shared_ptr<EventKernel> kernel;
  bool served = true;  // by the front-end
  std::vector<Sequence> in_flight;
  uint64_t taken = 0;
  uint64_t ended = 0;
  uint64_t refused = 0;

  const shm::RingLayout& layout() const { return kernel->ring().layout(); }
};

class Run {
 public:
  Run(Testbed& testbed, fuzz::FuzzInput input)
      : testbed_(testbed), input_(input) {
    const shm::Aperture& submission = testbed_.submission();
    const uint64_t behind_header = shm::kControlOffset;
    std::memset(submission.At(behind_header), 0,
                submission.size() - behind_header);
    std::memset(testbed_.completion().At(behind_header), 0,
                testbed_.completion().size() - behind_header);
    constexpr std::array<uint32_t, 4> kFirst = {0, 0xfffffffe, 0x7fffffff, 1};
    const uint32_t first = kFirst[input_.Take<uint8_t>() & 3];
    for (size_t i = 0; i < kRings; ++i) submission.doorbells()[i] = first;
    std::memcpy(testbed_.shadow.data(), submission.At(0), submission.size());
  }

  ~Run() {
    for (Ring& ring : rings_) {
      if (ring.kernel == nullptr) continue;
      const shm::RingLayout layout = ring.layout();
      testbed_.device.submission_heap->Free(layout.esq_offset);
      testbed_.device.completion_heap->Free(layout.ecq_offset);
      testbed_.device.completion_heap->Free(layout.life_offset);
    }
  }

  void Go() {
    for (size_t i = 0; i < kMaxSteps && !input_.empty(); ++i) Step();
    LoseAll();
    // Once, of all stores: it costs as much as many steps.
    const shm::HistogramSnapshot histogram(
        testbed_.submission().telemetry().histograms[0]);
    (void)histogram.Percentile(0.99);
    FUZZ_CHECK(std::memcmp(testbed_.shadow.data(), testbed_.submission().At(0),
                           testbed_.submission().size()) == 0,
               "gpud has written to the submission aperture");
  }

 private:
  void Step() {
    const auto what = input_.Take<uint8_t>();
    Ring& ring = Used((what >> 6) % kRings);
    switch (what & 15) {
      case 0:
        return StoreAnywhere();
      case 1:
        return StoreInEntry(ring);
      case 2:
        return SetDoorbell(ring, input_.Take<uint32_t>());
      case 3:
      case 4:
        return RingHonestly(ring);
      case 5:
      case 6:
        return Poll(ring);
      case 7:
      case 8:
        return Finish(ring);
      case 9:
        return Schedule(ring);
      case 10:
        return FinishAnything(ring);
      case 11:
        return Show(ring);
      case 12:
        // Unregistered, or closed.
        LetGo(ring);
        return End(ring);
      case 13:
        return testbed_.device.memory->bell().Signal();
      default:
        return AddToDoorbell(ring);
    }
  }

  // Registered at its first use: making one costs as much as many steps.
  Ring& Used(size_t which) {
    Ring& ring = rings_[which];
    if (ring.kernel != nullptr) return ring;
    const ParameterBinding value{.writable = true};
    const ParameterBinding reads{.writable = true, .buffer = testbed_.input()};
    const ParameterBinding writes{.writable = true,
                                  .buffer = testbed_.output()};
    const ParameterBinding stepped{.buffer = {testbed_.output().data, 64},
                                   .slot_stride = 64};
    const std::array<TestDevice::Spec, kRings> specs = {
        {{.kernel = simt::FindKernel("null_event"),
          .bindings = {value},
          .entries = 1},
         {.kernel = simt::FindKernel("echo"),
          .bindings = {reads, stepped},
          .entries = 4},
         {.kernel = simt::FindKernel("vector_add"),
          .bindings = {reads, reads, writes},
          .entries = 8,
          .modifyable = true}}};
    testbed_.device.next_doorbell = static_cast<uint32_t>(which);
    ring.kernel = testbed_.device.Register(specs[which]).kernel;
    // DeviceRing's constructor is the device's.
    Mirror(shm::kConsumedOffset + which * sizeof(uint64_t), sizeof(uint64_t));
    return ring;
  }

  // --- The device.

  void Store(uint64_t offset, const void* bytes, size_t size) {
    if (offset < sizeof(shm::RegionHeader)) return;  // changes nothing: private
    if (!testbed_.submission().Contains(offset, size)) return;
    std::memcpy(testbed_.submission().At(offset), bytes, size);
    Mirror(offset, size);
  }
  void Mirror(uint64_t offset, size_t size) {
    std::memcpy(testbed_.shadow.data() + offset,
                testbed_.submission().At(offset), size);
  }
  void StoreAnywhere() {
    const uint64_t offset =
        input_.TakeBelow(static_cast<uint32_t>(testbed_.submission().size()));
    const auto bytes = input_.TakeBytes(input_.Take<uint8_t>() % 33);
    if (!bytes.empty()) Store(offset, bytes.data(), bytes.size());
  }
  void StoreInEntry(const Ring& ring) {
    const uint64_t offset =
        ring.layout().esq_offset +
        input_.TakeBelow(static_cast<uint32_t>(ring.layout().esq_bytes()));
    const auto bytes = input_.TakeBytes(input_.Take<uint8_t>() % 33);
    if (!bytes.empty()) Store(offset, bytes.data(), bytes.size());
  }
  uint32_t Doorbell(const Ring& ring) const {
    return testbed_.submission().doorbells()[ring.layout().doorbell.value()];
  }
  void SetDoorbell(const Ring& ring, uint32_t value) {
    Store(shm::kDoorbellOffset + ring.layout().doorbell.value() * sizeof(value),
          &value, sizeof(value));
  }
  void AddToDoorbell(const Ring& ring) {
    SetDoorbell(ring,
                Doorbell(ring) + static_cast<uint32_t>(input_.Take<int8_t>()));
  }
  // An entry as the SDK writes it, but for the parameters.
  void RingHonestly(const Ring& ring) {
    const shm::RingLayout& layout = ring.layout();
    const Sequence sequence(ring.kernel->launched() + 1);
    const auto how = input_.Take<uint8_t>();
    const bool kmd = layout.modifyable() && (how & 1) != 0;
    const uint64_t at = layout.esq_offset +
                        uint64_t{layout.SlotOf(sequence)} * layout.entry_bytes;
    const shm::EsqEntryHeader header{.sequence = sequence.value(),
                                     .generation = layout.generation.value(),
                                     .flags = kmd ? shm::kEsqKmdOverride : 0,
                                     .rung_ns = how,
                                     .reserved = 0};
    Store(at, &header, sizeof(header));
    if (kmd) {
      const shm::KmdOverride own{
          .grid = {input_.Take<uint8_t>(), 1, 1},
          .block = {input_.Take<uint16_t>(), input_.Take<uint8_t>(), 1},
          .shared_bytes = input_.Take<uint32_t>()};
      Store(at + sizeof(header), &own, sizeof(own));
    }
    for (uint32_t done = 0; done + sizeof(uint64_t) <= layout.parameter_bytes;
         done += sizeof(uint64_t)) {
      // Small numbers are good references more often than not.
      const uint64_t word = (how & 2) != 0
                                ? input_.Take<uint8_t>() * uint64_t{4}
                                : input_.Take<uint64_t>();
      Store(at + layout.parameter_offset + done, &word, sizeof(word));
    }
    SetDoorbell(ring, Doorbell(ring) + 1);
  }

  // --- gpud.

  void Poll(Ring& ring) {
    if (!ring.served) return;
    const DoorbellCursor::Pending pending =
        ring.kernel->cursor().PendingRings();
    if (pending.rings == 0) return;
    if (pending.violation) {
      // The device loses all it has.
      LoseAll();
      return;
    }
    FUZZ_CHECK(pending.rings <= ring.layout().entries);
    for (uint32_t i = 0; i < pending.rings; ++i) Take(ring);
    FUZZ_CHECK(ring.in_flight.size() <= ring.layout().entries, "%zu in flight",
               ring.in_flight.size());
  }

  void Take(Ring& ring) {
    const Sequence sequence = ring.kernel->cursor().TakeRing();
    FUZZ_CHECK(sequence.value() == ++ring.taken);
    CheckedEntry entry;
    const EventStatus status =
        CheckEntry(*ring.kernel, sequence, 1, GpuModel{}, entry);
    if (status == EventStatus::kOk) {
      CheckArguments(ring, entry);
      ring.in_flight.push_back(sequence);
      return;
    }
    FUZZ_CHECK(ring.kernel->ledger().Finish(
        sequence, {.state = EventState::kFailed,
                   .status = static_cast<uint32_t>(status),
                   .refused = true}));
    ++ring.refused;
    ++ring.ended;
    CheckSlot(ring, sequence, EventState::kFailed,
              static_cast<uint32_t>(status));
  }

  // Nothing that a launch is given leaves the buffers that were registered.
  void CheckArguments(const Ring& ring, const CheckedEntry& entry) {
    for (const simt::ParamInfo& param : ring.kernel->kmd().kernel->params) {
      if (!param.is_buffer()) continue;
      simt::Span<std::byte> span;
      std::memcpy(static_cast<void*>(&span), entry.args.data() + param.offset,
                  sizeof(span));
      const uint64_t bytes = span.size * param.element_size;
      FUZZ_CHECK(span.size <= kBufferBytes);
      const auto in = [&](const BufferRange& range) {
        return span.data >= range.data && bytes <= range.bytes &&
               static_cast<uint64_t>(span.data - range.data) <=
                   range.bytes - bytes;
      };
      const bool writes = param.kind == simt::ParamKind::kWriteBuffer;
      FUZZ_CHECK(in(writes ? testbed_.output() : testbed_.input()));
    }
    const KernelMetadata& kmd = entry.kmd;
    FUZZ_CHECK(CheckKernelMetadata(kmd, GpuModel{}).ok());
  }

  void CheckSlot(const Ring& ring, Sequence sequence, EventState state,
                 uint32_t status) {
    const shm::EcqEntry& slot = *ring.kernel->ring().completion_slot(sequence);
    FUZZ_CHECK(slot.sequence == sequence.value());
    FUZZ_CHECK(slot.state == state && slot.status == status);
  }

  void Finish(Ring& ring) {
    if (ring.in_flight.empty()) return;
    const size_t which = input_.Take<uint8_t>() % ring.in_flight.size();
    const Sequence sequence = ring.in_flight[which];
    ring.in_flight.erase(ring.in_flight.begin() +
                         static_cast<ptrdiff_t>(which));
    shm::EventLife life{};
    life.rung_ns = input_.Take<uint8_t>();
    life.seen_ns = 7;
    const auto status = uint32_t{input_.Take<uint8_t>()};
    const EventState state =
        status % 2 == 0 ? EventState::kDone : EventState::kFailed;
    FUZZ_CHECK(ring.kernel->ledger().Finish(
        sequence, {.state = state,
                   .status = status,
                   .life = status % 3 == 0 ? &life : nullptr}));
    ++ring.ended;
    CheckSlot(ring, sequence, state, status);
    FUZZ_CHECK(!ring.kernel->ledger().Finish(sequence, {}), "ended twice");
  }

  // Late words of a worker for an event that has ended, or was never launched.
  void FinishAnything(Ring& ring) {
    const Sequence sequence(input_.Take<uint16_t>());
    for (const Sequence open : ring.in_flight) {
      if (open == sequence) return;
    }
    FUZZ_CHECK(!ring.kernel->ledger().Finish(sequence, {}));
  }

  void Schedule(Ring& ring) {
    const uint64_t through = input_.TakeBool()
                                 ? input_.Take<uint64_t>()
                                 : ring.taken + input_.Take<uint8_t>() % 12;
    const bool taken = ring.kernel->ScheduleThrough(through);
    FUZZ_CHECK(taken == (through <= ring.taken + ring.layout().entries));
  }

  void Show(Ring& ring) {
    CheckCounts(ring);
    FUZZ_CHECK(ring.kernel->waiting_rings() <= ring.layout().entries);
    FUZZ_CHECK(ring.kernel->ended_in_order() <= ring.taken);
    (void)ring.kernel->ring().LoadConsumed();
    (void)ring.kernel->last_failure();
  }

  void CheckCounts(const Ring& ring) {
    const EventCounts counts = ring.kernel->counts();
    FUZZ_CHECK(counts.rung == ring.taken);
    FUZZ_CHECK(counts.done + counts.failed + counts.aborted == ring.ended);
    FUZZ_CHECK(counts.refused == ring.refused);
    FUZZ_CHECK(ring.kernel->in_flight() == ring.in_flight.size());
  }

  void LoseAll() {
    for (Ring& ring : rings_) {
      if (ring.kernel == nullptr) continue;
      LetGo(ring);
      End(ring);
    }
  }
  // As FrontEnd::LetGo(): what waits goes with the rest.
  void LetGo(Ring& ring) {
    if (!ring.served) return;
    ring.served = false;
    const DoorbellCursor::Pending pending =
        ring.kernel->cursor().PendingRings();
    if (pending.violation) return;
    for (uint32_t i = 0; i < pending.rings; ++i) {
      const Sequence sequence = ring.kernel->cursor().TakeRing();
      FUZZ_CHECK(sequence.value() == ++ring.taken);
      ring.in_flight.push_back(sequence);
    }
  }
  void End(Ring& ring) {
    const uint64_t aborted =
        ring.kernel->AbortUnfinished(EventStatus::kDeviceGone);
    FUZZ_CHECK(aborted == ring.in_flight.size());
    for (const Sequence sequence : ring.in_flight) {
      CheckSlot(ring, sequence, EventState::kAborted,
                static_cast<uint32_t>(EventStatus::kDeviceGone));
    }
    ring.ended += aborted;
    ring.in_flight.clear();
    CheckCounts(ring);
  }

  Testbed& testbed_;
  fuzz::FuzzInput input_;
  std::array<Ring, kRings> rings_;
};

}  // namespace
}  // namespace carillon::gpud

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* const testbed = new carillon::gpud::Testbed;
  carillon::gpud::Run(*testbed, {data, size}).Go();
  return 0;
}
