// A whole gpud inside a test, and a device that speaks to it as any process
// does.
#ifndef CARILLON_GPU_DAEMON_CONTROL_TESTING_TEST_TESTBED_H_
#define CARILLON_GPU_DAEMON_CONTROL_TESTING_TEST_TESTBED_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/temp_directory.h"
#include "base/testbed_paths.h"
#include "base/testing/eventually.h"
#include "gpu_daemon/control/control_plane.h"
#include "proto/admin.grpc.pb.h"
#include "proto/devices.grpc.pb.h"
#include "proto/events.grpc.pb.h"
#include "shm/aperture.h"
#include "shm/device_ring.h"
#include "shm/handover.h"

namespace carillon::gpud {

size_t OpenDescriptors();

// A ClientContext with a deadline of `timeout` from now.
std::unique_ptr<grpc::ClientContext> Within(
    std::chrono::milliseconds timeout = std::chrono::seconds(60));

// The ErrorDetail in a failed call's trailer.
v1::ErrorDetail DetailIn(const grpc::ClientContext& context);

// The outcome of one call: the canonical status and its detail's reason.
struct Outcome {
  grpc::Status status;
  std::string reason;
  bool ok() const { return status.ok(); }
};

class TestTestbed {
 public:
  explicit TestTestbed(ControlPlane::Options options = {});
  ~TestTestbed();

  TestbedPaths paths() const { return TestbedPaths(directory_.path()); }
  ControlPlane& plane() { return *plane_; }
  // As Admin.Shutdown or a signal would: returns when everything has ended.
  void Stop();

  v1::Admin::Stub& admin() { return *admin_; }
  v1::Devices::Stub& devices() { return *devices_; }
  v1::Events::Stub& events() { return *events_; }
  // An operator's channel, and a device's.
  const std::shared_ptr<grpc::Channel>& channel() { return channel_; }
  const std::shared_ptr<grpc::Channel>& device_channel() {
    return device_channel_;
  }

  v1::GetStatusResponse Status();
  v1::ListDevicesResponse Devices();
  v1::ListEktResponse Ekt();
  // Waits until the table has no device of that name.
  bool WaitUntilGone(const std::string& device);

  template <class Stub, class Request, class Response>
  static Outcome Call(Stub& stub,
                      grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                   const Request&, Response*),
                      const Request& request, Response* response) {
    const auto context = Within();
    Outcome outcome;
    outcome.status = (stub.*method)(context.get(), request, response);
    if (!outcome.ok()) outcome.reason = DetailIn(*context).reason();
    return outcome;
  }

 private:
  template <class Request, class Response>
  Response Ask(grpc::Status (v1::Admin::Stub::*method)(grpc::ClientContext*,
                                                       const Request&,
                                                       Response*));

  TempDirectory directory_;
  std::unique_ptr<ControlPlane> plane_;
  std::thread thread_;
  std::shared_ptr<grpc::Channel> channel_;
  std::shared_ptr<grpc::Channel> device_channel_;
  std::unique_ptr<v1::Admin::Stub> admin_;
  std::unique_ptr<v1::Devices::Stub> devices_;
  std::unique_ptr<v1::Events::Stub> events_;
};

v1::AttachRequest AttachRequestFor(const std::string& name);
shm::Ticket TicketIn(const v1::AttachResponse& response);

// A device in the test's own process.
class AttachedDevice {
 public:
  // Attaches and fetches the apertures; fails the test if it cannot.
  AttachedDevice(TestTestbed* testbed, const std::string& name);
  AttachedDevice(TestTestbed* testbed, const v1::AttachRequest& request);

  const std::string& session() const { return attached_.session(); }
  uint32_t device_id() const { return attached_.device_id(); }
  uint32_t generation() const { return attached_.generation(); }
  const shm::Aperture& submission() const { return submission_; }
  const shm::Aperture& completion() const { return completion_; }
  shm::CloseReason close_reason() const;
  void CloseConnection() { handed_over_.connection.reset(); }
  int connection() const { return handed_over_.connection.get(); }

  Outcome AllocateBuffer(v1::BufferPlace place, uint64_t bytes,
                         v1::AllocateBufferResponse* response);
  // Its id; fails the test if there is no room.
  uint32_t Buffer(v1::BufferPlace place, uint64_t bytes);
  Outcome FreeBuffer(uint32_t id);
  // A request for null_event, complete but for what the test changes.
  v1::RegisterEventRequest NullEvent(uint32_t entries = 4) const;
  Outcome Register(const v1::RegisterEventRequest& request,
                   v1::RegisterEventResponse* response);
  // Registers and makes the device's end of the ring; fails the test if it
  // cannot.
  shm::DeviceRing RingOf(const v1::RegisterEventRequest& request);
  Outcome Unregister(uint32_t event_id, uint32_t drain_ms,
                     uint64_t* aborted = nullptr);
  Outcome Detach(uint64_t* aborted = nullptr);

  // Waits for the ring's next completion and frees it.
  static std::optional<shm::Completion> Await(shm::DeviceRing& ring);

 private:
  TestTestbed* const testbed_;
  v1::AttachResponse attached_;
  shm::HandedOver handed_over_;
  shm::Aperture submission_;
  shm::Aperture completion_;
};

v1::ParameterBinding Value(const std::string& name, uint64_t value);
v1::ParameterBinding WritableParameter(const std::string& name);
v1::ParameterBinding Part(const std::string& name, uint32_t buffer_id,
                          uint64_t offset = 0, uint64_t length = 0,
                          uint64_t slot_stride = 0);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_TESTING_TEST_TESTBED_H_
