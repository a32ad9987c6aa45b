// The far end's host: for each device of the other host one of its own name in
// this host's testbed, which rings for it.
#ifndef CARILLON_DEVICES_LINK_LINK_SERVER_H_
#define CARILLON_DEVICES_LINK_LINK_SERVER_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/link/linkd_options.h"
#include "devices/link/linked_ring.h"
#include "devices/sdk/device_main.h"
#include "devices/sdk/edge.h"
#include "mesh/far_end.h"
#include "mesh/tls_engine.h"

namespace carillon::link {

// All but Start() and Run() is called under the link's lock.
class LinkServer final : private mesh::FarHost {
 public:
  // Waits for gpud. Errors: those of TlsFarLink::Start(); Cancelled (a stop was
  // asked for); what the testbed refuses.
  static absl::StatusOr<std::unique_ptr<LinkServer>> Start(
      const edge::DeviceContext& context, const LinkdOptions& options);
  ~LinkServer() override;

  // Until a stop is asked for. Errors: Unavailable: the testbed has gone down.
  absl::Status Run();

 private:
  struct Client {
    std::unique_ptr<edge::Device> device;
    bool away = false;   // gpud is, and the device waits for another one
    absl::Status ended;  // not OK: it will not come again
    uint32_t rings = 0;
  };
  struct Linked {
    mesh::RingSerial serial;
    Client* client = nullptr;
    std::unique_ptr<LinkedRing> ring;
  };

  LinkServer(const edge::DeviceContext& context, const LinkdOptions& options)
      : context_(context), options_(options) {}
  absl::StatusOr<std::unique_ptr<edge::Device>> Attach(
      const std::string& name, std::chrono::milliseconds within) const;
  // The device of that name, attached if it is not there.
  absl::StatusOr<Client*> ClientOf(const std::string& name);
  void DropIfUnused(Client* client);
  // Finds out whether its gpud is there, and goes on with another one.
  void LookAfter(const std::string& name, Client& client);
  void TakeCompletions(mesh::FarEnd& far);

  // mesh::FarHost: in the link's thread.
  absl::Status MakeRing(mesh::RingId ring, mesh::RingSerial serial,
                        const mesh::RingLimits& limits,
                        shm::Sequence last) override;
  void Run(mesh::RingId ring, shm::Sequence number,
           std::string_view event) override;
  mesh::End ReadEnd(mesh::RingId ring, shm::Sequence number,
                    std::string* output) override;
  void Free(mesh::RingId ring, shm::Sequence last) override;
  void DropRing(mesh::RingId ring, mesh::GoneReason why) override;

  const edge::DeviceContext& context_;
  const LinkdOptions options_;
  const mesh::Alarm changed_;  // there are other devices than before
  // linkd's own, without rings: it shows that linkd is there.
  std::map<std::string, Client> clients_;
  std::map<mesh::RingId, Linked> rings_;
  std::unique_ptr<mesh::TlsFarLink> link_;  // goes first
};

}  // namespace carillon::link

#endif  // CARILLON_DEVICES_LINK_LINK_SERVER_H_
