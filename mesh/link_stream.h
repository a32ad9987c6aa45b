// What carries the bytes of one connection of a link.
#ifndef CARILLON_MESH_LINK_STREAM_H_
#define CARILLON_MESH_LINK_STREAM_H_

#include <cstddef>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace carillon::mesh {

// Never waits: what cannot go on now goes on after a poll() for poll_events().
// Not thread safe.
class LinkStream {
 public:
  LinkStream() = default;
  virtual ~LinkStream() = default;
  LinkStream(const LinkStream&) = delete;
  LinkStream& operator=(const LinkStream&) = delete;

  // Puts what has come there; how many bytes; 0: nothing now. Errors:
  // Unavailable: the connection has ended.
  virtual absl::StatusOr<size_t> Read(std::span<char> to) = 0;
  // How many bytes are on their way; 0: none now. Errors: the same.
  virtual absl::StatusOr<size_t> Write(std::string_view bytes) = 0;
  // After a Read() of `got` bytes: whether a poll() tells of all that comes.
  virtual bool MayWait(size_t got) = 0;
  // After a Write(): whether there is something to Read() of which no poll()
  // that began before it tells.
  virtual bool NeedsRead() const = 0;
  // Says that nothing more will be sent.
  virtual void EndWriting() = 0;
  // Throws away what comes; true: the other end has ended, too. To close before
  // that would take back what was sent last.
  virtual bool Drain() = 0;

  virtual int fd() const = 0;
  // What the last call that did nothing waits for: POLLIN, or POLLOUT.
  virtual short poll_events() const = 0;
};

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_LINK_STREAM_H_
