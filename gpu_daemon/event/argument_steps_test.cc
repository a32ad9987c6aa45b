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

// A kernel's parameters, how a device bound them, and the same flattened.
struct Plan {
  std::vector<ParamInfo> params;
  std::vector<ParameterBinding> bindings;
  uint32_t args_size = 0;
  uint32_t entry_bytes = 0;
  std::vector<SteppedBuffer> stepped;
  std::vector<WritableValue> values;
  std::vector<WritableBuffer> ranged;
  std::vector<std::byte> image;

  simt::KernelInfo kernel() const {
    return {.name = "any",
            .summary = "",
            .params = params,
            .args_size = args_size,
            .args_align = 8};
  }
  std::vector<std::byte> Pack() const {
    return PackArgumentSteps(image, stepped, values, ranged, entry_bytes);
  }
};

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
          .element_align = align};
}

void Bind(const ParamInfo& info, Plan& plan) {
  ParameterBinding binding;
  binding.writable = *rc::gen::arbitrary<bool>();
  if (!info.is_buffer()) {
    binding.constant_bits = *rc::gen::arbitrary<uint64_t>();
    if (binding.writable) {
      const auto at = static_cast<uint32_t>(
          shm::AlignUp(plan.entry_bytes, info.element_size));
      plan.values.push_back({.args_offset = info.offset,
                             .entry_offset = at,
                             .bytes = info.element_size});
      plan.entry_bytes = at + info.element_size;
    } else {
      std::memcpy(plan.image.data() + info.offset, &binding.constant_bits,
                  info.element_size);
    }
  } else {
    binding.buffer.data =
        memory + info.element_align * *rc::gen::inRange<uint32_t>(0, 64);
    binding.buffer.bytes =
        info.element_size * *rc::gen::inRange<uint64_t>(0, 100);
    const auto data = reinterpret_cast<uint64_t>(binding.buffer.data);
    if (binding.writable) {
      const auto at = static_cast<uint32_t>(shm::AlignUp(plan.entry_bytes, 8));
      plan.ranged.push_back({.data = data,
                             .bytes = binding.buffer.bytes,
                             .args_offset = info.offset,
                             .entry_offset = at,
                             .element_bytes = info.element_size,
                             .element_align = info.element_align});
      plan.entry_bytes = at + sizeof(shm::BufferRef);
    } else {
      binding.slot_stride =
          info.element_align * *rc::gen::inRange<uint64_t>(0, 20);
      const uint64_t count = binding.buffer.bytes / info.element_size;
      std::memcpy(plan.image.data() + info.offset, &data, 8);
      std::memcpy(plan.image.data() + info.offset + 8, &count, 8);
      if (binding.slot_stride != 0) {
        plan.stepped.push_back({.data = data,
                                .stride = binding.slot_stride,
                                .args_offset = info.offset});
      }
    }
  }
  plan.bindings.push_back(binding);
}

Plan RandomPlan() {
  Plan plan;
  const uint32_t count = *rc::gen::inRange<uint32_t>(1, 40);
  for (uint32_t i = 0; i < count; ++i) {
    ParamInfo info = RandomParam();
    info.offset = static_cast<uint32_t>(
        shm::AlignUp(plan.args_size, info.is_buffer() ? 8 : info.element_size));
    plan.args_size = info.offset + (info.is_buffer() ? 16 : info.element_size);
    plan.params.push_back(info);
  }
  plan.args_size = static_cast<uint32_t>(shm::AlignUp(plan.args_size, 8));
  plan.image.resize(plan.args_size);
  for (const ParamInfo& info : plan.params) Bind(info, plan);
  return plan;
}

// Mostly references that are within the range, or nearly so.
std::vector<std::byte> RandomParameters(const Plan& plan) {
  std::vector<std::byte> bytes(plan.entry_bytes + 8);
  for (std::byte& byte : bytes)
    byte = std::byte{*rc::gen::arbitrary<uint8_t>()};
  if (*rc::gen::inRange(0, 4) == 0) return bytes;
  for (const WritableBuffer& buffer : plan.ranged) {
    const uint64_t elements = buffer.bytes / buffer.element_bytes;
    const uint64_t first = *rc::gen::inRange<uint64_t>(0, elements + 1);
    shm::BufferRef ref = {
        .offset = first * buffer.element_bytes,
        .length = *rc::gen::inRange<uint64_t>(0, elements - first + 1) *
                  buffer.element_bytes};
    switch (*rc::gen::inRange(0, 24)) {
      case 0:
        ref.length += buffer.element_bytes;
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
    std::memcpy(bytes.data() + buffer.entry_offset, &ref, sizeof(ref));
  }
  return bytes;
}

RC_GTEST_PROP(ArgumentStepsTest, GiveWhatThePlanGives, ()) {
  const Plan plan = RandomPlan();
  const auto expected = ArgumentPlan::Make(plan.kernel(), plan.bindings);
  RC_ASSERT(expected.ok());
  RC_ASSERT(expected->entry_parameter_bytes() == plan.entry_bytes);
  const std::vector<std::byte> parameters = RandomParameters(plan);
  const uint32_t slot = *rc::gen::inRange<uint32_t>(0, 65536);
  ArgumentBlock wanted;
  ArgumentBlock got;
  // Nothing behind the arguments may be touched.
  std::memset(wanted.data(), 0x5a, shm::kMaxParameterBytes);
  std::memset(got.data(), 0x5a, shm::kMaxParameterBytes);
  const auto status = expected->Build(slot, parameters.data(), wanted.data());
  const std::vector<std::byte> block = plan.Pack();
  RC_ASSERT(BuildArguments(ArgumentStepsIn(block), slot, parameters.data(),
                           got.data(), OneLane()) == status);
  if (status == shm::EventStatus::kOk) {
    RC_ASSERT(std::memcmp(wanted.data(), got.data(), shm::kMaxParameterBytes) ==
              0);
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
