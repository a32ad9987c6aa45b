// What the other host says behind its HELLO, to either end, while events are
// rung, run and stored: whatever it is, no event is run, or its end taken, but
// the next one; no more are in flight than the ring has slots; and one broken
// rule ends the link.
//
//   u8          bit 0: the far end listens; else the near end
//   then, over and over: u8 how many bytes come at once (0: 256), the bytes;
//               between them this end does what it can
#include <map>
#include <string>

#include "base/testing/fuzz_input.h"
#include "mesh/far_end.h"
#include "mesh/near_end.h"

namespace carillon::mesh {
namespace {

using shm::EventState;
using shm::Sequence;

const RingLimits kLimits{4, 64, 64};

LinkOptions Options(const char* self, const char* peer) {
  return {.self = {"lab", self, "1", "kernels", 1}, .peer = peer, .times = {}};
}

// Takes all that an end has to say.
template <class End>
void Drain(End& end) {
  while (const auto out = end.Poll(0)) {
    FUZZ_CHECK(out->bytes.size() <= kHeaderBytes + kMaxPayloadBytes);
  }
}

struct Gpu : FarHost {
  struct GpuRing {
    RingSerial serial;
    RingLimits limits;
    uint64_t accepted = 0;
    uint64_t freed = 0;
  };
  std::optional<absl::Status> MakeRing(RingId ring, RingSerial serial,
                                       const RingLimits& limits,
                                       Sequence last) override {
    if (limits.slots == 1) return absl::ResourceExhaustedError("no place");
    const bool is_new =
        rings.emplace(ring, GpuRing{serial, limits, last.value(), last.value()})
            .second;
    FUZZ_CHECK(is_new);
    FUZZ_CHECK(CheckLimits(limits).ok() && rings.size() <= kMaxRings);
    return absl::OkStatus();
  }
  void RunEvent(RingId ring, Sequence number, std::string_view event) override {
    GpuRing& at = rings.at(ring);
    FUZZ_CHECK(number.value() == at.accepted + 1);
    FUZZ_CHECK(event.size() <= at.limits.event_bytes);
    at.accepted = number.value();
    FUZZ_CHECK(at.accepted - at.freed <= at.limits.slots);
  }
  End ReadEnd(RingId ring, Sequence number, std::string* output) override {
    const GpuRing& at = rings.at(ring);
    FUZZ_CHECK(number.value() > at.freed && number.value() <= at.accepted);
    if (at.limits.done_bytes >= 3) *output += "out";
    return {EventState::kDone, 0, {}};
  }
  void Free(RingId ring, Sequence last) override {
    GpuRing& at = rings.at(ring);
    FUZZ_CHECK(last.value() > at.freed && last.value() <= at.accepted);
    at.freed = last.value();
  }
  void DropRing(RingId ring, GoneReason) override {
    FUZZ_CHECK(rings.erase(ring) == 1);
  }

  std::map<RingId, GpuRing> rings;
};

void RunFar(fuzz::FuzzInput input) {
  Gpu gpu;
  FarEnd far(Options("b", "a"), &gpu, 0);
  const auto epoch = std::get<Epoch>(far.Accept(Options("a", "b").self, 0));
  bool broken = false;
  while (!input.empty()) {
    const size_t count = input.Take<uint8_t>();
    const auto text = input.TakeText(count == 0 ? 256 : count);
    const absl::Status status = far.Receive(epoch, text, 0);
    FUZZ_CHECK(!broken || status.ok(), "judged after its end");
    if (!status.ok()) {
      broken = true;
      FUZZ_CHECK(gpu.rings.empty() && !far.is_up());
    }
    for (const auto& [ring, at] : gpu.rings) {
      far.Done(ring, at.serial, Sequence(at.accepted));
    }
    Drain(far);
  }
}

struct Device : NearHost {
  void ReadEvent(RingId, Sequence number, std::string* to) override {
    FUZZ_CHECK(number.value() > ended && number.value() <= rung);
    *to += "event";
  }
  bool TakeEnd(RingId, Sequence number, const End& end) override {
    FUZZ_CHECK(number.value() == ended + 1 && number.value() <= rung);
    FUZZ_CHECK(!refused);
    FUZZ_CHECK(end.output.size() <= kLimits.done_bytes);
    FUZZ_CHECK(end.state != EventState::kNone && !lost);
    ended = number.value();
    return true;
  }
  void LoseRing(RingId, const std::string& why, bool) override {
    FUZZ_CHECK(!why.empty() && !lost && !refused);
    refused = true;
  }
  void LoseLink(const std::string& why) override {
    FUZZ_CHECK(!why.empty() && !lost);
    lost = true;
  }

  uint64_t rung = 0;
  uint64_t ended = 0;
  bool lost = false;
  bool refused = false;
};

void RunNear(fuzz::FuzzInput input) {
  constexpr RingId kRing(1);
  Device device;
  NearEnd near(Options("a", "b"), &device, 0);
  FUZZ_CHECK(near.AddRing(kRing, kLimits, Sequence(), Sequence()).ok());
  const Epoch epoch = *near.Open(0);
  std::string first;
  AppendFrame(Options("b", "a").self, &first);
  FUZZ_CHECK(near.Receive(epoch, first, 0).ok());
  Drain(near);
  while (!input.empty()) {
    const size_t count = input.Take<uint8_t>();
    const auto text = input.TakeText(count == 0 ? 256 : count);
    const absl::Status status = near.Receive(epoch, text, 0);
    FUZZ_CHECK(!status.ok() || !near.is_lost() || device.lost);
    if (!status.ok() && !absl::IsAborted(status)) FUZZ_CHECK(near.is_lost());
    FUZZ_CHECK(near.is_lost() == device.lost);
    device.rung = device.ended + kLimits.slots;
    near.Rang(kRing, Sequence(device.rung));
    Drain(near);
  }
}

}  // namespace
}  // namespace carillon::mesh

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::fuzz::FuzzInput input(data, size);
  if (input.TakeBool()) {
    carillon::mesh::RunFar(input);
  } else {
    carillon::mesh::RunNear(input);
  }
  return 0;
}
