#include "mesh/tls_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace carillon::mesh {
namespace {

// As gpud's roles are (docs/security.md).
constexpr std::string_view kLinkRole = "carillon:role:link";

// Of the records that one call of the system reads.
constexpr size_t kReadAheadBytes = 64 << 10;

template <auto kFree>
struct FreeBy {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, FreeBy<BIO_free>>;
using Certificate = std::unique_ptr<X509, FreeBy<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, FreeBy<GENERAL_NAMES_free>>;

Bio Memory(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::vector<Certificate> Certificates(const std::string& pem) {
  std::vector<Certificate> all;
  const Bio bio = Memory(pem);
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    all.emplace_back(next);
  }
  ERR_clear_error();  // the end of the text is one
  return all;
}

std::string Text(unsigned long error) {
  const char* const reason = ERR_reason_error_string(error);
  return reason != nullptr ? reason : fmt::format("error {:#x}", error);
}

// A text of a certificate, which anybody may have made.
std::string ForPeople(std::string_view text) {
  return EscapeBytes(std::string(text.substr(0, 64)),
                     [](unsigned char c) { return !absl::ascii_isprint(c); });
}

// Why the last call of OpenSSL has failed.
unsigned long TakeError() {
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  return error;
}

constexpr std::string_view kOneCa = "both hosts need certificates of one CA";

// The other end's certificate, by this end's CA.
absl::Status CertificateDoesNotDo(long verdict, const TlsFiles& mine) {
  std::string why = fmt::format("the other end's certificate does not do: {}",
                                X509_verify_cert_error_string(verdict));
  switch (verdict) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      why += fmt::format(": it is of no CA in {}; {}", mine.ca, kOneCa);
      break;
    default:
      break;
  }
  return absl::UnauthenticatedError(why);
}

// What is to be done where `error` is what the other end says of this end's
// certificate; empty: it is about something else.
std::string_view RemedyForMyCertificate(unsigned long error) {
  if (ERR_GET_LIB(error) != ERR_LIB_SSL) return "";
  switch (ERR_GET_REASON(error)) {
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:  // of another CA with the same name
      return kOneCa;
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
      return "ask the owner of the CA for another one";
    default:
      return "";
  }
}

std::string CommonName(X509* certificate) {
  char text[256] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName,
                            text, sizeof(text));
  return ForPeople(text);
}

Names NamesOf(X509* certificate) {
  return Names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
}

std::string_view TextOf(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

enum class NamesOfWhat { kHosts, kAll };

// "c, d", or "DNS:c, URI:carillon:role:link"; empty: there are none.
std::string NamesText(X509* certificate, NamesOfWhat what) {
  constexpr size_t kMost = 6;
  const bool all = what == NamesOfWhat::kAll;
  std::vector<std::string> texts;
  const Names names = NamesOf(certificate);
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    const bool is_host = name->type == GEN_DNS;
    if (!is_host && !(all && name->type == GEN_URI)) continue;
    if (texts.size() == kMost) {
      texts.emplace_back("...");
      break;
    }
    texts.push_back((!all      ? ""
                     : is_host ? "DNS:"
                               : "URI:") +
                    ForPeople(TextOf(name->d.ia5)));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

bool HasLinkRole(X509* certificate) {
  const Names names = NamesOf(certificate);
  if (names == nullptr) return false;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    if (TextOf(name->d.uniformResourceIdentifier) == kLinkRole) return true;
  }
  return false;
}

bool IsOfHost(X509* certificate, const std::string& host) {
  // As with roles, the subject's own name counts for nothing.
  constexpr unsigned kFlags =
      X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS;
  return X509_check_host(certificate, host.data(), host.size(), kFlags,
                         nullptr) == 1 ||
         X509_check_ip_asc(certificate, host.c_str(), 0) == 1;
}

}  // namespace

