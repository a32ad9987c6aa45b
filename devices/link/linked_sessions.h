// The sessions of another host's devices, and their calls: what that host says
// is done to this host's gpud, and what gpud says goes back.
#ifndef CARILLON_DEVICES_LINK_LINKED_SESSIONS_H_
#define CARILLON_DEVICES_LINK_LINKED_SESSIONS_H_

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "devices/link/linked_session.h"
#include "proto/link.pb.h"
#include "shm/handover.h"

namespace carillon::link {

// One thread. The other host is taken to be hostile.
class LinkedSessions {
 public:
  using Send = LinkedSession::Send;

  static constexpr size_t kMaxConnections = 1024;

  // The sockets of this host's gpud.
  struct Gpud {
    std::function<absl::StatusOr<UniqueFd>()> connect;  // for calls
    std::function<absl::StatusOr<shm::HandedOver>(const shm::Ticket&)> fetch;
  };
  // `host`: the other one. `send` may be called by any thread.
  LinkedSessions(std::string host, Gpud gpud, Send send);

  void Take(const v1::SessionStep& step);
  // Ends all of them, without a word.
  void Clear();

  // Adds what gpud says: whether a session ends, and, if there is room for it,
  // answers to calls.
  void Watch(bool answers, std::vector<pollfd>* fds);
  // `fds`: those that Watch() has added, after poll(). Nothing was called
  // between.
  void Read(std::span<const pollfd> fds);

  size_t connections() const { return calls_.size(); }
  size_t devices() const { return devices_.size(); }

 private:
  // A connection to gpud's control socket.
  struct Calls {
    UniqueFd connection;
    uint64_t process = 0;
  };
  struct Device {
    uint64_t process = 0;
    std::unique_ptr<LinkedSession> session;
  };

  void OpenCalls(const v1::OpenCalls& open);
  void WriteCalls(const v1::CallBytes& bytes);
  absl::StatusOr<std::unique_ptr<LinkedSession>> Open(
      const v1::FetchSession& wanted) const;
  void Fetch(const v1::FetchSession& wanted);
  void ReadCalls(uint64_t id);
  void TellClosed(uint64_t id);
  void TellEnded(uint64_t id);
  void EndDevice(uint64_t id, shm::CloseReason why);

  const std::string host_;
  const Gpud gpud_;
  const Send send_;
  std::map<uint64_t, Calls> calls_;
  std::map<uint64_t, Device> devices_;
  // By Watch(), in the order of its descriptors: calls, then devices.
  std::vector<uint64_t> watched_;
  size_t watched_calls_ = 0;
  bool warned_ = false;  // that the other host says what it may not
};

}  // namespace carillon::link

#endif  // CARILLON_DEVICES_LINK_LINKED_SESSIONS_H_
