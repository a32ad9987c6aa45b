// The device's side of its apertures, with a gpud that stores what it likes in
// the completion aperture, and hands over what it likes at first. What must
// hold: the device reaches nothing outside of the places that it has checked,
// writes to its own words only, never has more in flight than the ring holds,
// and takes completions in order, each once.
//
//   u8           bit 0: an aperture to map: the header, 128 bytes, follows
//   40 bytes     the ring layout as gpud tells it; bit 1 of the first byte: as
//                it should be
//   steps        u8: what; then what it takes
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "base/testing/fuzz_input.h"
#include "base/unique_fd.h"
#include "shm/device_ring.h"
#include "shm/ring_layout.h"
#include "shm/wakeups.h"

namespace carillon::shm {
namespace {

constexpr uint64_t kHeapBytes = 8 << 10;
constexpr Generation kGeneration{3};
constexpr size_t kMaxSteps = 2000;

// Both sides of both apertures; made once and reset for every input. A byte
// behind either, or before it, is nobody's.
struct Apertures {
  Apertures() {
    Guard();
    gpud_submission = Make(RegionKind::kSubmission);
    Guard();
    gpud_completion = Make(RegionKind::kCompletion);
    Guard();
    submission = Copy(gpud_submission);
    Guard();
    completion = Copy(gpud_completion);
    Guard();
    shadow.resize(submission.size());
  }
  static void Guard() {
    FUZZ_CHECK(mmap(nullptr, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
                    -1, 0) != MAP_FAILED);
  }
  static Aperture Make(RegionKind kind) {
    return Aperture::Create({.kind = kind,
                             .heap_bytes = kHeapBytes,
                             .generation = kGeneration,
                             .device_id = 1})
        .value();
  }
  static Aperture Copy(const Aperture& aperture) {
    return Aperture::Map(UniqueFd(dup(aperture.fd())), aperture.kind(),
                         kGeneration)
        .value();
  }

