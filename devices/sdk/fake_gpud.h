// A stand-in for gpud inside a test: it answers the control plane and hands
// real apertures over, and can be told to answer wrongly, which the real one
// never does. The test plays the GPU with ring().
#ifndef CARILLON_DEVICES_SDK_FAKE_GPUD_H_
#define CARILLON_DEVICES_SDK_FAKE_GPUD_H_

#include <grpcpp/server.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "proto/devices.grpc.pb.h"
#include "proto/events.grpc.pb.h"
#include "shm/aperture.h"
#include "shm/gpu_ring.h"
#include "shm/wakeups.h"

namespace carillon::edge {

// Serves one device at a time.
class FakeGpud : private v1::Devices::Service, private v1::Events::Service {
 public:
  // The error that comes back instead of an answer.
  struct Refusal {
    grpc::StatusCode code = grpc::StatusCode::OK;
    std::string message;
    std::string trailer;  // raw bytes of "carillon-error-bin"; none if empty
  };
  struct Behaviour {
    Refusal refusal;  // of every call but Attach and Detach
    std::chrono::milliseconds answer_after{0};  // delay of the same calls
    std::function<void(v1::AttachResponse*)> change_attach;
    std::function<void(v1::AllocateBufferResponse*)> change_buffer;
    std::function<void(v1::RegisterEventResponse*)> change_registration;
  };

  // Listens in `directory`, which must exist.
  explicit FakeGpud(const std::string& directory);
  ~FakeGpud() override;

  void Behave(Behaviour behaviour);

  // The attached device, as gpud sees it.
  const shm::Aperture& submission() const { return submission_; }
  const shm::Aperture& completion() const { return completion_; }
  const shm::CompletionBell& bell() const { return *bell_; }
  // The ring that was registered last.
  shm::GpuRing ring() const {
    MutexLock lock(mutex_);
    return shm::GpuRing(layout_, &submission_, &completion_);
  }

  // A buffer that was allocated in one of the apertures.
  std::span<std::byte> buffer(uint32_t id) const;

  // Ends the device's session as gpud does: reason, wake-up, end of file.
  void Close(shm::CloseReason reason);
  // Cuts the hand-over connection without a word.
  void HangUp();

  // What the device has asked for.
  struct Seen {
    // The last request of each kind.
    v1::AttachRequest attach;
    v1::RegisterEventRequest registration;
    v1::LaunchKernelRequest launch;
    std::chrono::system_clock::time_point launch_deadline;
    v1::CopyRequest copy;
    std::vector<std::string> calls;  // names, in order
    uint64_t scheduled = 0;          // through which sequence
  };
  Seen seen() const;

 private:
  grpc::Status Attach(grpc::ServerContext*, const v1::AttachRequest*,
                      v1::AttachResponse*) override;
  grpc::Status ReportReady(grpc::ServerContext*, const v1::ReportReadyRequest*,
                           v1::ReportReadyResponse*) override;
  grpc::Status Detach(grpc::ServerContext*, const v1::DetachRequest*,
                      v1::DetachResponse*) override;
  grpc::Status ListKernels(grpc::ServerContext*, const v1::ListKernelsRequest*,
                           v1::ListKernelsResponse*) override;
  grpc::Status AllocateBuffer(grpc::ServerContext*,
                              const v1::AllocateBufferRequest*,
                              v1::AllocateBufferResponse*) override;
  grpc::Status FreeBuffer(grpc::ServerContext*, const v1::FreeBufferRequest*,
                          v1::FreeBufferResponse*) override;
  grpc::Status RegisterEvent(grpc::ServerContext*,
                             const v1::RegisterEventRequest*,
                             v1::RegisterEventResponse*) override;
  grpc::Status UnregisterEvent(grpc::ServerContext*,
                               const v1::UnregisterEventRequest*,
                               v1::UnregisterEventResponse*) override;
  grpc::Status ScheduleEvent(grpc::ServerContext*,
                             const v1::ScheduleEventRequest*,
                             v1::ScheduleEventResponse*) override;
  grpc::Status ReleaseBarrier(grpc::ServerContext*,
                              const v1::ReleaseBarrierRequest*,
                              v1::ReleaseBarrierResponse*) override;
  grpc::Status LaunchKernel(grpc::ServerContext*,
                            const v1::LaunchKernelRequest*,
                            v1::LaunchKernelResponse*) override;
  grpc::Status Copy(grpc::ServerContext*, const v1::CopyRequest*,
                    v1::CopyResponse*) override;

  // Notes the call; what it should fail with.
  grpc::Status Enter(const std::string& name, grpc::ServerContext* context);
  void ServeHandover();
  static uint64_t Place(uint64_t* heap_used, const shm::Aperture& aperture,
                        uint64_t bytes);

  const std::string directory_;
  UniqueFd listener_;
  shm::Aperture submission_;
  shm::Aperture completion_;
  shm::CompletionEvent event_;
  std::unique_ptr<shm::CompletionBell> bell_;

  mutable Mutex mutex_;
  Behaviour behaviour_ ABSL_GUARDED_BY(mutex_);
  UniqueFd connection_ ABSL_GUARDED_BY(mutex_);
  shm::RingLayout layout_ ABSL_GUARDED_BY(mutex_);
  uint64_t submission_used_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t completion_used_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint32_t, std::span<std::byte>> buffers_ ABSL_GUARDED_BY(mutex_);
  uint32_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  Seen seen_ ABSL_GUARDED_BY(mutex_);

  std::unique_ptr<grpc::Server> server_;
  std::thread handover_;
};

}  // namespace carillon::edge

#endif  // CARILLON_DEVICES_SDK_FAKE_GPUD_H_
