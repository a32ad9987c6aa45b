#include "shm/testing/ring_fixture.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "fmt/format.h"
#include "shm/region_heap.h"

namespace carillon::shm {
namespace {

absl::StatusOr<Aperture> MapCopy(const Aperture& aperture) {
  UniqueFd copy(fcntl(aperture.fd(), F_DUPFD_CLOEXEC, 0));
  if (!copy) {
    return absl::ResourceExhaustedError(fmt::format(
        "cannot copy an aperture's descriptor: {}", std::strerror(errno)));
  }
  return Aperture::Map(std::move(copy), aperture.kind(), aperture.generation());
}

}  // namespace

absl::StatusOr<std::unique_ptr<RingFixture>> RingFixture::Make(
    const Options& options) {
  RETURN_IF_ERROR(CheckRingEntries(options.entries));
  const RingLayout shape = MakeRingLayout(
      options.entries, options.parameter_bytes, options.modifyable);
  const uint64_t output_bytes =
      uint64_t{options.entries} * options.output_bytes_per_slot;
  std::unique_ptr<RingFixture> fixture(new RingFixture(options));
  ApertureSpec spec{
      .kind = RegionKind::kSubmission,
      .heap_bytes =
          options.rings * AlignUp(shape.esq_bytes(), RegionHeap::kAlignment),
      .generation = options.generation,
      .device_id = 1,
      .doorbell_count =
          static_cast<uint32_t>(AlignUp(options.rings, kDoorbellsPerLine))};
  ASSIGN_OR_RETURN(fixture->gpud_submission_, Aperture::Create(spec));
  spec.kind = RegionKind::kCompletion;
  spec.heap_bytes =
      options.rings * (AlignUp(shape.ecq_bytes(), RegionHeap::kAlignment) +
                       AlignUp(shape.life_bytes(), RegionHeap::kAlignment) +
                       AlignUp(output_bytes, RegionHeap::kAlignment));
  ASSIGN_OR_RETURN(fixture->gpud_completion_, Aperture::Create(spec));
  if (!options.one_mapping) {
    ASSIGN_OR_RETURN(fixture->device_submission_,
                     MapCopy(fixture->gpud_submission_));
    ASSIGN_OR_RETURN(fixture->device_completion_,
                     MapCopy(fixture->gpud_completion_));
  }
  ASSIGN_OR_RETURN(fixture->event_, CompletionEvent::Create());

  RegionHeap submission_heap(fixture->gpud_submission_.heap_offset(),
                             fixture->gpud_submission_.heap_size());
  RegionHeap completion_heap(fixture->gpud_completion_.heap_offset(),
                             fixture->gpud_completion_.heap_size());
  for (uint32_t ring = 0; ring < options.rings; ++ring) {
    RingLayout layout = shape;
    layout.doorbell = DoorbellIndex(ring);
    layout.generation = options.generation;
    // Sized above to hold exactly these, so value() cannot fail.
    layout.esq_offset = submission_heap.Allocate(layout.esq_bytes()).value();
    layout.ecq_offset = completion_heap.Allocate(layout.ecq_bytes()).value();
    layout.life_offset = completion_heap.Allocate(layout.life_bytes()).value();
    fixture->outputs_.push_back(
        output_bytes == 0 ? 0 : completion_heap.Allocate(output_bytes).value());
    RETURN_IF_ERROR(CheckRingLayout(layout, fixture->gpud_submission_,
                                    fixture->gpud_completion_));
    fixture->gpud_submission_.doorbells()[ring] = options.first_doorbell;
    fixture->layouts_.push_back(layout);
  }
  return fixture;
}

}  // namespace carillon::shm
