// Load for a NIC while its testbed is broken: a memcached client in a thread of
// its own, which checks every byte of every reply, and finds the NIC again
// after its restart.
#ifndef CARILLON_TOOLS_TESTBED_LOAD_NIC_LOAD_H_
#define CARILLON_TOOLS_TESTBED_LOAD_NIC_LOAD_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "base/mutex.h"
#include "tools/testbed/load/memc_client.h"

namespace carillon::testbed {

// Thread safe.
class NicLoad {
 public:
  // `window` is the number of requests in flight.
  NicLoad(uint32_t window, uint64_t seed);
  ~NicLoad();
  NicLoad(const NicLoad&) = delete;
  NicLoad& operator=(const NicLoad&) = delete;

  // Where the NIC serves UDP; port 0: it does not. With a `tcp_port` every key
  // is also stored by a TCP connection of its own, again and again.
  void SetAddress(const std::string& host, uint16_t port,
                  uint16_t tcp_port = 0);
  // The good replies so far.
  uint64_t replies() const { return replies_.load(std::memory_order_relaxed); }
  // Ends the load and returns the total result.
  LoadResult Stop();

 private:
  struct Address {
    std::string host;
    uint16_t port = 0;
    uint16_t tcp_port = 0;

    bool operator==(const Address&) const = default;
  };

  void Serve();
  // Serves until the NIC moves or the load ends.
  void ServeOne(const Address& address);
  // Waits until there is a NIC, or at most `pause`. Returns false once the load
  // ends.
  bool Next(Address* address, std::chrono::milliseconds pause);
  bool StaysAt(const Address& address);

  const Workload workload_;
  Mutex mutex_;
  CondVar changed_;
  Address address_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  LoadResult total_;  // the thread's, until it has ended
  // Writer: the thread; readers: any. Relaxed, as it is only a figure.
  std::atomic<uint64_t> replies_{0};
  std::thread thread_;
};

// Reads the address from a NIC's readiness note, "udp 127.0.0.1:11211 tcp ...".
// Returns false for another note.
bool ReadUdpAddress(std::string_view note, std::string* host, uint16_t* port);
// The same of "tcp 127.0.0.1:11212".
bool ReadTcpAddress(std::string_view note, std::string* host, uint16_t* port);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_LOAD_NIC_LOAD_H_
