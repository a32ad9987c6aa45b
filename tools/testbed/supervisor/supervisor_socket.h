// Requests to the supervisor of a running testbed: one per connection, a line
// of JSON through a Unix socket. The answer is lines {"say": text}, at last
// {"done": document} or {"failed": {"code", "message", "hint"}}.
#ifndef CARILLON_TOOLS_TESTBED_SUPERVISOR_SUPERVISOR_SOCKET_H_
#define CARILLON_TOOLS_TESTBED_SUPERVISOR_SUPERVISOR_SOCKET_H_

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "base/unique_fd.h"
#include "tools/testbed/supervisor/stop_signals.h"

namespace carillon::testbed {

// The supervisor's end. No call blocks, whatever clients do: a client that is
// slow to ask or to read, or asks for nonsense, loses its connection. One
// thread.
class RequestServer {
 public:
  using Clock = std::chrono::steady_clock;

  struct Limits {
    // Further clients wait until one of these has gone.
    size_t connections = 16;
    size_t request_bytes = 8 << 10;
    // The limit from connecting to the end of the request.
    std::chrono::milliseconds request_time{2000};
    // Only processes of this user may ask.
    uid_t user;
    Limits();  // the user of this process
  };

  struct Request {
    uint64_t id = 0;  // never 0
    Json json;        // an object
  };

  explicit RequestServer(Limits limits = Limits()) : limits_(limits) {}
  RequestServer(const RequestServer&) = delete;
  RequestServer& operator=(const RequestServer&) = delete;

  // Makes the socket, mode 0600. Errors: InvalidArgument (the path is too
  // long), PermissionDenied (it cannot be made, or exists already).
  absl::Status Open(const std::string& path);
  // Drops all connections. The socket's file stays.
  void Close();

  // Adds the descriptors to be polled for Take().
  void AddTo(std::vector<pollfd>& fds) const;
  // The latest time at which Take() has something to do.
  std::optional<Clock::time_point> NextDeadline() const;
  // The requests that have arrived. The caller ends each by Done() or Failed().
  std::vector<Request> Take();

  // Does nothing if the client has gone.
  void Say(uint64_t id, const std::string& line);
  void Done(uint64_t id, const Json& document);
  void Failed(uint64_t id, const absl::Status& status);

 private:
  struct Connection {
    uint64_t id = 0;
    UniqueFd fd;
    Clock::time_point deadline;  // the limit for its request
    std::string request;         // what has arrived
    bool asked = false;          // the request is complete
  };

  void Accept();
  // Returns false if the connection is to be dropped.
  bool Read(Connection& connection, std::vector<Request>* requests);
  bool Write(Connection& connection, const Json& line);
  void WriteLast(uint64_t id, const Json& line);
  std::list<Connection>::iterator Find(uint64_t id);

  const Limits limits_;
  UniqueFd listener_;
  std::list<Connection> connections_;
  uint64_t last_id_ = 0;
};

// The client's end: how a request is made.
struct SupervisorQuestion {
  std::string socket;
  Json request;
  // The limits for the first word, and for the last.
  std::chrono::milliseconds first_word{10'000};
  std::chrono::milliseconds limit{60'000};
  // Narration is held back for this long, and dropped if all is over by then.
  std::chrono::milliseconds quiet{2000};
  // Ends the wait, but not what was asked for. May be null.
  StopSignals* interrupt = nullptr;
  // Takes one line of narration.
  std::function<void(const std::string&)> say;
};

// Returns the document of the answer. Errors: those of the supervisor;
// Unavailable (it does not listen, or went away), DeadlineExceeded, Cancelled.
absl::StatusOr<Json> AskSupervisor(const SupervisorQuestion& question);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_SUPERVISOR_SOCKET_H_
