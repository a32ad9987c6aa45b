// One TCP connection with mutual TLS 1.3 (docs/security.md): both ends show a
// certificate of the same CA, with the role `link` and the name of their host.
#ifndef CARILLON_MESH_TLS_STREAM_H_
#define CARILLON_MESH_TLS_STREAM_H_

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/tls_files.h"
#include "base/unique_fd.h"
#include "mesh/link_stream.h"

namespace carillon::mesh {

// What all connections of one end share. Copies share it, too.
class TlsContext {
 public:
  // Errors: InvalidArgument: which file is wrong, and how (ReadTlsFiles()).
  static absl::StatusOr<TlsContext> Create(const TlsFiles& files);
  // Which of `hosts` may show this end's certificate to a link. Errors:
  // InvalidArgument: none of them; the file, what it has, what is wanted, and how
  // to get it.
  absl::StatusOr<std::vector<std::string>> OwnHosts(
      std::span<const std::string> hosts) const;

 private:
  friend class TlsStream;
  TlsContext(std::shared_ptr<SSL_CTX> context, TlsFiles files)
      : context_(std::move(context)), files_(std::move(files)) {}

  std::shared_ptr<SSL_CTX> context_;
  TlsFiles files_;  // for messages
};

enum class TlsSide { kClient, kServer };

// SIGPIPE must be blocked or ignored in its thread.
class TlsStream final : public LinkStream {
 public:
  // `socket` does not block. It may still be connecting: not to be used before
  // it is.
  TlsStream(const TlsContext& context, TlsSide side, UniqueFd socket);

  // True: agreed; false: later. Errors: Unauthenticated: whose certificate does
  // not do, why, and which file of this end's it is about; Unavailable: the connection has ended.
  absl::StatusOr<bool> Handshake();
  // Whether the other end may be `host` of a link. Requires a Handshake().
  // Errors: PermissionDenied: another role, or another name.
  absl::Status CheckPeer(const std::string& host) const;

  absl::StatusOr<size_t> Read(std::span<char> to) override;
  absl::StatusOr<size_t> Write(std::string_view bytes) override;
  // Bytes may have come that no poll() tells of. After a Read() of nothing they
  // are less than what can be read.
  bool MayWait(size_t got) override {
    return got == 0 || SSL_has_pending(ssl_.get()) != 1;
  }
  bool NeedsRead() const override { return false; }
  void EndWriting() override;
  bool Drain() override;

  int fd() const override { return socket_.get(); }
  short poll_events() const override { return events_; }

 private:
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  // What a call that returned `result` has to say: OK is "later".
  absl::Status Judge(int result);

  const TlsFiles files_;
  UniqueFd socket_;
  const std::unique_ptr<SSL, Free> ssl_;
  short events_;
};

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_TLS_STREAM_H_
