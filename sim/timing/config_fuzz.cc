// Any text as a configuration, and any values in place of a preset's: each is
// refused with a place, or is a GPU on which a kernel and events come to their
// end, with the results of a run without time and, done again, in as many
// cycles.
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/testing/fuzz_input.h"
#include "fmt/format.h"
#include "sim/exec/functional.h"
#include "sim/timing/config.h"
#include "sim/timing/gpu.h"
#include "sim/timing/kernel_runner.h"

namespace carillon::sim::timing {
namespace {

using fuzz::FuzzInput;

constexpr uint32_t kBlocks = 3;
constexpr uint32_t kThreads = 48;
constexpr uint32_t kWords = kBlocks * kThreads + 1;
constexpr uint32_t kInputs = 61;
constexpr int kEvents = 4;
constexpr std::string_view kNames[] = {
    "lrr",  "gto",  "tb_scheduler", "warp",     "oldest", "newest",
    "best", "none", "dedicated",    "reserved", "p1",     "p2",
    "p3",   "save", "static",       "dynamic",  "nobody", "free_or_save"};

// The mixed kernel, as background work and as an event.
class Work {
 public:
  Work() {
    runner_.LoadFile("mixed.compute_75.ptx");
    const DeviceAddress in = runner_.Allocate(kInputs * 4);
    const auto words = runner_.At<uint32_t>(in, kInputs);
    for (uint32_t i = 0; i < kInputs; ++i) words[i] = i * 2654435761u;
    for (DeviceAddress& out : out_) {
      out = runner_.Allocate(kWords * 4);
      launches_.push_back(runner_.MakeLaunch(
          "mixed", {kBlocks, 1, 1}, {kThreads, 1, 1}, {in, out}, {kInputs}));
    }
    launches_.back().grid.x = 1;
    launches_.back().block.x = 32;
    FunctionalGpu gpu(&runner_.memory(), {});
    for (const Launch& launch : launches_) {
      FUZZ_CHECK(gpu.Run(launch).ok());
      expected_.push_back(Output(expected_.size()));
    }
  }

  const Launch& kernel() const { return launches_[0]; }
  const Launch& event() const { return launches_[1]; }
  const Memory& memory() { return runner_.memory(); }
  void Clear() {
    for (const DeviceAddress out : out_) {
      std::ranges::fill(runner_.At<uint32_t>(out, kWords), 0);
    }
  }
  bool KernelIsRight() { return Output(0) == expected_[0]; }
  // Each launch of the event adds to its sum and stores the rest again.
  bool EventIsRight(uint32_t times) {
    std::vector<uint32_t> all = expected_[1];
    if (times == 0) all.assign(kWords, 0);
    if (times > 1) all[32] *= times;
    return Output(1) == all;
  }

 private:
  std::vector<uint32_t> Output(size_t which) {
    const auto words = runner_.At<uint32_t>(out_[which], kWords);
    return {words.begin(), words.end()};
  }

  KernelRunner runner_;
  std::array<DeviceAddress, 2> out_{};
  std::vector<Launch> launches_;
  std::vector<std::vector<uint32_t>> expected_;
};

// What would only cost memory and time.
bool IsLarge(const Config& config) {
  constexpr uint32_t kBytes = 4 << 20;
  return config.sm.count > 32 || config.l1.bytes > kBytes ||
         config.l2.bytes > kBytes || config.icache.bytes > kBytes;
}

// Returns the cycle at the end of everything, or none where no SM has room.
Cycle Run(const Config& config, const std::vector<Cycle>& rings, Work& work) {
  work.Clear();
  Gpu gpu(config, &work.memory(), {});
  const auto event = gpu.RegisterEvent({.launch = work.event(), .priority = 1});
  uint32_t rung = 0;
  for (const Cycle ring : rings) {
    if (!event.ok()) break;
    FUZZ_CHECK(gpu.RingDoorbell(*event, ring).ok());
    ++rung;
  }
  const auto grid = gpu.Submit(work.kernel(), {});
  FUZZ_CHECK(gpu.Run(Cycle{1} << 32), "a run that does not end");
  if (grid.ok()) {
    const absl::Status& status = gpu.result(*grid)->status;
    FUZZ_CHECK(status.ok(), "%s", status.ToString().c_str());
    FUZZ_CHECK(work.KernelIsRight());
  }
  FUZZ_CHECK(work.EventIsRight(rung));
  return gpu.cycle();
}

// "key: value" lines: those of a preset, with some values changed.
std::string Changed(FuzzInput& input) {
  using Preset = decltype(Values(Config()));
  static const auto& presets = *new std::vector<Preset>([] {
    std::vector<Preset> all;
    for (const auto& name : PresetNames()) {
      all.push_back(Values(*LoadConfig(name)));
    }
    return all;
  }());
  auto values = presets[input.TakeBelow(static_cast<uint32_t>(presets.size()))];
  const auto changes = input.TakeBelow(6);
  for (uint32_t i = 0; i < changes; ++i) {
    auto& value = values[input.TakeBelow(static_cast<uint32_t>(values.size()))];
    const uint64_t now = std::strtoull(value.second.c_str(), nullptr, 10);
    const uint32_t number = input.Take<uint16_t>();
    const bool is_name = value.second.find_first_of("0123456789") != 0;
    switch (is_name ? 4 : input.TakeBelow(4)) {
      case 0:
        value.second = std::to_string(number % 4);
        break;
      case 1:
        value.second = std::to_string(now << number % 4);
        break;
      case 2:
        value.second = std::to_string(now >> number % 4);
        break;
      case 3:
        value.second = std::to_string(number % 1000);
        break;
      default:
        value.second = kNames[number % std::size(kNames)];
    }
  }
  std::string text;
  for (const auto& [key, value] : values) {
    text += fmt::format("{}: {}\n", key, value);
  }
  return text;
}

void Check(const std::string& text, const std::vector<Cycle>& rings) {
  const auto config = ParseConfig(text, "fuzz.yaml");
  if (!config.ok()) {
    const std::string what(config.status().message());
    FUZZ_CHECK(what.starts_with("fuzz.yaml:"), "%s", what.c_str());
    return;
  }
  std::string again;
  for (const auto& [key, value] : Values(*config)) {
    again += fmt::format("{}: {}\n", key, value);
  }
  const auto same = ParseConfig(again, "again.yaml");
  FUZZ_CHECK(same.ok() && Values(*same) == Values(*config));
  if (IsLarge(*config)) return;
  static Work& work = *new Work;
  const Cycle cycles = Run(*config, rings, work);
  FUZZ_CHECK(Run(*same, rings, work) == cycles);
}

}  // namespace
}  // namespace carillon::sim::timing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace carillon::sim::timing;
  FuzzInput input(data, size);
  if (input.TakeBool()) {
    Check(std::string(input.TakeRest()), {});
    return 0;
  }
  std::vector<Cycle> rings;
  const auto count = input.TakeBelow(kEvents + 1);
  for (uint32_t i = 0; i < count; ++i) rings.push_back(input.TakeBelow(4000));
  Check(Changed(input), rings);
  return 0;
}
