#include "gpu_daemon/event/argument_steps.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "gpu_daemon/event/argument_plan.h"

namespace carillon::gpud {
namespace {

using simt::ParamInfo;
using simt::ParamKind;

constexpr uint64_t kMemoryBytes = 1 << 16;
alignas(64) std::byte memory[kMemoryBytes];

// A kernel's parameters, and how a device bound them.
struct Bound {
  std::vector<ParamInfo> params;
  std::vector<ParameterBinding> bindings;
  // Where each parameter lies in the ESQ entry, if it is writable.
  std::vector<uint32_t> entry_offsets;
  uint32_t args_size = 0;
  uint32_t entry_bytes = 0;

  simt::KernelInfo kernel() const {
    return {.name = "any",
            .summary = "",
            .params = params,
            .args_size = args_size,
            .args_align = 8};
  }
};

uint32_t BytesOf(const ParamInfo& info) {
  if (!info.is_buffer()) return info.element_size;
  return info.buffer_form == simt::BufferForm::kSpan ? 16 : 8;
}

ParamInfo RandomParam() {
  static constexpr ParamKind kValues[] = {ParamKind::kU32, ParamKind::kI64,
                                          ParamKind::kF32, ParamKind::kF64};
  if (*rc::gen::arbitrary<bool>()) {
    const auto kind = *rc::gen::elementOf(
        std::vector(std::begin(kValues), std::end(kValues)));
    const uint32_t size =
        kind == ParamKind::kU32 || kind == ParamKind::kF32 ? 4 : 8;
    return {.kind = kind, .element_size = size, .element_align = size};
  }
  const uint32_t align = 1u << *rc::gen::inRange(0, 4);
  return {.kind = ParamKind::kReadBuffer,
          .element_size = align * *rc::gen::inRange<uint32_t>(1, 4),
          .element_align = align,
          .buffer_form = *rc::gen::arbitrary<bool>()
                             ? simt::BufferForm::kSpan
                             : simt::BufferForm::kPointer};
}

ParameterBinding RandomBinding(const ParamInfo& info) {
  ParameterBinding binding;
  binding.writable = *rc::gen::arbitrary<bool>();
  if (!info.is_buffer()) {
    binding.constant_bits = *rc::gen::arbitrary<uint64_t>();
    return binding;
  }
  binding.buffer.data =
      memory + info.element_align * *rc::gen::inRange<uint32_t>(0, 64);
  binding.buffer.bytes =
      info.element_size * *rc::gen::inRange<uint64_t>(0, 100);
  if (!binding.writable) {
    binding.slot_stride =
        info.element_align * *rc::gen::inRange<uint64_t>(0, 20);
  }
  return binding;
}

Bound RandomBound() {
  Bound bound;
  const uint32_t count = *rc::gen::inRange<uint32_t>(1, 40);
  for (uint32_t i = 0; i < count; ++i) {
    ParamInfo info = RandomParam();
    const uint32_t align = info.is_buffer() ? 8 : info.element_size;
    info.offset = static_cast<uint32_t>(shm::AlignUp(bound.args_size, align));
    bound.args_size = info.offset + BytesOf(info);
    const ParameterBinding binding = RandomBinding(info);
    uint32_t at = 0;
    if (binding.writable) {
      at = static_cast<uint32_t>(shm::AlignUp(bound.entry_bytes, align));
      bound.entry_bytes =
          at + (info.is_buffer() ? sizeof(shm::BufferRef) : info.element_size);
    }
    bound.params.push_back(info);
    bound.bindings.push_back(binding);
    bound.entry_offsets.push_back(at);
  }
  bound.args_size = static_cast<uint32_t>(shm::AlignUp(bound.args_size, 8));
  return bound;
}

// Mostly references that are within the range, or nearly so.
std::vector<std::byte> RandomParameters(const Bound& bound) {
  std::vector<std::byte> bytes(bound.entry_bytes + 8);
  for (std::byte& byte : bytes)
    byte = std::byte{*rc::gen::arbitrary<uint8_t>()};
  if (*rc::gen::inRange(0, 4) == 0) return bytes;
  for (size_t i = 0; i < bound.params.size(); ++i) {
    const ParamInfo& info = bound.params[i];
    if (!info.is_buffer() || !bound.bindings[i].writable) continue;
    const uint64_t elements =
        bound.bindings[i].buffer.bytes / info.element_size;
    const uint64_t first = *rc::gen::inRange<uint64_t>(0, elements + 1);
    shm::BufferRef ref = {
        .offset = first * info.element_size,
        .length = *rc::gen::inRange<uint64_t>(0, elements - first + 1) *
                  info.element_size};
    switch (*rc::gen::inRange(0, 24)) {
      case 0:
        ref.length += info.element_size;
        break;
      case 1:
        ref.offset += 1;
        break;
      case 2:
        ref.length += 1;
        break;
      case 3:
        ref.length = 0 - ref.offset;
        break;
    }
    std::memcpy(bytes.data() + bound.entry_offsets[i], &ref, sizeof(ref));
  }
  return bytes;
}

// What parameter `i` is for slot `slot`, as the bindings say it, without a plan:
// `bytes` of `value`. False: the device chose a buffer that it may not.
struct Expected {
  uint64_t value[2];
  uint32_t bytes;
};
bool Expect(const Bound& bound, size_t i, uint32_t slot,
            const std::vector<std::byte>& parameters, Expected& expected) {
  const ParamInfo& info = bound.params[i];
  const ParameterBinding& binding = bound.bindings[i];
  const std::byte* from = parameters.data() + bound.entry_offsets[i];
  expected = {.value = {binding.constant_bits, 0}, .bytes = BytesOf(info)};
  if (!info.is_buffer()) {
    if (binding.writable) {
      std::memcpy(expected.value, from, info.element_size);
    }
    return true;
  }
  shm::BufferRef ref = {.offset = slot * binding.slot_stride,
                        .length = binding.buffer.bytes};
  if (binding.writable) {
    std::memcpy(&ref, from, sizeof(ref));
    // 128 bits: nothing overflows.
    if (static_cast<unsigned __int128>(ref.offset) + ref.length >
            binding.buffer.bytes ||
        ref.offset % info.element_align != 0 ||
        ref.length % info.element_size != 0) {
      return false;
    }
  }
  expected.value[0] =
      reinterpret_cast<uint64_t>(binding.buffer.data) + ref.offset;
  expected.value[1] = ref.length / info.element_size;
  return true;
}

RC_GTEST_PROP(ArgumentStepsTest, GiveEachParameterWhatItsBindingSays, ()) {
  const Bound bound = RandomBound();
  const auto plan = ArgumentPlan::Make(bound.kernel(), bound.bindings);
  RC_ASSERT(plan.ok());
  RC_ASSERT(plan->entry_parameter_bytes() == bound.entry_bytes);
  const std::vector<std::byte> parameters = RandomParameters(bound);
  const uint32_t slot = *rc::gen::inRange<uint32_t>(0, 65536);
  ArgumentBlock got;
  std::memset(got.data(), 0x5a, shm::kMaxParameterBytes);
  const auto status = plan->Build(slot, parameters.data(), got.data());
  bool good = true;
  for (size_t i = 0; i < bound.params.size(); ++i) {
    Expected expected;
    if (!Expect(bound, i, slot, parameters, expected)) {
      good = false;
    } else if (status == shm::EventStatus::kOk) {
      RC_ASSERT(std::memcmp(got.data() + bound.params[i].offset, expected.value,
                            expected.bytes) == 0);
    }
  }
  RC_ASSERT(status ==
            (good ? shm::EventStatus::kOk : shm::EventStatus::kBadBufferRef));
  // Nothing behind the arguments may be touched.
  for (uint32_t i = bound.args_size; i < shm::kMaxParameterBytes; ++i) {
    RC_ASSERT(got.data()[i] == std::byte{0x5a});
  }
}

// Threads as lanes, with real barriers.
class Warp {
 public:
  static constexpr uint32_t kLanes = 4;

