// A device without the SDK and without checks, for tests: it can write every
// byte that a device can reach.
#ifndef CARILLON_INTEGRATION_TESTS_HOSTILE_WIRE_DEVICE_H_
#define CARILLON_INTEGRATION_TESTS_HOSTILE_WIRE_DEVICE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>

#include "base/testbed_paths.h"
#include "proto/admin.grpc.pb.h"
#include "proto/devices.grpc.pb.h"
#include "proto/events.grpc.pb.h"
#include "proto/faults.grpc.pb.h"
#include "shm/handover.h"
#include "shm/layout.h"

namespace carillon::testing {

// How long a hostile device waits for something that must come.
inline constexpr std::chrono::seconds kPatience{30};

// Waits until `state` holds; if it does not within kPatience, ends the process
// with `what`.
void Await(const std::string& what, const std::function<bool()>& state);

// gpud's services, over a separate connection. Thread safe.
class WireControl {
 public:
  // As a device: over control.sock.
  explicit WireControl(const TestbedPaths& paths);
  // As what it is not, to see what gpud says of it: over operator.sock.
  static WireControl OfOperator(const TestbedPaths& paths);

  template <class Stub, class Request, class Response>
  grpc::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                 const Request&, Response*),
                    const Request& request, Response* response) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    const auto& stub = std::get<const std::unique_ptr<Stub>&>(
        std::tie(devices, events, admin, faults));
    return ((*stub).*method)(&context, request, response);
  }
  // The same where only the outcome matters.
  template <class Stub, class Request, class Response>
  grpc::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                 const Request&, Response*),
                    const Request& request) const {
    Response response;
    return Call(method, request, &response);
  }

  const std::shared_ptr<grpc::Channel> channel;
  const std::unique_ptr<v1::Devices::Stub> devices;
  const std::unique_ptr<v1::Events::Stub> events;
  const std::unique_ptr<v1::Admin::Stub> admin;
  const std::unique_ptr<v1::Faults::Stub> faults;

 private:
  explicit WireControl(const std::shared_ptr<grpc::Channel>& channel);
};

v1::AttachRequest AttachRequestFor(const std::string& name);
// Fills in a grid of one thread, for a registration or a launch.
template <class Request>
void SetOneThread(Request& request) {
  for (v1::Dim3* dim : {request.mutable_grid(), request.mutable_block()}) {
    dim->set_x(1);
    dim->set_y(1);
    dim->set_z(1);
  }
}
shm::Ticket TicketOf(const std::string& bytes);

// An attached device with both apertures mapped. Ends the process if that
// fails.
class WireDevice {
 public:
  WireDevice(const TestbedPaths& paths, const std::string& name);
  WireDevice(const WireDevice&) = delete;
  WireDevice& operator=(const WireDevice&) = delete;

  // What the apertures were made with; the second one is mapped read-only. The
  // mapping reaches to the end of what they may grow to.
  std::span<std::byte> submission() const { return submission_; }
  std::span<const std::byte> completion() const { return completion_; }
  template <class T>
  T* At(uint64_t offset) const {
    return reinterpret_cast<T*>(submission_.data() + offset);
  }
  shm::SubmissionControl& submission_control() const {
    return *At<shm::SubmissionControl>(shm::kControlOffset);
  }
  const shm::CompletionControl& completion_control() const {
    return *reinterpret_cast<const shm::CompletionControl*>(
        completion_.data() + shm::kControlOffset);
  }
  shm::CloseReason closed() const;

  // Rings doorbell `index` so many times, and wakes gpud whether it sleeps or
  // not.
  void RingDoorbell(uint32_t index, uint32_t times) const;

  const std::string name;
  WireControl control;
  v1::AttachResponse attached;
  shm::HandedOver handed;

 private:
  std::span<std::byte> submission_;
  std::span<const std::byte> completion_;
};

// A ring of `echo` events; the device chooses the input of each.
class WireRing {
 public:
  static constexpr uint64_t kMessage = 64;

  // Up to 32 `threads` take the short path, more go through the KMU. An entry
  // has room for `message` bytes.
  WireRing(WireDevice* device, uint32_t entries, uint32_t threads,
           uint64_t message = kMessage);

  // The parts of the next event's entry, with an input of kMessage bytes. They
  // are valid; gpud sees what the caller changes.
  struct Entry {
    shm::EsqEntryHeader header;
    shm::BufferRef in;
  };
  Entry Next() const;
  // Writes the entry, rings once, and counts it as rung.
  void Launch(const Entry& entry);
  std::byte* entry(uint64_t sequence) const;

  // How event `sequence` has ended, if it has.
  std::optional<shm::EcqEntry> Ended(uint64_t sequence) const;
  // Launches the entry and waits for its end. Nothing if gpud has closed the
  // session.
  std::optional<shm::EcqEntry> Run(const Entry& entry);

  const v1::RegisterEventResponse& layout() const { return layout_; }
  uint64_t rung() const { return rung_; }
  uint64_t input_bytes() const { return input_bytes_; }

 private:
  WireDevice* const device_;
  const uint64_t message_;
  const uint64_t input_bytes_;
  v1::RegisterEventResponse layout_;
  uint64_t rung_ = 0;
};

}  // namespace carillon::testing

#endif  // CARILLON_INTEGRATION_TESTS_HOSTILE_WIRE_DEVICE_H_
