#include <boost/date_time/posix_time/posix_time_types.hpp>
#include <boost/interprocess/exceptions.hpp>
#include <boost/interprocess/ipc/message_queue.hpp>

#include "fmt/format.h"
#include "tools/bench/transports/transports.h"

namespace carillon::bench {
namespace {

namespace bip = boost::interprocess;

// The queues have names under /dev/shm, made from the server's directory.
std::string QueueName(const std::string& directory, const char* which) {
  const size_t slash = directory.rfind('/');
  return fmt::format("{}-{}", directory.substr(slash + 1), which);
}

absl::Status Failed(const bip::interprocess_exception& error) {
  return absl::InternalError(fmt::format("message_queue: {}", error.what()));
}

// False after kPatience without a message.
bool ReceiveFrom(bip::message_queue& queue, Message* message, Wait wait,
                 std::chrono::nanoseconds spin) {
  bip::message_queue::size_type size;
  unsigned priority;
  const auto look = [&] {
    return queue.try_receive(message, sizeof(*message), size, priority);
  };
  return WaitUntil(wait, spin, look, [&] {
    // The wait with a deadline is the last resort, because it reads the clock
    // each time.
    if (look()) return true;
    const auto deadline = boost::posix_time::microsec_clock::universal_time() +
                          boost::posix_time::seconds(kPatience.count());
    return queue.timed_receive(message, sizeof(*message), size, priority,
                               deadline);
  });
}

absl::Status Serve(const std::string& directory, Wait wait,
                   AnnounceReady ready) {
  try {
    bip::message_queue requests(bip::create_only,
                                QueueName(directory, "requests").c_str(),
                                kMaxWindow, sizeof(Message));
    bip::message_queue replies(bip::create_only,
                               QueueName(directory, "replies").c_str(),
                               kMaxWindow, sizeof(Message));
    ready(directory);
    while (true) {
      Message message;
      if (!ReceiveFrom(requests, &message, wait, kServerSpin)) continue;
      replies.send(&message, sizeof(message), 0);
    }
  } catch (const bip::interprocess_exception& error) {
    return Failed(error);
  }
}

class QueueClient final : public Client {
 public:
  QueueClient(const std::string& directory, Wait wait)
      : requests_(bip::open_only, QueueName(directory, "requests").c_str()),
        replies_(bip::open_only, QueueName(directory, "replies").c_str()),
        wait_(wait) {}

  absl::Status Send(const Message& request) override {
    requests_.send(&request, sizeof(request), 0);
    return absl::OkStatus();
  }
  absl::Status Receive(Message* reply) override {
    return ReceiveFrom(replies_, reply, wait_, kClientSpin) ? absl::OkStatus()
                                                            : Silent();
  }

 private:
  bip::message_queue requests_;
  bip::message_queue replies_;
  const Wait wait_;
};

absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& endpoint,
                                                Wait wait) {
  try {
    return std::make_unique<QueueClient>(endpoint, wait);
  } catch (const bip::interprocess_exception& error) {
    return Failed(error);
  }
}

void CleanUp(const std::string& directory) {
  bip::message_queue::remove(QueueName(directory, "requests").c_str());
  bip::message_queue::remove(QueueName(directory, "replies").c_str());
}

}  // namespace

Transport BoostMessageQueue() {
  return {.name = "boost_mq",
          .label = "Boost message_queue (comparison only)",
          .serve = &Serve,
          .connect = &Connect,
          .clean_up = &CleanUp};
}

}  // namespace carillon::bench
