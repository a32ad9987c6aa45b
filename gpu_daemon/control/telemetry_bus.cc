#include "gpu_daemon/control/telemetry_bus.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <zmq.hpp>

#include "base/clock.h"
#include "base/status.h"
#include "base/testbed_paths.h"
#include "fmt/format.h"
#include "gpu_daemon/control/net/unix_listener.h"

namespace carillon::gpud {
namespace {

uint64_t RealtimeNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::string TopicOf(const v1::TelemetryEvent& event) {
  const auto* descriptor = event.GetDescriptor();
  const auto* field = descriptor->FindFieldByNumber(event.what_case());
  return field == nullptr ? "unknown" : field->name();
}

// ZeroMQ's part; its exceptions end here.
class TelemetryBus::Socket {
 public:
  static absl::StatusOr<std::unique_ptr<Socket>> Bind(const Options& options) {
    try {
      std::unique_ptr<Socket> socket(new Socket());
      socket->socket_.set(zmq::sockopt::sndhwm, options.subscriber_capacity);
      // Long enough for the last message to reach those who read.
      socket->socket_.set(zmq::sockopt::linger, 200);
      socket->socket_.bind("ipc://" + options.socket_path);
      return socket;
    } catch (const zmq::error_t& error) {
      return absl::Status(error.num() == EADDRINUSE
                              ? absl::StatusCode::kAlreadyExists
                              : absl::StatusCode::kUnavailable,
                          fmt::format("cannot bind the event bus to {}: {}",
                                      options.socket_path, error.what()));
    }
  }

  // False if a subscriber had no room. The others have got the message: a plain
  // PUB socket drops silently and one with NODROP refuses for everybody, so
  // this asks the second kind and then sends as the first. One stuck subscriber
  // costs nobody else a message.
  bool Send(const std::string& topic, const std::string& body) {
    try {
      socket_.set(zmq::sockopt::xpub_nodrop, true);
      bool whole = TrySend(topic, zmq::send_flags::sndmore);
      if (!whole) {
        // A send looks only now and then for what subscribers have read; this
        // always does.
        static_cast<void>(socket_.get(zmq::sockopt::events));
        whole = TrySend(topic, zmq::send_flags::sndmore);
      }
      if (!whole) {
        socket_.set(zmq::sockopt::xpub_nodrop, false);
        TrySend(topic, zmq::send_flags::sndmore);
      }
      return TrySend(body, zmq::send_flags::none) && whole;
    } catch (const zmq::error_t&) {
      return false;
    }
  }

 private:
  Socket() : context_(1), socket_(context_, zmq::socket_type::pub) {}

  bool TrySend(const std::string& part, zmq::send_flags flags) {
    return socket_.send(zmq::buffer(part), flags | zmq::send_flags::dontwait)
        .has_value();
  }

  zmq::context_t context_;
  zmq::socket_t socket_;
};

TelemetryBus::Watcher::Outcome TelemetryBus::Watcher::Next(
    std::chrono::milliseconds timeout, v1::TelemetryEvent* event) {
  MutexLock lock(mutex_);
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (overflowed_ns_ == 0 && !closed_ && queue_.empty()) {
    if (!changed_.WaitUntil(mutex_, until)) break;
  }
  if (overflowed_ns_ != 0) return Outcome::kOverflowed;
  if (!queue_.empty()) {
    *event = *queue_.front();
    queue_.pop_front();
    return Outcome::kEvent;
  }
  return closed_ ? Outcome::kClosed : Outcome::kTimedOut;
}

Nanoseconds TelemetryBus::Watcher::overflowed_ns() const {
  MutexLock lock(mutex_);
  return overflowed_ns_;
}

absl::StatusOr<std::unique_ptr<TelemetryBus>> TelemetryBus::Start(
    Options options) {
  RETURN_IF_ERROR(CheckSocketPath(options.socket_path));
  // ZeroMQ would take a path over from a process that still serves on it.
  RETURN_IF_ERROR(RemoveStaleSocket(options.socket_path, SOCK_STREAM));
  ASSIGN_OR_RETURN(auto socket, Socket::Bind(options));
  if (chmod(options.socket_path.c_str(), 0600) != 0) {
    return absl::UnavailableError(fmt::format(
        "cannot chmod {}: {}", options.socket_path, std::strerror(errno)));
  }
  return std::unique_ptr<TelemetryBus>(
      new TelemetryBus(std::move(options), std::move(socket)));
}

TelemetryBus::TelemetryBus(Options options, std::unique_ptr<Socket> socket)
    : options_(std::move(options)), socket_(std::move(socket)) {
  thread_ = std::thread([this] { Run(); });
}

TelemetryBus::~TelemetryBus() { Close(); }

void TelemetryBus::Publish(v1::TelemetryEvent event) {
  MutexLock lock(mutex_);
  if (closing_) return;
  event.set_number(++number_);
  event.set_time_ns(RealtimeNs());
  const auto shared =
      std::make_shared<const v1::TelemetryEvent>(std::move(event));
  if (queue_.size() < options_.queue_capacity) {
    queue_.push_back(shared);
    work_.NotifyOne();
  } else {
    dropped_.fetch_add(1, std::memory_order_relaxed);
  }
  std::erase_if(watchers_, [&](const std::weak_ptr<Watcher>& weak) {
    const auto watcher = weak.lock();
    if (watcher == nullptr) return true;
    MutexLock watcher_lock(watcher->mutex_);
    if (watcher->queue_.size() < options_.watcher_capacity) {
      watcher->queue_.push_back(shared);
    } else {
      watcher->overflowed_ns_ = NowNs();
    }
    watcher->changed_.NotifyOne();
    return watcher->overflowed_ns_ != 0;
  });
}

std::shared_ptr<TelemetryBus::Watcher> TelemetryBus::Subscribe() {
  auto watcher = std::make_shared<Watcher>();
  MutexLock lock(mutex_);
  MutexLock watcher_lock(watcher->mutex_);
  watcher->start_number_ = number_;
  watcher->closed_ = closing_;
  watchers_.push_back(watcher);
  return watcher;
}

void TelemetryBus::Run() {
  pthread_setname_np(pthread_self(), "gpud-bus");
  MutexLock lock(mutex_);
  while (true) {
    while (!closing_ && queue_.empty()) work_.Wait(mutex_);
    if (queue_.empty()) return;
    const EventPtr event = std::move(queue_.front());
    queue_.pop_front();
    lock.Unlock();
    const bool whole =
        socket_->Send(TopicOf(*event), event->SerializeAsString());
    (whole ? sent_ : dropped_).fetch_add(1, std::memory_order_relaxed);
    lock.Lock();
  }
}

void TelemetryBus::Close() {
  {
    MutexLock lock(mutex_);
    if (closing_) return;
    closing_ = true;
    for (const auto& weak : watchers_) {
      if (const auto watcher = weak.lock()) {
        MutexLock watcher_lock(watcher->mutex_);
        watcher->closed_ = true;
        watcher->changed_.NotifyOne();
      }
    }
  }
  work_.NotifyOne();
  thread_.join();
  socket_.reset();
  unlink(options_.socket_path.c_str());
}

}  // namespace carillon::gpud
