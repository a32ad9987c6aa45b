#include "gpu_daemon/backends/cuda/sim_driver/world.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "kernels/registry.h"
#include "kernels/simt/completion_status.h"
#include "kernels/simt/types.h"
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
constexpr uint32_t kLongest = 48;  // bytes of an event's input
// Of matmul.
constexpr uint32_t kMostRows = 16;
constexpr uint64_t kMatrixBytes = kMostRows * kMostRows * sizeof(float);
constexpr Nanoseconds kRungNs = 1;

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
  const bool multiplies = spec.kernel == WorldKernel::kMatmul;
  in_bytes_ = multiplies ? 2 * kMatrixBytes : kLongest;
  out_bytes_ = multiplies ? kMatrixBytes : kLongest;
  in_ = device.memory->submission().At(
      *device.submission_heap->Allocate(in_bytes_ * spec.entries));
  auto* const out = device.memory->completion().At(
      *device.completion_heap->Allocate(out_bytes_ * spec.entries));
  out_ = out;
  TestDevice::Spec kernel{
      .grid = spec.grid, .block = spec.block, .entries = spec.entries};
  switch (spec.kernel) {
    case WorldKernel::kEcho:
      kernel.kernel = simt::FindKernel("echo");
      kernel.bindings = {
          {.writable = true, .buffer = {in_, in_bytes_ * spec.entries}},
          {.buffer = {out, out_bytes_}, .slot_stride = out_bytes_}};
      break;
    case WorldKernel::kFailIf:
      kernel.kernel = simt::FindKernel("fail_if");
      kernel.bindings = {{.writable = true}};
      break;
    case WorldKernel::kMatmul:
      kernel.kernel = simt::FindKernel(spec.matmul);
      kernel.bindings = {
          {.buffer = {in_, kMatrixBytes}, .slot_stride = in_bytes_},
          {.buffer = {in_ + kMatrixBytes, kMatrixBytes},
           .slot_stride = in_bytes_},
          {.buffer = {out, kMatrixBytes}, .slot_stride = out_bytes_},
          {.writable = true}};
      break;
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

// Of echo's input, or the order of matmul's matrices.
uint64_t WorldRing::LengthOf(uint64_t n) const {
  sim::SeededRandom random(spec.seed * 77 + spec.id * 1009 + n);
  return 1 +
         random.Below(spec.kernel == WorldKernel::kMatmul
                          ? std::min(spec.longest, kMostRows)
                          : std::min(spec.longest, kLongest - spec.skipped));
}

std::byte WorldRing::ByteOf(uint64_t n, uint64_t i) const {
  return static_cast<std::byte>(n * 37 + spec.id * 11 + i * 3 + 1);
}

// Small integers: sums of their products are exact.
float WorldRing::FactorOf(uint64_t n, uint32_t which, uint64_t i) {
  return static_cast<float>((n * 7 + which * 5 + i * 3) % 16 + 1);
}

void WorldRing::Commit() {
  const uint64_t next = device().last_committed().value() + 1;
  const uint64_t slot = device().next_slot();
  std::byte* const in = in_ + slot * in_bytes_;
  switch (spec.kernel) {
    case WorldKernel::kEcho: {
      for (uint64_t i = 0; i < kLongest; ++i) in[i] = ByteOf(next, i);
      shm::BufferRef of{.offset = slot * kLongest + spec.skipped,
                        .length = LengthOf(next)};
      if (EndOf(next).refused) of.offset = kLongest * spec.entries + 1;
      std::memcpy(device().parameters(), &of, sizeof(of));
      break;
    }
    case WorldKernel::kFailIf: {
      const auto code = static_cast<uint32_t>(next % 3 == 0 ? next : 0);
      std::memcpy(device().parameters(), &code, sizeof(code));
      break;
    }
    case WorldKernel::kMatmul: {
      auto* const factors = reinterpret_cast<float*>(in);
      const uint32_t count = kMostRows * kMostRows;
      for (uint32_t i = 0; i < count; ++i) {
        factors[i] = FactorOf(next, 0, i);
        factors[count + i] = FactorOf(next, 1, i);
      }
      const auto order = static_cast<uint32_t>(
          EndOf(next).status == 0 ? LengthOf(next) : kMostRows + 1);
      std::memcpy(device().parameters(), &order, sizeof(order));
      break;
    }
  }
  device().Commit(nullptr, kRungNs);
  std::byte* const entry = device().last_entry().data();
  switch (HeaderOf(next)) {
    case EventStatus::kBadSequence:
      entry[offsetof(shm::EsqEntryHeader, sequence)] ^= std::byte{64};
      return;
    case EventStatus::kStaleGeneration:
      entry[offsetof(shm::EsqEntryHeader, generation)] ^= std::byte{1};
      return;
    default:
      return;
  }
}

EventStatus WorldRing::HeaderOf(uint64_t n) const {
  if (!spec.bad_headers) return EventStatus::kOk;
  if (n % 10 == 9) return EventStatus::kBadSequence;
  return n % 10 == 4 ? EventStatus::kStaleGeneration : EventStatus::kOk;
}

WorldRing::End WorldRing::EndOf(uint64_t n) const {
  const auto refused = [](EventStatus status) {
    return End{EventState::kFailed, static_cast<uint32_t>(status), true};
  };
  const auto failed = [](uint64_t code) {
    return End{EventState::kFailed,
               simt::CompletionStatus(static_cast<uint32_t>(code)), false};
  };
  if (HeaderOf(n) != EventStatus::kOk) return refused(HeaderOf(n));
  switch (spec.kernel) {
    case WorldKernel::kEcho:
      return n % 7 == 5 ? refused(EventStatus::kBadBufferRef) : End{};
    case WorldKernel::kFailIf:
      return n % 3 == 0 ? failed(n) : End{};
    case WorldKernel::kMatmul:
      return n % 7 == 5 ? failed(simt::kFailBadArguments) : End{};
  }
  return {};
}

std::string WorldRing::Check(const shm::Completion& completion) {
  const uint64_t n = completion.sequence.value();
  const End end = EndOf(n);
  refused += end.refused ? 1 : 0;
  failed += end.state == EventState::kFailed ? 1 : 0;
  if (completion.state != end.state || completion.status != end.status) {
    return fmt::format(
        "ring {}: event {} ended in state {} with status {}, not in {} with {}",
        spec.id, n, static_cast<uint32_t>(completion.state), completion.status,
        static_cast<uint32_t>(end.state), end.status);
  }
  if (end.state != EventState::kDone) return {};
  const std::byte* const out =
      out_ + device().layout().SlotOf(completion.sequence) * out_bytes_;
  switch (spec.kernel) {
    case WorldKernel::kEcho:
      return CheckEcho(n, out);
    case WorldKernel::kFailIf:
      return {};
    case WorldKernel::kMatmul:
      return CheckMatmul(n, out);
  }
  return {};
}

std::string WorldRing::CheckEcho(uint64_t n, const std::byte* out) const {
  for (uint64_t i = 0; i < LengthOf(n); ++i) {
    const std::byte right = ByteOf(n, i + spec.skipped);
    if (out[i] == right) continue;
    return fmt::format("ring {}: byte {} of event {}'s output is {}, not {}",
                       spec.id, i, n, static_cast<int>(out[i]),
                       static_cast<int>(right));
  }
  return {};
}

std::string WorldRing::CheckMatmul(uint64_t n, const std::byte* out) const {
  const auto* const product = reinterpret_cast<const float*>(out);
  const uint64_t order = LengthOf(n);
  for (uint64_t i = 0; i < order * order; ++i) {
    float right = 0;
    for (uint64_t k = 0; k < order; ++k) {
      right += FactorOf(n, 0, i / order * order + k) *
               FactorOf(n, 1, k * order + i % order);
    }
    if (product[i] == right) continue;
    return fmt::format(
        "ring {}: element {} of event {}'s product is {}, not {}", spec.id, i,
        n, product[i], right);
  }
  return {};
}

std::string WorldRing::CheckLife(bool traced) const {
  const uint64_t n = device().last_consumed().value() + 1;
  const shm::EventLife life = device().life();
  traced = traced && !EndOf(n).refused;
  const bool right = traced
                         ? life.rung_ns == static_cast<uint64_t>(kRungNs) &&
                               life.seen_ns > kWorldClockOffset &&
                               life.dispatched_ns == life.seen_ns &&
                               life.finished_ns > life.dispatched_ns
                         : life.rung_ns == 0 && life.seen_ns == 0 &&
                               life.dispatched_ns == 0 && life.finished_ns == 0;
  if (right) return {};
  return fmt::format(
      "ring {}: event {} {}: rung at {}, seen at {}, finished at {}", spec.id,
      n, traced ? "is traced" : "has no life", life.rung_ns, life.seen_ns,
      life.finished_ns);
}

}  // namespace carillon::gpud::cuda
