#include <chrono>
#include <cstring>
#include <zmq.hpp>

#include "fmt/format.h"
#include "tools/bench/transports/transports.h"

namespace carillon::bench {
namespace {

// No wait of recv() is longer.
void LimitPatience(zmq::socket_t* socket) {
  socket->set(zmq::sockopt::rcvtimeo,
              static_cast<int>(std::chrono::milliseconds(kPatience).count()));
}

// The next frame; false after kPatience without one. It is this thread that
// waits as `wait` says: ZeroMQ's own I/O thread always sleeps.
bool ReceiveFrom(zmq::socket_t& socket, zmq::message_t* frame, Wait wait,
                 std::chrono::nanoseconds spin) {
  const auto receive = [&](zmq::recv_flags flags) {
    return socket.recv(*frame, flags).has_value();
  };
  return WaitUntil(
      wait, spin, [&] { return receive(zmq::recv_flags::dontwait); },
      [&] { return receive(zmq::recv_flags::none); });
}

absl::Status Serve(const std::string& directory, Wait wait,
                   AnnounceReady ready) {
  const std::string endpoint = "ipc://" + directory + "/zmq";
  try {
    zmq::context_t context;
    zmq::socket_t socket(context, zmq::socket_type::rep);
    LimitPatience(&socket);
    socket.bind(endpoint);
    ready(endpoint);
    while (true) {
      zmq::message_t message;
      if (!ReceiveFrom(socket, &message, wait, kServerSpin)) continue;
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
  ZeroMqClient(const std::string& endpoint, Wait wait)
      : single_(context_, zmq::socket_type::req),
        pipelined_(context_, zmq::socket_type::dealer),
        wait_(wait) {
    for (zmq::socket_t* socket : {&single_, &pipelined_}) {
      socket->set(zmq::sockopt::linger, 0);
      LimitPatience(socket);
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
    if (!ReceiveFrom(pipelined_, &empty, wait_, kClientSpin)) return Silent();
    return ReceiveOn(pipelined_, reply);
  }
  absl::Status RoundTrip(const Message& request, Message* reply) override {
    single_.send(zmq::buffer(&request, sizeof(request)), zmq::send_flags::none);
    return ReceiveOn(single_, reply);
  }

 private:
  absl::Status ReceiveOn(zmq::socket_t& socket, Message* reply) {
    zmq::message_t frame;
    if (!ReceiveFrom(socket, &frame, wait_, kClientSpin)) return Silent();
    if (frame.size() != sizeof(*reply)) {
      return absl::InternalError(
          fmt::format("a reply of {} bytes", frame.size()));
    }
    std::memcpy(reply, frame.data(), sizeof(*reply));
    return absl::OkStatus();
  }

  zmq::context_t context_;
  zmq::socket_t single_;
  zmq::socket_t pipelined_;
  const Wait wait_;
};

absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& endpoint,
                                                Wait wait) {
  try {
    return std::make_unique<ZeroMqClient>(endpoint, wait);
  } catch (const zmq::error_t& error) {
    return absl::InternalError(fmt::format("ZeroMQ: {}", error.what()));
  }
}

}  // namespace

Transport ZeroMqIpc() {
  return {.name = "zmq_ipc",
          .label = "ZeroMQ ipc REQ/REP (its I/O threads sleep)",
          .serve = &Serve,
          .connect = &Connect};
}

}  // namespace carillon::bench
