// Publishes the testbed's telemetry: on a ZeroMQ PUB socket for any process,
// and in bounded queues for Admin.Watch.
#ifndef CARILLON_GPU_DAEMON_CONTROL_TELEMETRY_BUS_H_
#define CARILLON_GPU_DAEMON_CONTROL_TELEMETRY_BUS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "proto/telemetry.pb.h"

namespace carillon::gpud {

// The name of the field of `what` that is set: a bus message's topic.
std::string TopicOf(const v1::TelemetryEvent& event);

// Thread safe. Publishing waits neither for the bus's thread nor for any
// reader.
class TelemetryBus {
 public:
  struct Options {
    std::string socket_path;
    // How many messages may wait for the bus's thread.
    size_t queue_capacity = 4096;
    // How many messages ZeroMQ keeps for one subscriber that does not read.
    int subscriber_capacity = 1000;
    // How many messages may wait for one watcher.
    size_t watcher_capacity = 1024;
  };

  // One reader in this process, from the moment of Subscribe() on.
  class Watcher {
   public:
    enum class Outcome { kEvent, kTimedOut, kOverflowed, kClosed };
    // Takes the next message. Returns kOverflowed for ever once a message did
    // not fit, and kClosed after the last message when the bus has closed.
    Outcome Next(std::chrono::milliseconds timeout, v1::TelemetryEvent* event);
    // The number of the last message before the first that Next() gives.
    uint64_t start_number() const { return start_number_; }
    // The time at which a message did not fit; 0 as long as all did.
    Nanoseconds overflowed_ns() const;

   private:
    friend class TelemetryBus;
    mutable Mutex mutex_;
    CondVar changed_;
    std::deque<std::shared_ptr<const v1::TelemetryEvent>> queue_
        ABSL_GUARDED_BY(mutex_);
    uint64_t start_number_ = 0;
    Nanoseconds overflowed_ns_ ABSL_GUARDED_BY(mutex_) = 0;
    bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  };

  // Binds ipc://<socket_path>, mode 0600; a stale socket is removed. Errors:
  // AlreadyExists, InvalidArgument (path), Unavailable (ZeroMQ's reason).
  static absl::StatusOr<std::unique_ptr<TelemetryBus>> Start(Options options);
  ~TelemetryBus();  // closes

  // Gives the message its number and time, and sends it to everybody who still
  // has room.
  void Publish(v1::TelemetryEvent event);

  std::shared_ptr<Watcher> Subscribe();

  // Sends what waits, for a bounded time, then closes the socket and all
  // watchers.
  void Close();

  // Count the messages that ZeroMQ took for every subscriber, and those for
  // which the queue or a subscriber had no room. ZeroMQ tells only of a
  // subscriber's first lost message. The subscriber itself knows from the
  // messages' numbers how many it lost until it read again.
  uint64_t sent() const { return sent_.load(std::memory_order_relaxed); }
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  class Socket;
  using EventPtr = std::shared_ptr<const v1::TelemetryEvent>;

  TelemetryBus(Options options, std::unique_ptr<Socket> socket);
  void Run();

  const Options options_;
  std::unique_ptr<Socket> socket_;  // the bus's thread only
  // Writers: the bus's thread and publishers; readers: any. Relaxed, because
  // they are only figures.
  std::atomic<uint64_t> sent_{0};
  std::atomic<uint64_t> dropped_{0};

  Mutex mutex_;
  CondVar work_;
  uint64_t number_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<EventPtr> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<Watcher>> watchers_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_TELEMETRY_BUS_H_
