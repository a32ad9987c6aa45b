#include "gpu_daemon/control/sessions/buffer_table.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

constexpr size_t kMaxBuffers = 4096;
// Keeps next_id_ far from its overflow, whatever id a device says that it had.
constexpr uint32_t kLastBufferId = 1u << 31;

}  // namespace

absl::StatusOr<uint32_t> BufferTable::NextId(
    const v1::AllocateBufferRequest& request) const {
  if (buffers_.size() >= kMaxBuffers) {
    return Error(absl::StatusCode::kResourceExhausted,
                 fmt::format("device '{}' has {} buffers: that is the limit",
                             device_, buffers_.size()),
                 reason::kTooMany, "buffers");
  }
  if (!request.has_resumed()) return next_id_;
  const uint32_t id = request.resumed().buffer_id();
  if (id != 0 && id <= kLastBufferId && !buffers_.contains(id)) return id;
  return Error(
      absl::StatusCode::kFailedPrecondition,
      fmt::format("device '{}' cannot have buffer {} again: it must be "
                  "from 1 to {}, and not in use",
                  device_, id, kLastBufferId),
      reason::kUnknownBuffer, "resumed");
}

void BufferTable::Add(uint32_t id, std::shared_ptr<Buffer> buffer) {
  next_id_ = std::max(next_id_, id + 1);
  buffers_[id] = std::move(buffer);
}

absl::StatusOr<std::shared_ptr<Buffer>> BufferTable::Find(
    uint32_t buffer_id) const {
  const auto found = buffers_.find(buffer_id);
  if (found != buffers_.end()) return found->second;
  return Error(absl::StatusCode::kNotFound,
               fmt::format("device '{}' has no buffer {}", device_, buffer_id),
               reason::kUnknownBuffer, "buffer_id");
}

FindBuffer BufferTable::finder() const {
  return [this](uint32_t id) -> std::shared_ptr<Buffer> {
    const auto found = buffers_.find(id);
    return found == buffers_.end() ? nullptr : found->second;
  };
}

uint64_t BufferTable::gpu_memory_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [id, buffer] : buffers_) {
    if (buffer->place() == v1::GPU_MEMORY) bytes += buffer->bytes();
  }
  return bytes;
}

}  // namespace carillon::gpud