  void Sync() {
    std::unique_lock lock(mutex_);
    const uint64_t round = round_;
    if (++arrived_ == kLanes) {
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return round_ != round; });
    }
  }
  bool Any(bool mine) {
    if (mine) any_.store(true, std::memory_order_relaxed);
    Sync();
    return any_.load(std::memory_order_relaxed);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t arrived_ = 0;
  uint64_t round_ = 0;
  std::atomic<bool> any_{false};  // the barrier orders it
};

struct LaneOfWarp {
  Warp* warp;
  uint32_t lane;
  uint32_t index() const { return lane; }
  static uint32_t count() { return Warp::kLanes; }
  void Sync() const { warp->Sync(); }
  bool Any(bool mine) const { return warp->Any(mine); }
};

TEST(ArgumentStepsTest, LanesShareTheWork) {
  // More of everything than there are lanes, each on top of the fixed image.
  constexpr uint32_t kEach = 9;
  std::vector<SteppedBuffer> stepped;
  std::vector<WritableValue> values;
  std::vector<WritableBuffer> ranged;
  for (uint32_t i = 0; i < kEach; ++i) {
    stepped.push_back(
        {.data = 1000 * i, .stride = i + 1, .args_offset = 16 * i});
    values.push_back({.args_offset = 16 * (kEach + i),
                      .entry_offset = 8 * i,
                      .bytes = i % 2 == 0 ? 4u : 8u});
    ranged.push_back({.data = 5000 * i,
                      .bytes = 64,
                      .args_offset = 16 * (2 * kEach + i),
                      .entry_offset = 8 * kEach + 16 * i,
                      .element_bytes = 8,
                      .element_align = 8});
  }
  std::vector<std::byte> parameters(24 * kEach);
  for (uint32_t i = 0; i < kEach; ++i) {
    const uint64_t value = 0x0101010101010101 * (i + 1);
    const shm::BufferRef ref = {.offset = 8, .length = 8 * (i % 8)};
    std::memcpy(parameters.data() + 8 * i, &value, 8);
    std::memcpy(parameters.data() + 8 * kEach + 16 * i, &ref, 16);
  }
  const std::vector<std::byte> block =
      PackArgumentSteps(std::vector<std::byte>(3 * 16 * kEach, std::byte{0x77}),
                        stepped, values, ranged, 24 * kEach);
  const auto build = [&](uint32_t length_of_last, ArgumentBlock* args) {
    const shm::BufferRef ref = {.offset = 8, .length = length_of_last};
    std::memcpy(parameters.data() + 8 * kEach + 16 * (kEach - 1), &ref, 16);
    Warp warp;
    std::vector<shm::EventStatus> found(Warp::kLanes);
    std::vector<std::thread> threads;
    for (uint32_t lane = 0; lane < Warp::kLanes; ++lane) {
      threads.emplace_back([&, lane] {
        found[lane] =
            BuildArguments(ArgumentStepsIn(block), 3, parameters.data(),
                           args->data(), LaneOfWarp{&warp, lane});
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto status : found) EXPECT_EQ(status, found[0]);
    return found[0];
  };
  ArgumentBlock alone;
  ArgumentBlock together;
  ASSERT_EQ(build(56, &together), shm::EventStatus::kOk);
  ASSERT_EQ(BuildArguments(ArgumentStepsIn(block), 3, parameters.data(),
                           alone.data(), OneLane()),
            shm::EventStatus::kOk);
  EXPECT_EQ(std::memcmp(alone.data(), together.data(), 3 * 16 * kEach), 0);
  EXPECT_EQ(build(64, &together), shm::EventStatus::kBadBufferRef)
      << "one lane's finding is everybody's";
}

}  // namespace
}  // namespace carillon::gpud
