// TCP over loopback for tests, and a relay that does to connections what a network does.
#ifndef CARILLON_BASE_TESTING_TCP_RELAY_H_
#define CARILLON_BASE_TESTING_TCP_RELAY_H_

#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <thread>

#include "base/unique_fd.h"

namespace carillon {

// A connection to "127.0.0.1:PORT"; none if nobody listens there.
UniqueFd DialLoopback(const std::string& address);
// Listens on any free port, which `address` tells.
UniqueFd ListenOnLoopback(std::string* address);

// Stands between two ends and carries bytes, one connection at a time. Thread
// safe.
class TcpRelay {
 public:
  // `to`: where the connections go that come to address().
  explicit TcpRelay(std::string to);
  ~TcpRelay();

  const std::string& address() const { return address_; }
  // Each connection is cut after so many bytes, drawn anew from 1 to `most`; 0:
  // none is.
  void CutAfter(uint32_t most) { cut_after_ = most; }
  // The connection that is open now carries nothing any more, and stays open.
  void Silence() { silence_ = true; }
  // What comes goes on so much later.
  void Delay(uint32_t ms) { delay_ms_ = ms; }
  // Whoever dialled waits so long behind each record of TLS that has more than
  // 150 bytes.
  void PauseBehindRecords(uint32_t ms) { record_pause_ms_ = ms; }
  // The connection that is open now is cut.
  void Cut() { ++cuts_; }
  // And while it is on, each other one.
  void Cut(bool on) {
    cut_ = on;
    ++cuts_;
  }
  // No connection comes up any more.
  void Close() { closed_ = true; }
  // Connections that were carried.
  uint64_t connections() const { return connections_; }

 private:
  void Run();
  void Carry(int near, int far, uint64_t cuts);

  const std::string to_;
  std::string address_;
  UniqueFd listener_;
  std::mt19937 random_{7};
  std::atomic<uint32_t> cut_after_ = 0;
  std::atomic<uint32_t> delay_ms_ = 0;
  std::atomic<uint32_t> record_pause_ms_ = 0;
  std::atomic<uint64_t> connections_ = 0;
  std::atomic<bool> silence_ = false;
  std::atomic<bool> cut_ = false;
  std::atomic<uint64_t> cuts_ = 0;
  std::atomic<bool> closed_ = false;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace carillon

#endif  // CARILLON_BASE_TESTING_TCP_RELAY_H_
