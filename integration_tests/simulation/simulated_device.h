// A device without a process: it has rings of echo events and checks their
// answers.
#ifndef CARILLON_INTEGRATION_TESTS_SIMULATION_SIMULATED_DEVICE_H_
#define CARILLON_INTEGRATION_TESTS_SIMULATION_SIMULATED_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "gpu_daemon/control/net/peer.h"
#include "gpu_daemon/control/sessions/session.h"
#include "integration_tests/simulation/simulated_gpud.h"
#include "proto/events.pb.h"
#include "shm/aperture.h"
#include "shm/device_ring.h"
#include "shm/recorder/flight_recorder.h"

namespace carillon::simulation {

// One life of the device, from its start to its death.
class SimulatedDevice {
 public:
  // Attaches. A failure here is a bug and ends the simulation.
  SimulatedDevice(SimulatedGpud& gpud, std::string name, uint32_t pid);
  SimulatedDevice(const SimulatedDevice&) = delete;
  SimulatedDevice& operator=(const SimulatedDevice&) = delete;

  uint32_t pid() const { return recording_.pid; }
  const std::shared_ptr<gpud::Session>& session() const { return session_; }
  bool closed() const;

  // Errors: those of gpud.
  absl::Status Register(uint32_t entries);
  absl::Status Unregister(size_t ring);
  size_t rings() const { return rings_.size(); }
  uint32_t free_slots(size_t ring) const;
  uint64_t in_flight(size_t ring) const;
  uint64_t uncommitted(size_t ring) const;

  void Commit(size_t ring);
  void RingDoorbell(size_t ring);
  absl::Status Schedule(size_t ring);
  // Takes what has ended, `most` at most. DataLoss: a wrong answer.
  absl::StatusOr<uint32_t> Take(size_t ring, uint32_t most);

  // Acts as a broken device: spoils a byte of the entry committed last, which
  // is not rung yet.
  void SpoilLastEntry(size_t ring, uint64_t random);
  void JumpDoorbell(size_t ring, uint32_t by);

  // The device's gpud has died: only its apertures may be touched from now on.
  void ForgetGpud() { session_.reset(); }
  // The device's gpud is dead; goes on with another one. All that has ended
  // must have been taken.
  absl::Status Resume(SimulatedGpud& gpud);
  void Detach(SimulatedGpud& gpud);
  void NoteClosed();

  const shm::FlightRecording& recording() const { return recording_; }

 private:
  struct Ring {
    v1::RegisterEventRequest request;  // its first registration
    // Offset of the input buffer in the submission aperture.
    uint64_t in_offset = 0;
    uint64_t out_offset = 0;   // offset of the output buffer
    std::vector<bool> spoilt;  // indexed by slot: the event may end in any way
    std::unique_ptr<shm::DeviceRing> ring;
  };
  struct Placed {
    v1::AllocateBufferRequest request;
    v1::AllocateBufferResponse answer;
  };

  uint64_t UsedBytes(const shm::Aperture& aperture) const;
  void Open(SimulatedGpud& gpud);
  absl::StatusOr<v1::AllocateBufferResponse> Allocate(v1::BufferPlace place,
                                                      uint64_t bytes);
  void RecordFound(const Ring& ring);
  void Record(shm::Step step, const Ring* ring, uint64_t sequence,
              uint32_t status = 0,
              shm::EventState state = shm::EventState::kNone);

  const std::string name_;
  const std::shared_ptr<const gpud::Peer> peer_;
  std::shared_ptr<gpud::Session> session_;
  UniqueFd connection_;
  shm::Aperture submission_;
  shm::Aperture completion_;
  std::vector<Placed> buffers_;
  std::vector<Ring> rings_;
  shm::FlightRecording recording_;
};

}  // namespace carillon::simulation

#endif  // CARILLON_INTEGRATION_TESTS_SIMULATION_SIMULATED_DEVICE_H_
