// What the other host says that its end of an aperture has: either it is stored
// where that host may write, byte by byte, or it is refused; and what is there
// then, told on, makes the same memory.
//
//   u8          bit 0: of a submission aperture; else of a completion aperture
//   u8          pages of its heap, less one, modulo 4
//   u8          bit 0: a ChangedMemory as it comes; else over and over:
//               u8 bit 0: u64 offset; else u16, in words of 8 bytes
//               u16 length modulo 520, its bytes
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/testing/fuzz_input.h"
#include "mesh/session/memory_changes.h"

namespace carillon::mesh {
namespace {

using shm::Aperture;
using shm::RegionKind;

Aperture Make(RegionKind kind, uint64_t pages) {
  auto aperture = Aperture::Create({.kind = kind,
                                    .growth_bytes = pages * shm::kPageSize,
                                    .generation = shm::Generation(1)});
  FUZZ_CHECK(aperture.ok());
  return *std::move(aperture);
}

v1::ChangedMemory TakeChanged(fuzz::FuzzInput& input) {
  v1::ChangedMemory changed;
  if (input.TakeBool()) {
    if (!changed.ParseFromString(std::string(input.TakeRest()))) {
      changed.Clear();
    }
    return changed;
  }
  while (!input.empty()) {
    auto* const range = changed.add_ranges();
    range->set_offset(input.TakeBool() ? input.Take<uint64_t>()
                                       : uint64_t{8} * input.Take<uint16_t>());
    range->set_bytes(std::string(input.TakeText(input.TakeBelow(520))));
  }
  return changed;
}

void Run(fuzz::FuzzInput input) {
  const RegionKind kind =
      input.TakeBool() ? RegionKind::kSubmission : RegionKind::kCompletion;
  const uint64_t pages = 1 + input.Take<uint8_t>() % 4;
  const Aperture here = Make(kind, pages);
  const uint64_t first = kind == RegionKind::kSubmission ? shm::kTelemetryOffset
                                                         : here.heap_offset();
  const v1::ChangedMemory changed = TakeChanged(input);
  std::vector<std::byte> expected(here.At(0), here.At(0) + here.size());
  bool good = true;
  for (const v1::ChangedRange& range : changed.ranges()) {
    const uint64_t length = range.bytes().size();
    good = range.offset() % 8 == 0 && length % 8 == 0 &&
           range.offset() >= first && range.offset() <= here.size() &&
           length <= here.size() - range.offset();
    if (!good) break;
    std::memcpy(expected.data() + range.offset(), range.bytes().data(), length);
  }
  FUZZ_CHECK(StoreChanges(changed, here) == good);
  FUZZ_CHECK(std::memcmp(here.At(0), expected.data(), expected.size()) == 0);

  const Aperture there = Make(kind, pages);
  MemoryChanges changes(&here);
  changes.Collect(1, [&](const v1::ChangedMemory& told) {
    FUZZ_CHECK(StoreChanges(told, there));
  });
  FUZZ_CHECK(
      std::memcmp(here.At(first), there.At(first), here.size() - first) == 0);
  changes.Collect(1, [&](const v1::ChangedMemory&) {
    FUZZ_CHECK(false, "what is told is told again");
  });
}

}  // namespace
}  // namespace carillon::mesh

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::mesh::Run(carillon::fuzz::FuzzInput(data, size));
  return 0;
}
