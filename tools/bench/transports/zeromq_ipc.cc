#include <chrono>
#include <cstring>
#include <zmq.hpp>

#include "fmt/format.h"
#include "tools/bench/transports/transports.h"

namespace carillon::bench {
namespace {

absl::Status Serve(const std::string& directory, AnnounceReady ready) {
  const std::string endpoint = "ipc://" + directory + "/zmq";
  try {
    zmq::context_t context;
    zmq::socket_t socket(context, zmq::socket_type::rep);
    socket.bind(endpoint);
    ready(endpoint);
    while (true) {
      zmq::message_t message;
      if (!socket.recv(message)) continue;
      socket.send(message, zmq::send_flags::none);
    }
  } catch (const zmq::error_t& error) {
    return absl::InternalError(fmt::format("ZeroMQ: {}", error.what()));
  }
}

// REQ allows one request at a time. A DEALER that sends REQ's empty first frame
// looks the same to the server and allows many.
class ZeroMqClient final : public Client {
 public:
  explicit ZeroMqClient(const std::string& endpoint)
      : single_(context_, zmq::socket_type::req),
        pipelined_(context_, zmq::socket_type::dealer) {
    for (zmq::socket_t* socket : {&single_, &pipelined_}) {
      socket->set(zmq::sockopt::linger, 0);
      socket->set(
          zmq::sockopt::rcvtimeo,
          static_cast<int>(std::chrono::milliseconds(kPatience).count()));
      socket->connect(endpoint);
    }
  }

  absl::Status Send(const Message& request) override {
    pipelined_.send(zmq::message_t(), zmq::send_flags::sndmore);
    pipelined_.send(zmq::buffer(&request, sizeof(request)),
                    zmq::send_flags::none);
    return absl::OkStatus();
  }
  absl::Status Receive(Message* reply) override {
    zmq::message_t empty;
    if (!pipelined_.recv(empty)) return Silent();
    return ReceiveOn(pipelined_, reply);
  }
  absl::Status RoundTrip(const Message& request, Message* reply) override {
    single_.send(zmq::buffer(&request, sizeof(request)), zmq::send_flags::none);
    return ReceiveOn(single_, reply);
  }

 private:
  static absl::Status Silent() {
    return absl::DeadlineExceededError("the other side does not answer");
  }
  static absl::Status ReceiveOn(zmq::socket_t& socket, Message* reply) {
    const auto got = socket.recv(zmq::buffer(reply, sizeof(*reply)));
    if (!got) return Silent();
    if (got->size != sizeof(*reply)) {
      return absl::InternalError(
          fmt::format("a reply of {} bytes", got->untruncated_size));
    }
    return absl::OkStatus();
  }

  zmq::context_t context_;
  zmq::socket_t single_;
  zmq::socket_t pipelined_;
};

absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& endpoint,
                                                std::chrono::nanoseconds) {
  try {
    return std::make_unique<ZeroMqClient>(endpoint);
  } catch (const zmq::error_t& error) {
    return absl::InternalError(fmt::format("ZeroMQ: {}", error.what()));
  }
}

}  // namespace

Transport ZeroMqIpc() {
  return {.name = "zmq_ipc",
          .label = "ZeroMQ ipc REQ/REP",
          .serve = &Serve,
          .connect = &Connect};
}

}  // namespace carillon::bench
