#include "tools/testbed/load/nic_load.h"

#include <chrono>
#include <utility>

#include "base/host_port.h"

namespace carillon::testbed {
namespace {

using std::chrono::milliseconds;

// The interval for asking a NIC again, and the delay for noticing a change.
constexpr milliseconds kPause{50};
constexpr milliseconds kSlice{50};

Workload WorkloadOf(uint32_t window, uint64_t seed) {
  Workload workload;
  workload.keys = 64;
  workload.value_bytes = 32;
  // A NIC that has come back has an empty store.
  workload.get_share = 0.8;
  workload.window = window;
  workload.timeout = milliseconds(100);
  workload.seed = seed;
  return workload;
}

}  // namespace

NicLoad::NicLoad(uint32_t window, uint64_t seed)
    : workload_(WorkloadOf(window, seed)), thread_([this] { Serve(); }) {}

NicLoad::~NicLoad() { Stop(); }

void NicLoad::SetAddress(const std::string& host, uint16_t port,
                         uint16_t tcp_port) {
  const MutexLock lock(mutex_);
  const Address address{host, port, tcp_port};
  if (address == address_) return;
  address_ = address;
  changed_.NotifyAll();
}

LoadResult NicLoad::Stop() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
  return total_;
}

bool NicLoad::Next(Address* address, milliseconds pause) {
  MutexLock lock(mutex_);
  const auto until = std::chrono::steady_clock::now() + pause;
  while (!ending_ && changed_.WaitUntil(mutex_, until)) continue;
  while (!ending_ && address_.port == 0) changed_.Wait(mutex_);
  *address = address_;
  return !ending_;
}

bool NicLoad::StaysAt(const Address& address) {
  const MutexLock lock(mutex_);
  return !ending_ && address_ == address;
}

void NicLoad::Serve() {
  Address address;
  for (milliseconds pause{0}; Next(&address, pause); pause = kPause) {
    ServeOne(address);
  }
}

void NicLoad::ServeOne(const Address& address) {
  auto client = MemcClient::Connect(address.host, address.port, workload_);
  if (!client.ok() || !(*client)->WarmByUdp().ok()) return;
  while (StaysAt(address)) {
    (*client)->Run(kSlice, &total_);
    replies_.store(total_.replies, std::memory_order_relaxed);
    if (address.tcp_port == 0) continue;
    // A connection may end at any time, but not with another answer.
    if (absl::IsInternal((*client)->WarmByTcp(address.tcp_port))) ++total_.bad;
  }
}

namespace {

// `what`: "udp ".
bool ReadAddress(std::string_view note, std::string_view what,
                 std::string* host, uint16_t* port) {
  const size_t start = note.find(what);
  if (start == note.npos) return false;
  std::string_view address = note.substr(start + what.size());
  address = address.substr(0, address.find_first_of(", "));
  auto read = ReadHostPort(address);
  if (!read.ok() || read->port == 0) return false;
  *host = std::move(read->host);
  *port = read->port;
  return true;
}

}  // namespace

bool ReadUdpAddress(std::string_view note, std::string* host, uint16_t* port) {
  return ReadAddress(note, "udp ", host, port);
}

bool ReadTcpAddress(std::string_view note, std::string* host, uint16_t* port) {
  return ReadAddress(note, "tcp ", host, port);
}

}  // namespace carillon::testbed
