// RegionHeap against a list of who has which bytes: no range is given twice or
// leaves the heap, none is lost, and free ranges join again.
//
//   u64          where the heap begins, below 1 TiB
//   u32          its size
//   steps        u8: what; then what it takes
#include <map>
#include <optional>

#include "base/testing/fuzz_input.h"
#include "shm/layout.h"
#include "shm/region_heap.h"

namespace carillon::shm {
namespace {

constexpr uint64_t kMost = uint64_t{1} << 40;
constexpr size_t kMaxSteps = 1000;

class Model {
 public:
  Model(uint64_t offset, uint64_t size)
      : begin_(AlignUp(offset, RegionHeap::kAlignment)),
        end_((offset + size) & ~(RegionHeap::kAlignment - 1)),
        free_(this->size()),
        largest_(free_) {}

  uint64_t size() const { return end_ > begin_ ? end_ - begin_ : 0; }
  uint64_t begin() const { return begin_; }
  uint64_t free() const { return free_; }
  uint64_t largest() const { return largest_; }
  bool CanTake(uint64_t offset, uint64_t bytes) const {
    if (bytes == 0 || offset % RegionHeap::kAlignment != 0) return false;
    if (bytes > size() || offset < begin_ || offset > end_) return false;
    bytes = AlignUp(bytes, RegionHeap::kAlignment);
    if (bytes > end_ - offset) return false;
    const auto next = used_.lower_bound(offset);
    if (next != used_.end() && next->first - offset < bytes) return false;
    if (next == used_.begin()) return true;
    const auto before = std::prev(next);
    return before->first + before->second <= offset;
  }
  void Take(uint64_t offset, uint64_t bytes) {
    bytes = AlignUp(bytes, RegionHeap::kAlignment);
    used_[offset] = bytes;
    free_ -= bytes;
    Measure();
  }
  bool Give(uint64_t offset) {
    const auto range = used_.find(offset);
    if (range == used_.end()) return false;
    free_ += range->second;
    used_.erase(range);
    Measure();
    return true;
  }
  // The n-th range in use.
  std::optional<uint64_t> Used(size_t n) const {
    if (used_.empty()) return std::nullopt;
    return std::next(used_.begin(), static_cast<ptrdiff_t>(n % used_.size()))
        ->first;
  }

 private:
  // Only after a change: it costs as much as the heap's own step.
  void Measure() {
    uint64_t at = begin_;
    largest_ = 0;
    for (const auto& [offset, bytes] : used_) {
      largest_ = std::max(largest_, offset - at);
      at = offset + bytes;
    }
    largest_ = std::max(largest_, end_ - at);
  }

  const uint64_t begin_;
  const uint64_t end_;
  uint64_t free_;
  uint64_t largest_;
  std::map<uint64_t, uint64_t> used_;
};

void Run(fuzz::FuzzInput input) {
  const uint64_t offset = input.Take<uint64_t>() % kMost;
  const uint64_t size = input.Take<uint32_t>();
  RegionHeap heap(offset, size);
  Model model(offset, size);
  for (size_t i = 0; i < kMaxSteps && !input.empty(); ++i) {
    const auto what = input.Take<uint8_t>();
    const uint64_t bytes =
        (what & 8) != 0 ? input.Take<uint64_t>() : input.Take<uint16_t>() * 8;
    switch (what & 3) {
      case 0: {
        const auto got = heap.Allocate(bytes);
        const bool fits = bytes != 0 && bytes <= model.largest();
        FUZZ_CHECK(got.has_value() == fits);
        if (!got) break;
        FUZZ_CHECK(model.CanTake(*got, bytes));
        model.Take(*got, bytes);
        break;
      }
      case 1: {
        const uint64_t at = (what & 16) != 0
                                ? input.Take<uint64_t>()
                                : model.begin() + input.Take<uint16_t>() * 64;
        const bool can = model.CanTake(at, bytes);
        FUZZ_CHECK(heap.AllocateAt(at, bytes) == can);
        if (can) model.Take(at, bytes);
        break;
      }
      case 2: {
        const auto used = model.Used(bytes);
        if (!used) break;
        FUZZ_CHECK(heap.Free(*used) && model.Give(*used));
        break;
      }
      default:
        FUZZ_CHECK(heap.Free(bytes) == model.Give(bytes));
    }
    FUZZ_CHECK(heap.free_bytes() == model.free());
    FUZZ_CHECK(heap.largest_free() == model.largest());
  }
}

}  // namespace
}  // namespace carillon::shm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::shm::Run({data, size});
  return 0;
}