absl::StatusOr<TlsContext> TlsContext::Create(const TlsFiles& files) {
  ASSIGN_OR_RETURN(const TlsPems pems, ReadTlsFiles(files, "--tls-ca"));
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  SSL_CTX* const c = context.get();
  SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION);
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                     nullptr);
  SSL_CTX_set_mode(
      c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // Else a record takes two calls of the system: for its header and its body.
  SSL_CTX_set_read_ahead(c, 1);
  SSL_CTX_set_default_read_buffer_len(c, kReadAheadBytes);
  // Each connection shows its certificate: nothing is resumed.
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(c, 0);
  // A link that ends without TLS's farewell is one that is cut, as any other.
  SSL_CTX_set_options(c, SSL_OP_IGNORE_UNEXPECTED_EOF);

  const std::vector<Certificate> chain = Certificates(pems.certificate);
  const Bio key_text = Memory(pems.key);
  const PrivateKey key(
      PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
  bool taken = !chain.empty() &&
               SSL_CTX_use_certificate(c, chain.front().get()) == 1 &&
               SSL_CTX_use_PrivateKey(c, key.get()) == 1;
  for (size_t i = 1; i < chain.size(); ++i) {
    taken = taken && SSL_CTX_add1_chain_cert(c, chain[i].get()) == 1;
  }
  X509_STORE* const store = SSL_CTX_get_cert_store(c);
  for (const Certificate& authority : Certificates(pems.ca)) {
    taken = taken && X509_STORE_add_cert(store, authority.get()) == 1;
  }
  if (!taken) {
    return absl::InvalidArgumentError(
        fmt::format("--tls-cert {}: TLS does not take it: {}",
                    files.certificate, Text(TakeError())));
  }
  return TlsContext(std::move(context), files);
}

absl::StatusOr<std::vector<std::string>> TlsContext::OwnHosts(
    std::span<const std::string> hosts) const {
  X509* const certificate = SSL_CTX_get0_certificate(context_.get());
  std::vector<std::string> own;
  for (const std::string& host : hosts) {
    if (HasLinkRole(certificate) && IsOfHost(certificate, host)) {
      own.push_back(host);
    }
  }
  if (!own.empty()) return own;
  const std::string names = NamesText(certificate, NamesOfWhat::kAll);
  return absl::InvalidArgumentError(fmt::format(
      "--tls-cert {}: the certificate of CN={} is not for links of host {}: it "
      "has {}, and a link needs URI:{},DNS:{}: ask the owner of the CA for one "
      "with these names (docs/security.md)",
      files_.certificate, CommonName(certificate), fmt::join(hosts, " or "),
      names.empty() ? "no such name" : names, kLinkRole,
      hosts.size() == 1 ? hosts.front() : "HOST"));
}

TlsStream::TlsStream(const TlsContext& context, TlsSide side, UniqueFd socket)
    : files_(context.files_),
      socket_(std::move(socket)),
      ssl_(SSL_new(context.context_.get())),
      events_(side == TlsSide::kClient ? POLLOUT : POLLIN) {
  SSL_set_fd(ssl_.get(), socket_.get());
  if (side == TlsSide::kClient) {
    SSL_set_connect_state(ssl_.get());
  } else {
    SSL_set_accept_state(ssl_.get());
  }
}

absl::Status TlsStream::Judge(int result) {
  const int saved = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      events_ = POLLIN;
      return absl::OkStatus();
    case SSL_ERROR_WANT_WRITE:
      events_ = POLLOUT;
      return absl::OkStatus();
    case SSL_ERROR_ZERO_RETURN:
      return absl::UnavailableError("the other end has closed the connection");
    case SSL_ERROR_SYSCALL:
      ERR_clear_error();
      return absl::UnavailableError(
          saved == 0
              ? "the other end has closed the connection"
              : fmt::format("the connection broke: {}", std::strerror(saved)));
    default:
      break;
  }
  const long verdict = SSL_get_verify_result(ssl_.get());
  if (verdict != X509_V_OK) {
    ERR_clear_error();
    return CertificateDoesNotDo(verdict, files_);
  }
  const unsigned long error = TakeError();
  const std::string_view remedy = RemedyForMyCertificate(error);
  if (!remedy.empty()) {
    return absl::UnauthenticatedError(fmt::format(
        "the other end does not take this end's certificate, {}: {}; {}",
        files_.certificate, Text(error), remedy));
  }
  return absl::UnauthenticatedError(
      fmt::format("no agreement on TLS 1.3: {}{}", Text(error),
                  error == ERR_PACK(ERR_LIB_SSL, 0, SSL_R_WRONG_VERSION_NUMBER)
                      ? "; is another program there?"
                      : ""));
}

absl::StatusOr<bool> TlsStream::Handshake() {
  ERR_clear_error();
  errno = 0;
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) {
    events_ = POLLIN;
    return true;
  }
  RETURN_IF_ERROR(Judge(result));
  return false;
}

absl::Status TlsStream::CheckPeer(const std::string& host) const {
  const Certificate certificate(SSL_get1_peer_certificate(ssl_.get()));
  if (certificate == nullptr) {
    return absl::PermissionDeniedError("the other end shows no certificate");
  }
  if (!HasLinkRole(certificate.get())) {
    return absl::PermissionDeniedError(fmt::format(
        "a link needs the role link, which the certificate of CN={} does not "
        "carry: ask the owner of the CA for one with URI:{}",
        CommonName(certificate.get()), kLinkRole));
  }
  if (!IsOfHost(certificate.get(), host)) {
    const std::string hosts = NamesText(certificate.get(), NamesOfWhat::kHosts);
    return absl::PermissionDeniedError(
        fmt::format("the certificate of CN={} is of {}, and not of host '{}': "
                    "is the address another host's, or the port another "
                    "link's? If not, ask the owner of the CA for one with "
                    "DNS:{}",
                    CommonName(certificate.get()),
                    hosts.empty() ? "no host" : hosts, host, host));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> TlsStream::Read(std::span<char> to) {
  ERR_clear_error();
  errno = 0;
  size_t got = 0;
  const int result = SSL_read_ex(ssl_.get(), to.data(), to.size(), &got);
  if (result != 1) RETURN_IF_ERROR(Judge(result));
  return result == 1 ? got : 0;
}

absl::StatusOr<size_t> TlsStream::Write(std::string_view bytes) {
  ERR_clear_error();
  errno = 0;
  size_t put = 0;
  const int result = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &put);
  if (result != 1) RETURN_IF_ERROR(Judge(result));
  return result == 1 ? put : 0;
}

void TlsStream::EndWriting() {
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
  shutdown(socket_.get(), SHUT_WR);
}

bool TlsStream::Drain() {
  char bytes[4096];
  for (;;) {
    const ssize_t got = recv(socket_.get(), bytes, sizeof(bytes), 0);
    if (got > 0) continue;
    return got == 0 || (errno != EAGAIN && errno != EINTR);
  }
}

}  // namespace carillon::mesh
