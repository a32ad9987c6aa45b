// HTTP/1.1 on loopback, by Boost.Beast, which only http_server.cc includes: it
// takes long to compile.
#ifndef CARILLON_TOOLS_DASHBOARD_HTTP_SERVER_H_
#define CARILLON_TOOLS_DASHBOARD_HTTP_SERVER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "tools/dashboard/http_message.h"

namespace carillon::dashboard {

struct HttpLimits {
  // One more gets 503 and is closed.
  size_t connections = 16;
  size_t header_bytes = 8 << 10;
  size_t body_bytes = 64 << 10;
  // For a request to come whole, and between two of a connection.
  std::chrono::milliseconds request_time{5'000};
  // For a client to take the next piece of a response, and all of them.
  std::chrono::milliseconds write_time{10'000};
  std::chrono::milliseconds response_time{120'000};
};

// What a server serves. Called by several threads at once.
struct HttpHandler {
  std::function<Response(const Request&)> answer;
  // The newest text, if its number is not `*number`, which it then sets.
  // Nothing: there is none newer.
  std::function<SharedText(uint64_t* number)> newest;
  // How many read streams now.
  std::function<void(size_t streams)> streams_changed;
};

// Listens on 127.0.0.1. One thread for all connections, and as many for answers
// as there may be connections: none waits for another, whatever that waits for.
class HttpServer {
 public:
  // Takes the port (0: any free one). Errors: Unavailable (it is taken).
  static absl::StatusOr<std::unique_ptr<HttpServer>> Listen(
      uint16_t port, HttpLimits limits = HttpLimits());
  ~HttpServer();  // stops

  uint16_t port() const;
  // Once: begins to serve.
  void Serve(HttpHandler handler);
  // There may be a newer text for streams. Thread safe.
  void Wake();
  // Drops all connections, and waits for answers that are being made: from then
  // on the handler is not called.
  void Stop();

 private:
  class Impl;

  explicit HttpServer(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace carillon::dashboard

#endif  // CARILLON_TOOLS_DASHBOARD_HTTP_SERVER_H_
