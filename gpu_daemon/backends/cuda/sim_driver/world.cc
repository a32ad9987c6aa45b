#include "gpu_daemon/backends/cuda/sim_driver/world.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "kernels/registry.h"
#include "sim/exec/seeded_random.h"
#include "sim/lower/lower.h"
#include "sim/ptx/module.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;
using shm::EventStatus;
using shm::Sequence;

constexpr size_t kArenaBytes = 1 << 20;
constexpr size_t kAlignment = 256;
constexpr uint64_t kLongest = 48;  // bytes of an event's input

size_t Aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorldCode>> WorldCode::Load(std::string ptx) {
  auto code = std::make_unique<WorldCode>();
  ASSIGN_OR_RETURN(auto module,
                   sim::ptx::ParseModule(std::move(ptx), "gpu.ptx"));
  ASSIGN_OR_RETURN(
      code->program_,
      sim::Lower(std::make_shared<const sim::ptx::Module>(std::move(module)),
                 &code->memory_, {.device_graphs = true}));
  return code;
}

uint64_t WorldCode::Word(std::string_view name) const {
  const auto found =
      std::ranges::find(program_->variables, name, &sim::ProgramVariable::name);
  if (found == program_->variables.end()) return 0;
  uint64_t word = 0;
  std::memcpy(&word, memory_.At(found->address, sizeof(word))->data(),
              sizeof(word));
  return word;
}

// --- Memory.

WorldMemory::WorldMemory(WorldCode* code)
    : code_(code), arena_(kArenaBytes, std::byte{0xcd}) {
  mapped_.push_back(*code_->memory().Map(arena_, true, "device memory"));
}

WorldMemory::~WorldMemory() {
  for (const sim::DeviceAddress address : mapped_) {
    (void)code_->memory().Free(address);
  }
}

void WorldMemory::Map(TestDevice& device) {
  const DeviceMemory& memory = *device.memory;
  for (const shm::Aperture* aperture :
       {&memory.submission(), &memory.completion()}) {
    mapped_.push_back(*code_->memory().Map({aperture->At(0), aperture->size()},
                                           true, "an aperture"));
  }
}

std::byte* WorldMemory::TakeBytes(size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(arena_.data());
  std::byte* const taken = arena_.data() + (Aligned(begin) - begin) + taken_;
  taken_ += Aligned(bytes);
  if (taken_ + kAlignment > kArenaBytes) std::abort();  // it is too small
  return taken;
}

// --- The device's end of a ring.

WorldRing::WorldRing(const Spec& of, TestDevice& device) : spec(of) {
  const uint64_t bytes = kLongest * spec.entries;
  in_ =
      device.memory->submission().At(*device.submission_heap->Allocate(bytes));
  out_ =
      device.memory->completion().At(*device.completion_heap->Allocate(bytes));
  TestDevice::Spec kernel{
      .kernel = simt::FindKernel(spec.echoes ? "echo" : "fail_if"),
      .bindings = {{.writable = true}},
      .grid = spec.grid,
      .block = spec.block,
      .entries = spec.entries};
  if (spec.echoes) {
    kernel.bindings = {{.writable = true, .buffer = {in_, bytes}},
                       {.buffer = {const_cast<std::byte*>(out_), kLongest},
                        .slot_stride = kLongest}};
  }
  event = device.Register(kernel);
}

EdgeEntry WorldRing::MakeEntry(WorldMemory& memory, uint32_t frames) const {
  const EventKernel& kernel = *event.kernel;
  const shm::RingLayout& layout = kernel.ring().layout();
  const ArgumentSteps& steps = kernel.arguments().steps();
  auto* const arguments = memory.Take<std::byte>(steps.bytes);
  std::memcpy(arguments, &steps, steps.bytes);
  EdgeEntry entry{};
  entry.esq = kernel.memory().submission().At(layout.esq_offset);
  entry.ecq = kernel.ring().completion_slot(Sequence(0));
  entry.lives = &kernel.ring().life(Sequence(0));
  entry.frame_bytes = static_cast<uint32_t>(
      simt::EventFrameBytes(kernel.kmd().kernel->args_size));
  entry.frames = memory.Take<std::byte>(uint64_t{frames} * entry.frame_bytes);
  entry.scratch = memory.TakeZeros<simt::EventScratch>(frames);
  entry.arguments = reinterpret_cast<const ArgumentSteps*>(arguments);
  entry.entries = layout.entries;
  entry.entry_bytes = layout.entry_bytes;
  entry.parameter_offset = layout.parameter_offset;
  entry.parameter_bytes = layout.parameter_bytes;
  entry.generation = layout.generation.value();
  if (layout.stamped()) entry.flags |= kEdgeStamped;
  entry.block[0] = kernel.kmd().block.x;
  entry.block[1] = kernel.kmd().block.y;
  entry.block[2] = kernel.kmd().block.z;
  return entry;
}

uint64_t WorldRing::LengthOf(uint64_t n) const {
  sim::SeededRandom random(spec.seed * 77 + spec.id * 1009 + n);
  return 1 + random.Below(kLongest - spec.skipped);
}

std::byte WorldRing::ByteOf(uint64_t n, uint64_t i) const {
  return static_cast<std::byte>(n * 37 + spec.id * 11 + i * 3 + 1);
}

void WorldRing::Commit() {
  const uint64_t next = device().last_committed().value() + 1;
  std::byte* const in = in_ + device().next_slot() * kLongest;
  for (uint64_t i = 0; i < kLongest; ++i) in[i] = ByteOf(next, i);
  const auto code = static_cast<uint32_t>(next % 3 == 0 ? next : 0);
  shm::BufferRef of{.offset = device().next_slot() * kLongest + spec.skipped,
                    .length = LengthOf(next)};
  if (next % 7 == 5) of.offset = kLongest * spec.entries + 1;
  if (spec.echoes) {
    std::memcpy(device().parameters(), &of, sizeof(of));
  } else {
    std::memcpy(device().parameters(), &code, sizeof(code));
  }
  device().Commit(nullptr, 1);
}

std::string WorldRing::Check(const shm::Completion& completion) {
  const uint64_t n = completion.sequence.value();
  if (!spec.echoes) {
    const uint64_t status =
        n % 3 != 0 ? 0
                   : static_cast<uint64_t>(EventStatus::kKernelStatusBase) + n;
    failed += status != 0 ? 1 : 0;
    if (completion.status != status) {
      return fmt::format("ring {}: event {} ended with status {}, not {}",
                         spec.id, n, completion.status, status);
    }
    return {};
  }
  if (n % 7 == 5) {
    ++refused;
    ++failed;
    if (completion.status !=
        static_cast<uint32_t>(EventStatus::kBadBufferRef)) {
      return fmt::format("ring {}: event {} ended with status {}, not refused",
                         spec.id, n, completion.status);
    }
    return {};
  }
  if (completion.state != EventState::kDone || completion.status != 0) {
    return fmt::format("ring {}: event {} ended in state {} with status {}",
                       spec.id, n, static_cast<uint32_t>(completion.state),
                       completion.status);
  }
  const std::byte* const out =
      out_ + device().layout().SlotOf(completion.sequence) * kLongest;
  for (uint64_t i = 0; i < LengthOf(n); ++i) {
    const std::byte right = ByteOf(n, i + spec.skipped);
    if (out[i] == right) continue;
    return fmt::format("ring {}: byte {} of event {}'s output is {}, not {}",
                       spec.id, i, n, static_cast<int>(out[i]),
                       static_cast<int>(right));
  }
  return {};
}

}  // namespace carillon::gpud::cuda
