#include "tools/testbed/client/remote_gpud.h"

#include <fmt/format.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/status.h"
#include "base/unique_fd.h"

namespace carillon::testbed {
namespace {

using Clock = std::chrono::steady_clock;

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Free<BIO_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Context = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using Connection = std::unique_ptr<SSL, Free<SSL_free>>;

// Whether the socket became ready in time.
bool Await(int fd, short events, Clock::time_point end) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
  pollfd look{.fd = fd, .events = events, .revents = 0};
  return poll(&look, 1, static_cast<int>(std::max<int64_t>(0, left.count()))) >
         0;
}

absl::Status Unreachable(const RemoteGpud& gpud, std::string_view why) {
  return absl::UnavailableError(
      fmt::format("cannot reach gpud at {}: {}", gpud.address.ToString(), why));
}

// Tries each of the host's addresses; returns the first that answers.
absl::StatusOr<UniqueFd> ConnectTcp(const RemoteGpud& gpud,
                                    Clock::time_point end) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int wrong =
      getaddrinfo(gpud.address.host.c_str(),
                  fmt::format("{}", gpud.address.port).c_str(), &hints, &found);
  if (wrong != 0) return Unreachable(gpud, gai_strerror(wrong));
  const std::unique_ptr<addrinfo, Free<freeaddrinfo>> all(found);
  int error = 0;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    UniqueFd fd(
        socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return Unreachable(gpud, std::strerror(errno));
    error = connect(fd.get(), each->ai_addr, each->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      socklen_t size = sizeof(error);
      if (!Await(fd.get(), POLLOUT, end)) {
        error = ETIMEDOUT;
      } else {
        getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      }
    }
    if (error == 0) return fd;
  }
  return Unreachable(gpud, fmt::format("{}; does it run there with --listen?",
                                       std::strerror(error)));
}

absl::Status Setup(const RemoteGpud& gpud, SSL_CTX* context, SSL* ssl) {
  const auto memory = [](const std::string& text) {
    return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  };
  const Bio authorities = memory(gpud.pems.ca);
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  while (const Certificate authority{
      PEM_read_bio_X509(authorities.get(), nullptr, nullptr, nullptr)}) {
    X509_STORE_add_cert(store, authority.get());
  }
  const Bio own = memory(gpud.pems.certificate);
  const Certificate certificate(
      PEM_read_bio_X509(own.get(), nullptr, nullptr, nullptr));
  while (const Certificate more{
      PEM_read_bio_X509(own.get(), nullptr, nullptr, nullptr)}) {
    SSL_add1_chain_cert(ssl, more.get());
  }
  const Bio key_text = memory(gpud.pems.key);
  const std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>> key(
      PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (SSL_use_certificate(ssl, certificate.get()) != 1 ||
      SSL_use_PrivateKey(ssl, key.get()) != 1) {
    return absl::InternalError("OpenSSL does not take the certificate");
  }
  SSL_set_verify(ssl, SSL_VERIFY_PEER, nullptr);
  X509_VERIFY_PARAM* const wanted = SSL_get0_param(ssl);
  const std::string& host = gpud.address.host;
  if (gpud.address.numeric()) {
    X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str());
  } else {
    X509_VERIFY_PARAM_set1_host(wanted, host.c_str(), host.size());
    SSL_set_tlsext_host_name(ssl, host.c_str());
  }
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(ssl, kHttp2, sizeof(kHttp2));
  return absl::OkStatus();
}

absl::Status Untrusted(const RemoteGpud& gpud, long why) {
  const std::string where = gpud.address.ToString();
  const char* const reason = X509_verify_cert_error_string(why);
  if (why == X509_V_ERR_HOSTNAME_MISMATCH ||
      why == X509_V_ERR_IP_ADDRESS_MISMATCH) {
    return WithHint(
        absl::UnauthenticatedError(fmt::format(
            "the certificate of gpud at {} is not for the name {} ({})", where,
            gpud.address.host, reason)),
        "call it by a name that the certificate has, or have one made that has "
        "this name among its subject alternative names");
  }
  return absl::UnauthenticatedError(fmt::format(
      "the certificate of gpud at {} is not to be trusted by the CA in {}: {}",
      where, gpud.files.ca, reason));
}

// The reason why the conversation ended, during the handshake or after it.
absl::Status Failure(const RemoteGpud& gpud, SSL* ssl, bool shaken) {
  if (const long why = SSL_get_verify_result(ssl); why != X509_V_OK) {
    return Untrusted(gpud, why);
  }
  const unsigned long error = ERR_peek_last_error();
  const int code = ERR_GET_REASON(error);
  const char* const words = ERR_reason_error_string(error);
  // OpenSSL numbers the other end's alerts from here on. gRPC hangs up without
  // an alert once the handshake is done.
  const bool alert = code > SSL_AD_REASON_OFFSET;
  if (alert || shaken) {
    return absl::UnauthenticatedError(
        fmt::format("gpud at {} refuses the certificate in {}: {}",
                    gpud.address.ToString(), gpud.files.certificate,
                    alert ? words : "is it of the CA in its --tls-client-ca?"));
  }
  return Unreachable(gpud,
                     fmt::format("what answers there does not speak TLS as "
                                 "gpud does ({})",
                                 words != nullptr ? words : "hung up"));
}

}  // namespace

absl::StatusOr<RemoteGpud> RemoteGpud::Read(std::string_view address,
                                            const TlsFiles& files) {
  RemoteGpud gpud{.address = {}, .files = files, .pems = {}};
  auto where = ReadHostPort(address);
  if (!where.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("--gpud: {}", where.status().message()));
  }
  gpud.address = *std::move(where);
  ASSIGN_OR_RETURN(auto pems, ReadTlsFiles(files, "--tls-ca"));
  gpud.pems = std::move(pems);
  return gpud;
}

absl::Status Diagnose(const RemoteGpud& gpud, std::chrono::milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  ASSIGN_OR_RETURN(const auto fd, ConnectTcp(gpud, end));
  const Context context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  const Connection ssl(SSL_new(context.get()));
  RETURN_IF_ERROR(Setup(gpud, context.get(), ssl.get()));
  SSL_set_fd(ssl.get(), fd.get());
  // With TLS 1.3 gpud checks our certificate after the handshake: only its
  // first bytes of HTTP/2 show that it accepted it.
  const auto read = [](SSL* connection) {
    char byte;
    return SSL_read(connection, &byte, 1);
  };
  for (const bool shaken : {false, true}) {
    for (;;) {
      ERR_clear_error();
      const int result = shaken ? read(ssl.get()) : SSL_connect(ssl.get());
      if (result > 0) break;
      const int wanted = SSL_get_error(ssl.get(), result);
      if (wanted != SSL_ERROR_WANT_READ && wanted != SSL_ERROR_WANT_WRITE) {
        return Failure(gpud, ssl.get(), shaken);
      }
      if (!Await(fd.get(), wanted == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT,
                 end)) {
        return absl::DeadlineExceededError(
            fmt::format("what listens at {} does not answer; is it a gpud, and "
                        "not stopped?",
                        gpud.address.ToString()));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace carillon::testbed
