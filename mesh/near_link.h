// The near end of a link and its thread, which connects again for as long as the
// link is not lost. A connection is one of TCP with mutual TLS 1.3; with the engine
// `tls` the frames go there, and with `ucx` by UCX (mesh/ucx_stream.h).
#ifndef CARILLON_MESH_NEAR_LINK_H_
#define CARILLON_MESH_NEAR_LINK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/host_port.h"
#include "base/mutex.h"
#include "base/tls_files.h"
#include "base/unique_fd.h"
#include "mesh/fair_lock.h"
#include "mesh/link_engine.h"
#include "mesh/link_options.h"
#include "mesh/link_sockets.h"
#include "mesh/link_status.h"
#include "mesh/near_end.h"
#include "mesh/pulse.h"
#include "mesh/tls_stream.h"
#include "mesh/ucx_library.h"
#include "mesh/ucx_stream.h"

namespace carillon::mesh {

// Thread safe. The host's functions are called in the link's thread, or in that of
// With()'s caller, under the link's lock: they must not call the link.
class NearLink {
 public:
  struct Settings {
    TlsFiles tls;
    std::string address;  // of the far end: "10.0.0.5:4711", in numbers
    LinkOptions link;
    Engine engine = Engine::kTls;
    LinkHistory history = {};  // of the link before
  };

  // Whether the other end is there, does not matter: see status(). Errors:
  // InvalidArgument: the files, also where they are not of this host, or the
  // address; FailedPrecondition: there is no UCX, and what to do.
  static absl::StatusOr<std::unique_ptr<NearLink>> Start(
      const Settings& settings, NearHost* host);
  // The events in flight are left to the far end.
  ~NearLink();

  // Calls `use` with the near end, and sends what there is then: the caller's
  // thread does, as far as the connection takes it at once, and the link's all
  // that is more than kWriteBytes.
  void With(const std::function<void(NearEnd&)>& use);

  LinkStatus status();
  // It is down from now on, if it was ever up.
  LinkHistory history();

 private:
  NearLink(TlsContext context, std::shared_ptr<UcxContext> ucx,
           HostPort address, const Settings& settings, NearHost* host);
  void Run();
  // One connection, from its beginning to its end; why it has ended.
  absl::Status Connect();
  // Says at which address that was.
  absl::Status AtAddress(const absl::Status& status) const;
  absl::StatusOr<UniqueFd> Dial(Nanoseconds deadline);
  // Of UCX: asks the far end for a ticket.
  absl::StatusOr<std::unique_ptr<UcxStream>> Meet(TlsStream& stream,
                                                  Nanoseconds deadline);
  absl::Status Serve(LinkStream& stream, Epoch epoch);
  // What can be done now; `wait`: for which events there is to be a wait, unless
  // there is more to do.
  absl::Status Step(Epoch epoch, std::span<char> buffer,
                    std::optional<short>* wait)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for the descriptor, or the alarm, or the time of the next look.
  void Wait(int fd, short events, Nanoseconds until);
  bool IsOver();

  const TlsContext context_;
  const std::shared_ptr<UcxContext> ucx_;  // null: the engine is tls
  const HostPort address_;
  const LinkOptions link_;
  const uint64_t replayed_before_;  // by the links before
  const Alarm alarm_;
  std::atomic<bool> stop_{false};  // written by the destructor, read by thread_
  Mutex mutex_;
  FairLock fair_;  // of With() and status()
  NearEnd near_ ABSL_GUARDED_BY(mutex_);
  LinkStatus status_ ABSL_GUARDED_BY(mutex_);
  // Of the connection that is served; null: none is.
  LinkStream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::string out_ ABSL_GUARDED_BY(mutex_);  // chosen, and not yet written
  bool counted_ ABSL_GUARDED_BY(mutex_) = false;
  DownTime down_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// Why there is no link to `host`, and what to do where nobody is there: a
// sentence.
std::string NoLinkTo(const std::string& host, const LinkStatus& status);

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_NEAR_LINK_H_