  Aperture gpud_submission;
  Aperture gpud_completion;
  Aperture submission;
  Aperture completion;
  std::vector<std::byte> shadow;
};

void MapHandedOver(fuzz::FuzzInput& input) {
  const auto how = input.Take<uint8_t>();
  const auto kind =
      (how & 1) != 0 ? RegionKind::kSubmission : RegionKind::kCompletion;
  const uint64_t smallest = kind == RegionKind::kSubmission
                                ? kSubmissionHeapOffset
                                : kCompletionHeapOffset;
  const uint64_t size = (how & 2) != 0 ? smallest + kPageSize
                                       : input.Take<uint32_t>() % (64 << 10);
  UniqueFd fd(memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  FUZZ_CHECK(fd.get() >= 0);
  FUZZ_CHECK(ftruncate(fd.get(), static_cast<off_t>(size)) == 0);
  RegionHeader header{.magic = kMagic,
                      .layout_version = kLayoutVersion,
                      .kind = kind,
                      .size = size,
                      .generation = kGeneration.value(),
                      .heap_offset = smallest,
                      .heap_size = size - smallest,
                      .doorbell_count = kDoorbellsPerLine};
  // As it should be, but for some of it.
  const size_t at = input.TakeBelow(sizeof(header));
  const auto bytes =
      input.TakeBytes(std::min<size_t>(how >> 4, sizeof(header) - at));
  if (!bytes.empty()) {
    std::memcpy(reinterpret_cast<std::byte*>(&header) + at, bytes.data(),
                bytes.size());
  }
  FUZZ_CHECK(pwrite(fd.get(), &header, std::min(size, sizeof(header)), 0) >= 0);
  const bool sealed = (how & 4) != 0;
  if (sealed) {
    FUZZ_CHECK(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  }
  const auto mapped = Aperture::Map(std::move(fd), kind, kGeneration);
  if (!mapped.ok()) {
    FUZZ_CHECK(!mapped.status().message().empty());
    return;
  }
  FUZZ_CHECK(sealed && mapped->size() == size && mapped->kind() == kind);
  FUZZ_CHECK(mapped->heap_offset() == smallest);
  FUZZ_CHECK(mapped->Contains(mapped->heap_offset(), mapped->heap_size()));
  FUZZ_CHECK(!mapped->Contains(mapped->heap_offset(), mapped->heap_size() + 1));
  FUZZ_CHECK(mapped->doorbell_count() >= 1 &&
             mapped->doorbell_count() <= kMaxDoorbells);
}

RingLayout TakeLayout(fuzz::FuzzInput& input, bool good) {
  RingLayout layout = MakeRingLayout(4, 24, /*modifyable=*/true);
  layout.generation = kGeneration;
  layout.esq_offset = kSubmissionHeapOffset;
  layout.ecq_offset = kCompletionHeapOffset;
  layout.life_offset = kCompletionHeapOffset + 256;
  if (good) return layout;
  // One number for each that is not as it should be.
  const auto which = input.Take<uint16_t>();
  const auto change = [&](int bit, auto& field) {
    if ((which >> bit & 1) != 0) {
      field = input.Take<std::remove_reference_t<decltype(field)>>();
    }
  };
  change(0, layout.doorbell);
  change(1, layout.generation);
  change(2, layout.entries);
  change(3, layout.entry_bytes);
  change(4, layout.parameter_offset);
  change(5, layout.parameter_bytes);
  change(6, layout.esq_offset);
  change(7, layout.ecq_offset);
  change(8, layout.life_offset);
  return layout;
}

class Run {
 public:
  Run(Apertures& apertures, const RingLayout& layout, fuzz::FuzzInput input)
      : apertures_(apertures),
        layout_(layout),
        input_(input),
        ring_(layout, &apertures.submission, &apertures.completion) {}

  void Go() {
    for (size_t i = 0; i < kMaxSteps && !input_.empty(); ++i) {
      Step();
      FUZZ_CHECK(ring_.free_slots() <= layout_.entries);
      FUZZ_CHECK(ring_.in_flight() <= layout_.entries);
      FUZZ_CHECK(ring_.last_consumed() <= ring_.last_rung() &&
                 ring_.last_rung() <= ring_.last_committed());
    }
    CheckWrites();
  }

 private:
  void Step() {
    const auto what = input_.Take<uint8_t>();
    switch (what & 7) {
      case 0:
        return StoreAnywhere();
      case 1:
      case 2:
        return Complete();
      case 3:
      case 4:
        return Commit(what >> 3);
      case 5:
        return ring_.RingDoorbell();
      case 6:
        return Poll();
      default:
        return Look();
    }
  }

  // --- gpud.

  void StoreAnywhere() {
    const Aperture& completion = apertures_.gpud_completion;
    const uint64_t offset =
        kControlOffset + input_.TakeBelow(static_cast<uint32_t>(
                             completion.size() - kControlOffset));
    const auto bytes = input_.TakeBytes(input_.Take<uint8_t>() % 33);
    if (bytes.empty() || !completion.Contains(offset, bytes.size())) return;
    std::memcpy(completion.At(offset), bytes.data(), bytes.size());
  }
  // A completion of an event near the next one, or of any.
  void Complete() {
    const auto how = input_.Take<uint8_t>();
    const uint64_t sequence = how < 250
                                  ? ring_.last_consumed().value() + how % 8
                                  : input_.Take<uint64_t>();
    auto* const slots = reinterpret_cast<EcqEntry*>(
        apertures_.gpud_completion.At(layout_.ecq_offset));
    slots[layout_.SlotOf(Sequence(sequence))] = {
        .state = static_cast<EventState>(how & 7),
        .status = how,
        .sequence = sequence};
  }

  // --- The device.

  void Commit(uint8_t how) {
    if (ring_.free_slots() == 0) return;
    FUZZ_CHECK(ring_.next_slot() < layout_.entries);
    std::memset(ring_.parameters(), how, layout_.parameter_bytes);
    const KmdOverride kmd{.grid = {how, 1, 1}, .block = {32, 1, 1}};
    ring_.Commit(layout_.modifyable() && (how & 1) != 0 ? &kmd : nullptr, how);
  }
  void Poll() {
    const auto completion = ring_.Poll();
    if (!completion) return;
    FUZZ_CHECK(ring_.in_flight() > 0);
    FUZZ_CHECK(completion->sequence == ring_.last_consumed() + 1);
    (void)ring_.life();
    ring_.Consume();
    FUZZ_CHECK(ring_.last_consumed() == completion->sequence);
  }
  void Look() {
    const CompletionWaiter waiter(&apertures_.submission,
                                  &apertures_.completion, &closed_);
    const uint32_t word =
        LoadShared(apertures_.gpud_completion.completion_control().closed,
                   std::memory_order_relaxed);
    FUZZ_CHECK(waiter.closed() == (word != 0));
    (void)waiter.close_reason();
  }

  // Outside of the ring's own places nothing has changed.
  void CheckWrites() {
    std::vector<std::byte>& shadow = apertures_.shadow;
    const Aperture& submission = apertures_.submission;
    const auto own = [&](uint64_t offset, uint64_t bytes) {
      std::memcpy(shadow.data() + offset, submission.At(offset), bytes);
    };
    own(layout_.esq_offset, layout_.esq_bytes());
    own(kDoorbellOffset + layout_.doorbell.value() * sizeof(uint32_t),
        sizeof(uint32_t));
    own(kConsumedOffset + layout_.doorbell.value() * sizeof(uint64_t),
        sizeof(uint64_t));
    own(kControlOffset, sizeof(SubmissionControl));
    FUZZ_CHECK(
        std::memcmp(shadow.data(), submission.At(0), submission.size()) == 0,
        "the device has written where nothing of its ring is");
  }

  Apertures& apertures_;
  const RingLayout layout_;
  fuzz::FuzzInput input_;
  DeviceRing ring_;
  ClosedWord closed_;
};

void RunAll(Apertures& apertures, fuzz::FuzzInput input) {
  const auto how = input.Take<uint8_t>();
  if ((how & 1) != 0) return MapHandedOver(input);
  const RingLayout layout = TakeLayout(input, (how & 2) != 0);
  const absl::Status checked =
      CheckRingLayout(layout, apertures.submission, apertures.completion);
  if (!checked.ok()) {
    FUZZ_CHECK(!checked.message().empty());
    return;
  }
  for (const Aperture* aperture :
       {&apertures.gpud_submission, &apertures.gpud_completion}) {
    std::memset(aperture->At(kControlOffset), 0,
                aperture->size() - kControlOffset);
  }
  std::memcpy(apertures.shadow.data(), apertures.submission.At(0),
              apertures.submission.size());
  Run(apertures, layout, input).Go();
}

}  // namespace
}  // namespace carillon::shm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* const apertures = new carillon::shm::Apertures;
  carillon::shm::RunAll(*apertures, {data, size});
  return 0;
}
