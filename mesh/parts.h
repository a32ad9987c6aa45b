// Events and completions that are larger than a frame: all but their last part
// travel as DATA, right before the EVENTS or DONE that begins with that last
// part. An end sends, and takes, one at a time.
#ifndef CARILLON_MESH_PARTS_H_
#define CARILLON_MESH_PARTS_H_

#include <cassert>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "mesh/frame.h"
#include "shm/types.h"

namespace carillon::mesh {

// What is still to be sent of one.
class Splitter {
 public:
  void Start(RingId ring, shm::Sequence number, std::string bytes) {
    ring_ = ring;
    number_ = number;
    bytes_ = std::move(bytes);
    at_ = 0;
  }
  void Clear() { bytes_.clear(); }

  bool is_active() const { return !bytes_.empty(); }
  RingId ring() const { return ring_; }
  shm::Sequence number() const { return number_; }

  // Whether what is left fits one item.
  bool is_last() const { return bytes_.size() - at_ <= kMaxItemBytes; }
  std::string_view last() const { return std::string_view(bytes_).substr(at_); }
  // The next part, before the last one; good until Start().
  Data TakePart() {
    assert(!is_last());
    const auto part = std::string_view(bytes_).substr(at_, kMaxItemBytes);
    at_ += part.size();
    return {ring_, number_, part};
  }

 private:
  RingId ring_;
  shm::Sequence number_;
  std::string bytes_;
  size_t at_ = 0;
};

// What has come of one.
class Joiner {
 public:
  void Clear() { bytes_.clear(); }
  bool is_active() const { return !bytes_.empty(); }
  RingId ring() const { return ring_; }

  // `next`: whose part the ring's next one is. Errors: InvalidArgument: of
  // another ring or number, or more than `limit`.
  absl::Status Take(const Data& data, shm::Sequence next, uint32_t limit) {
    if (is_active() && ring_ != data.ring) {
      return absl::InvalidArgumentError(
          fmt::format("ring {}: a part comes amid the parts of ring {}",
                      data.ring.value(), ring_.value()));
    }
    if (data.number != next) {
      return absl::InvalidArgumentError(
          fmt::format("ring {}: a part of {} comes where one of {} is due",
                      data.ring.value(), data.number.value(), next.value()));
    }
    if (bytes_.size() + data.bytes.size() > limit) {
      return absl::InvalidArgumentError(
          fmt::format("ring {}: the parts of {} have more than {} bytes",
                      data.ring.value(), data.number.value(), limit));
    }
    ring_ = data.ring;
    bytes_ += data.bytes;
    return absl::OkStatus();
  }
  // The whole of what `last` ends; good until the next call.
  std::string_view Join(std::string_view last) {
    joined_ = std::move(bytes_);
    bytes_.clear();
    joined_ += last;
    return joined_;
  }

 private:
  RingId ring_;
  std::string bytes_;
  std::string joined_;
};

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_PARTS_H_
