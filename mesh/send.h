// How the engine writes what an end of a link has to say.
#ifndef CARILLON_MESH_SEND_H_
#define CARILLON_MESH_SEND_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/status.h"
#include "mesh/link_options.h"

namespace carillon::mesh {

// Frames that are chosen and not yet written: few, since a frame that is chosen
// late says more. No more than this and one frame is written at a time, since
// the other threads of the link wait meanwhile.
inline constexpr size_t kWriteBytes = 64 << 10;

enum class Sent {
  kAll,      // there is nothing to say any more
  kBlocked,  // the connection takes no more now
  kMore,     // there may be: to be called again, with the lock free in between
};

// Writes what it can of `out`, whose first bytes go first.
template <class Stream>
absl::Status Flush(Stream& stream, std::string& out) {
  size_t sent = 0;
  while (sent < out.size()) {
    ASSIGN_OR_RETURN(const size_t put,
                     stream.Write(std::string_view(out).substr(sent)));
    if (put == 0) break;
    sent += put;
  }
  out.erase(0, sent);
  return absl::OkStatus();
}

// Writes what `out` has, and some frames that `end` chooses for this connection.
// Errors: those of Stream::Write().
template <class End, class Stream>
absl::StatusOr<Sent> SendSome(End& end, Stream& stream, Nanoseconds now,
                              std::string& out) {
  bool more = true;
  while (more && out.size() < kWriteBytes) {
    const std::optional<Out> next = end.Poll(now);
    more = next.has_value();
    if (more && end.IsCurrent(next->epoch)) out += next->bytes;
  }
  RETURN_IF_ERROR(Flush(stream, out));
  if (!out.empty()) return Sent::kBlocked;
  return more ? Sent::kMore : Sent::kAll;
}

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_SEND_H_
