// The buffers that a device has allocated, by buffer id.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_BUFFER_TABLE_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_BUFFER_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "gpu_daemon/control/sessions/device_space.h"
#include "gpu_daemon/control/sessions/parameter_bindings.h"
#include "proto/events.pb.h"

namespace carillon::gpud {

// Not thread safe: its session guards it.
class BufferTable {
 public:
  // `device` names the device in errors.
  explicit BufferTable(std::string device) : device_(std::move(device)) {}

  // The id of the buffer that the request asks for: if it names one that the
  // device had before gpud's death, the same. Errors: ResourceExhausted
  // TOO_MANY, FailedPrecondition UNKNOWN_BUFFER (the id is in use or out of
  // range).
  absl::StatusOr<uint32_t> NextId(
      const v1::AllocateBufferRequest& request) const;
  // `id` is NextId()'s, and no other buffer was added since.
  void Add(uint32_t id, std::shared_ptr<Buffer> buffer);

  // Errors: NotFound UNKNOWN_BUFFER.
  absl::StatusOr<std::shared_ptr<Buffer>> Find(uint32_t buffer_id) const;
  // Removes a buffer; its memory stays until nobody holds it any more.
  void Remove(uint32_t buffer_id) { buffers_.erase(buffer_id); }
  // Removes all of them, so that the caller can free them without the lock.
  std::map<uint32_t, std::shared_ptr<Buffer>> TakeAll() {
    return std::exchange(buffers_, {});
  }

  // For BindParameters(); valid as long as the table.
  FindBuffer finder() const;

  uint64_t gpu_memory_bytes() const;

 private:
  const std::string device_;
  uint32_t next_id_ = 1;
  std::map<uint32_t, std::shared_ptr<Buffer>> buffers_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_BUFFER_TABLE_H_
