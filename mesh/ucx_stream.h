// One connection of the engine `ucx`: its bytes go by UCX's active messages, and
// a connection by mutual TLS beside it says whose they are and when it has ended.
//
// UCX knows no certificates, and no connection's number. So each connection has a
// worker of its own; over TLS, whose ends have shown the role `link`, each says
// where its worker is, and the far end gives a ticket. Every message has the
// ticket and the next number. A ticket is good for one sender, and ends with its
// connection.
#ifndef CARILLON_MESH_UCX_STREAM_H_
#define CARILLON_MESH_UCX_STREAM_H_

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "mesh/frame.h"
#include "mesh/link_stream.h"
#include "mesh/tls_stream.h"
#include "mesh/ucx_library.h"

namespace carillon::mesh {

enum class UcxSide : uint8_t { kNear = 1, kFar = 2 };

// kTicketBytes that nobody can guess.
std::string NewTicket();

class UcxStream final : public LinkStream {
 public:
  // Makes a worker; address() says where it is. Errors: Unavailable: UCX does
  // not make one.
  static absl::StatusOr<std::unique_ptr<UcxStream>> Create(
      std::shared_ptr<UcxContext> context, UcxSide side);
  // Does not wait for the other end.
  ~UcxStream() override;

  const std::string& address() const { return address_; }

  // To be called once, before all else. `tls`: the connection by which the two
  // MEETs went; it lives longer. Errors: Unavailable: UCX does not connect.
  absl::Status Connect(const std::string& ticket, const std::string& address,
                       TlsStream* tls);

  absl::StatusOr<size_t> Read(std::span<char> to) override;
  absl::StatusOr<size_t> Write(std::string_view bytes) override;
  bool MayWait(size_t got) override;
  bool NeedsRead() const override;
  void EndWriting() override;
  bool Drain() override;
  int fd() const override { return poll_.get(); }
  short poll_events() const override;

  // Messages that had another ticket, or were not the next one of the sender
  // whose ticket it is: they are thrown away.
  uint64_t refused() const { return refused_; }

 private:
  struct Head {
    char ticket[kTicketBytes];
    uint64_t number;  // from 1
  };
  struct Sending {
    Head head;
    std::string bytes;
    void* request;
  };

  UcxStream(std::shared_ptr<UcxContext> context, UcxSide side);
  static ucs_status_t OnMessage(void* self, const void* head, size_t head_bytes,
                                void* data, size_t bytes,
                                const ucp_am_recv_param_t* param);
  void Take(std::string_view head, std::string_view bytes);
  // Lets UCX work, until there is something to read or nothing to do.
  void Progress();
  absl::Status Broken(ucs_status_t status) const;

  const std::shared_ptr<UcxContext> context_;
  const UcxFunctions& ucx_;
  const UcxSide side_;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  TlsStream* tls_ = nullptr;
  std::string address_;
  std::string ticket_;
  UniqueFd poll_;  // of UCX's descriptor, and TLS's
  ucs_status_t error_ = UCS_OK;
  uint64_t sent_ = 0;
  uint64_t taken_ = 0;
  uint64_t refused_ = 0;
  std::string in_;
  size_t in_at_ = 0;
  std::list<Sending> sending_;
};

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_UCX_STREAM_H_
