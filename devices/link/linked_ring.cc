#include "devices/link/linked_ring.h"

#include <cstring>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "shm/layout.h"

namespace carillon::link {
namespace {

using shm::EventState;
using shm::EventStatus;
using shm::Sequence;

// Of the ends of one ring that the other host may not have stored.
constexpr uint64_t kMaxRingKeptBytes = 256 << 20;
// Of one buffer, for all slots: as far as an aperture grows.
constexpr uint64_t kMaxBufferBytes = 256 << 20;
// Of an output whose memory is kept for the next one.
constexpr uint64_t kReusedBytes = 4096;
// Any element of a kernel's buffer.
constexpr uint64_t kSlotAlign = 256;

edge::Dim3 Read(const v1::Dim3& dim) { return {dim.x(), dim.y(), dim.z()}; }

// Takes bytes from the front. False: there are not that many.
bool Take(std::string_view& from, size_t count, std::string_view* to) {
  if (from.size() < count) return false;
  *to = from.substr(0, count);
  from.remove_prefix(count);
  return true;
}
bool Take(std::string_view& from, uint64_t* to) {
  std::string_view bytes;
  if (!Take(from, sizeof(*to), &bytes)) return false;
  std::memcpy(to, bytes.data(), sizeof(*to));
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LinkedRing>> LinkedRing::Make(
    edge::Device& device, const v1::LinkRing& wanted,
    const mesh::RingLimits& limits, Sequence last) {
  std::unique_ptr<LinkedRing> ring(new LinkedRing);
  ring->items_.resize(limits.slots);
  ring->run_ = ring->done_ = ring->freed_ = last;
  const absl::Status status = ring->Register(device, wanted, limits);
  if (status.ok()) return ring;
  ring->Unregister(device);
  return status;
}

absl::StatusOr<uint64_t> LinkedRing::KeptBytes(const v1::LinkRing& wanted,
                                               const mesh::RingLimits& limits) {
  uint64_t done_bytes = 0;
  for (const v1::LinkParameter& parameter : wanted.parameters()) {
    const v1::LinkBuffer& buffer = parameter.buffer();
    if (!buffer.written()) continue;
    if (buffer.bytes() > limits.done_bytes - done_bytes) {
      return absl::InvalidArgumentError(
          fmt::format("parameter '{}': the kernel writes {} bytes, and all of "
                      "a completion may have {}",
                      parameter.name(), buffer.bytes(), limits.done_bytes));
    }
    done_bytes += buffer.bytes();
  }
  if (done_bytes * limits.slots > kMaxRingKeptBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{} events that write {} bytes each: at most {} for all",
                    limits.slots, done_bytes, kMaxRingKeptBytes));
  }
  return done_bytes * limits.slots;
}

absl::Status LinkedRing::AddBuffer(edge::Device& device,
                                   const v1::LinkParameter& wanted,
                                   uint32_t slots,
                                   std::vector<edge::Parameter>* bound) {
  const v1::LinkBuffer& buffer = wanted.buffer();
  Parameter parameter{.buffer = {},
                      .bytes = buffer.bytes(),
                      .written = buffer.written(),
                      .in_entry = buffer.in_entry()};
  // As close as they may be, however far apart they are there.
  if (buffer.slot_stride() != 0 && !buffer.in_entry()) {
    parameter.stride = shm::AlignUp(buffer.bytes(), kSlotAlign);
  }
  const uint64_t bytes = buffer.bytes() > kMaxBufferBytes
                             ? buffer.bytes()
                             : buffer.bytes() + (slots - 1) * parameter.stride;
  if (buffer.bytes() == 0 || bytes > kMaxBufferBytes) {
    return absl::InvalidArgumentError(
        fmt::format("parameter '{}' takes {} bytes for all slots: 1 to {}",
                    wanted.name(), bytes, kMaxBufferBytes));
  }
  if (buffer.written()) output_bytes_ += buffer.bytes();
  ASSIGN_OR_RETURN(parameter.buffer,
                   device.AllocateBuffer(buffer.written() ? edge::Place::kOutput
                                                          : edge::Place::kInput,
                                         bytes));
  bound->push_back(buffer.in_entry()
                       ? edge::WritableBuffer(wanted.name(), parameter.buffer)
                       : edge::Fixed(wanted.name(), parameter.buffer,
                                     {.length = parameter.bytes,
                                      .slot_stride = parameter.stride}));
  parameters_.push_back(std::move(parameter));
  return absl::OkStatus();
}

absl::Status LinkedRing::Register(edge::Device& device,
                                  const v1::LinkRing& wanted,
                                  const mesh::RingLimits& limits) {
  edge::EventSpec spec{.kernel = wanted.kernel(),
                       .grid = Read(wanted.grid()),
                       .block = Read(wanted.block()),
                       .shared_bytes = wanted.shared_bytes(),
                       .max_in_flight = limits.slots,
                       .priority = wanted.priority(),
                       .label = wanted.label(),
                       .launch_path = {},
                       .parameters = {}};
  std::vector<std::pair<size_t, std::string>> in_entry;
  for (const v1::LinkParameter& parameter : wanted.parameters()) {
    const std::string& name = parameter.name();
    switch (parameter.value_case()) {
      case v1::LinkParameter::kUnsignedValue:
        spec.parameters.push_back(
            edge::Constant(name, parameter.unsigned_value()));
        break;
      case v1::LinkParameter::kSignedValue:
        spec.parameters.push_back(
            edge::ConstantSigned(name, parameter.signed_value()));
        break;
      case v1::LinkParameter::kFloatValue:
        spec.parameters.push_back(
            edge::ConstantFloat(name, parameter.float_value()));
        break;
      case v1::LinkParameter::kEntryBytes:
        in_entry.emplace_back(parameters_.size(), name);
        spec.parameters.push_back(edge::Writable(name));
        parameters_.push_back(
            {.entry_bytes = parameter.entry_bytes(), .buffer = {}});
        break;
      case v1::LinkParameter::kBuffer:
        if (parameter.buffer().in_entry()) {
          in_entry.emplace_back(parameters_.size(), name);
        }
        RETURN_IF_ERROR(
            AddBuffer(device, parameter, limits.slots, &spec.parameters));
        break;
      case v1::LinkParameter::VALUE_NOT_SET:
        return absl::InvalidArgumentError(
            fmt::format("parameter '{}' has no value", name));
    }
  }
  ASSIGN_OR_RETURN(queue_, edgeRegisterEvent(device, spec));
  for (const auto& [index, name] : in_entry) {
    Parameter& parameter = parameters_[index];
    ASSIGN_OR_RETURN(parameter.entry_offset, queue_->ParameterOffset(name));
    ASSIGN_OR_RETURN(const uint32_t bytes, queue_->ParameterBytes(name));
    const uint32_t expected = parameter.in_entry
                                  ? uint32_t{sizeof(shm::BufferRef)}
                                  : parameter.entry_bytes;
    if (bytes == expected) continue;
    return absl::InvalidArgumentError(
        fmt::format("parameter '{}' takes {} bytes of an entry here, and {} "
                    "there: install the same Carillon on both hosts",
                    name, bytes, expected));
  }
  return absl::OkStatus();
}

void LinkedRing::Run(std::string_view event) {
  Item& item = ItemOf(++run_);
  item.outputs.clear();
  // No more come than the ring has slots, and bad ones take none.
  item.bad = queue_->free_slots() == 0 || !Write(event, &item.outputs);
  if (item.bad) return;
  queue_->Commit();
  committed_ = true;
}

// False: these are not the bytes of such an event.
bool LinkedRing::Write(std::string_view event,
                       std::vector<std::span<const std::byte>>* outputs) {
  const uint64_t slot = queue_->next_slot();
  for (const Parameter& parameter : parameters_) {
    std::string_view bytes;
    if (parameter.entry_bytes != 0) {
      if (!Take(event, parameter.entry_bytes, &bytes)) return false;
      queue_->SetBytes(parameter.entry_offset, std::as_bytes(std::span(bytes)));
      continue;
    }
    shm::BufferRef part{slot * parameter.stride, parameter.bytes};
    if (parameter.in_entry) {
      if (!Take(event, &part.offset) || !Take(event, &part.length) ||
          part.offset > parameter.bytes ||
          part.length > parameter.bytes - part.offset) {
        return false;
      }
      queue_->Set(parameter.entry_offset, part);
    }
    const auto here = parameter.buffer.bytes.subspan(part.offset, part.length);
    if (parameter.written) {
      outputs->push_back(here);
      continue;
    }
    if (!Take(event, part.length, &bytes)) return false;
    std::memcpy(here.data(), bytes.data(), bytes.size());
  }
  return event.empty();
}

bool LinkedRing::TakeCompletions() {
  const Sequence before = done_;
  while (done_ < run_) {
    Item& item = ItemOf(done_ + 1);
    item.output.clear();
    if (item.bad) {
      item.state = EventState::kFailed;
      item.status = static_cast<uint32_t>(EventStatus::kBadBufferRef);
      ++done_;
      continue;
    }
    const auto completion = queue_->Poll();
    if (!completion) break;
    item.state = completion->state;
    item.status = completion->status;
    if (mesh::HasOutput(item.state, item.status)) {
      // No more than KeptBytes() has said, though a string grows by doubling.
      item.output.reserve(output_bytes_);
      for (const auto& output : item.outputs) {
        item.output.append(reinterpret_cast<const char*>(output.data()),
                           output.size());
      }
    }
    queue_->Free();
    ++done_;
  }
  return done_ != before;
}

mesh::End LinkedRing::ReadEnd(Sequence number, std::string* output) {
  const Item& item = ItemOf(number);
  *output += item.output;
  return {item.state, item.status, {}};
}

void LinkedRing::Free(Sequence last) {
  while (freed_ < last) {
    std::string& output = ItemOf(++freed_).output;
    if (output.capacity() > kReusedBytes) output = {};
  }
}

// What fails here goes with the device.
void LinkedRing::Unregister(edge::Device& device) {
  if (queue_ != nullptr) edgeUnregisterEvent(device, queue_).IgnoreError();
  queue_ = nullptr;
  for (const Parameter& parameter : parameters_) {
    if (parameter.buffer.id != 0)
      device.FreeBuffer(parameter.buffer).IgnoreError();
  }
}

}  // namespace carillon::link
