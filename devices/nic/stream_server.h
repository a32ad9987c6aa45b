// The NIC's TCP side: connections that carry one memcached request at a time.
#ifndef CARILLON_DEVICES_NIC_STREAM_SERVER_H_
#define CARILLON_DEVICES_NIC_STREAM_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "devices/nic/request.h"
#include "devices/nic/socket_address.h"
#include "shm/faults/point.h"

namespace carillon::nic {

// Takes the requests of all connections.
class StreamSink {
 public:
  virtual ~StreamSink() = default;
  // Exactly one Reply() or ReplyTooLarge() must follow, but not within this
  // call.
  virtual void OnStreamRequest(ConnectionIndex connection,
                               std::string_view request) = 0;
};

struct StreamCounts {
  uint64_t refused = 0;  // over the limit of connections or descriptors
  uint64_t open = 0;     // now
  uint64_t accepted = 0;
  uint64_t commands = 0;
  uint64_t bytes_received = 0;
  uint64_t bytes_sent = 0;
};

// A connection has one request in flight, so replies keep their order. What the
// client sends meanwhile waits in the connection's buffer, and beyond a limit
// in the kernel's. A client that does not read its replies is not read from,
// and holds at most one reply here. Idle connections cost no time. Not thread
// safe.
class StreamServer {
 public:
  struct Limits {
    uint32_t max_connections = 1024;
    uint32_t max_value = 1 << 20;  // bytes of a data block
  };

  // Registers its descriptors with `epoll_fd`, with data whose upper byte is
  // `tag`. `sink` must outlive the server. Errors: those of BindSocket.
  static absl::StatusOr<std::unique_ptr<StreamServer>> Listen(
      const SocketAddress& address, int epoll_fd, uint8_t tag,
      const Limits& limits, StreamSink* sink);
  ~StreamServer();

  const SocketAddress& address() const { return address_; }
  const StreamCounts& counts() const { return counts_; }

  // Handles an event of epoll with this server's tag.
  void OnEvent(uint64_t data, uint32_t events);

  // The request in flight. Its bytes stay valid until the reply, even if the
  // connection closes.
  std::string_view request(ConnectionIndex connection) const;
  // Ends the request. An empty reply sends nothing. `close` closes the
  // connection afterwards.
  void Reply(ConnectionIndex connection, std::string_view reply, bool close);
  // No reply buffer is large enough for the reply: asks again for fewer keys at
  // a time, and joins the replies. Returns false, with the request still in
  // flight, if it cannot be divided.
  bool ReplyTooLarge(ConnectionIndex connection);

 private:
  struct Connection;
  StreamServer(UniqueFd listener, int epoll_fd, uint8_t tag,
               const Limits& limits, StreamSink* sink);

  absl::Status Start();
  void Accept();
  void RefuseOne();
  void Admit(UniqueFd fd);
  // True: a fault has reset the connection. Otherwise `bytes` are those that
  // may pass at once.
  bool PassStream(faults::Point point, Connection* connection, size_t* bytes);
  void Read(Connection* connection);
  // Starts the next request if possible.
  void Advance(Connection* connection);
  void Submit(Connection* connection);
  void Write(Connection* connection, std::string_view text);
  void FlushOutput(Connection* connection);
  void UpdateInterest(Connection* connection);
  void Close(Connection* connection);
  void Release(Connection* connection);

  const UniqueFd listener_;
  const int epoll_fd_;
  const uint8_t tag_;
  const Limits limits_;
  StreamSink* const sink_;
  SocketAddress address_;
  // A spare descriptor, given up for a moment to accept and refuse a connection
  // when there is none left.
  UniqueFd spare_;
  StreamCounts counts_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<ConnectionIndex> free_;
  std::string scratch_;
};

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_STREAM_SERVER_H_
