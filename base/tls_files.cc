#include "base/tls_files.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "fmt/format.h"

namespace carillon {
namespace {

constexpr off_t kMaxBytes = 1 << 20;

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Free<BIO_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;

// A file, and how the user calls it.
struct Named {
  std::string_view option;
  const std::string& path;
};

absl::Status Wrong(const Named& file, std::string_view what) {
  return absl::InvalidArgumentError(
      fmt::format("{} {}: {}", file.option, file.path, what));
}

absl::StatusOr<std::string> ReadFile(const Named& file) {
  // Not to wait for who writes into a pipe.
  const UniqueFd fd(open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return Wrong(file, std::strerror(errno));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return Wrong(file, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return Wrong(file, "is no regular file");
  if (info.st_size > kMaxBytes) {
    return Wrong(file, fmt::format("has {} bytes: that is no certificate, at "
                                   "most {} are read",
                                   info.st_size, kMaxBytes));
  }
  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = read(fd.get(), text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Wrong(file, std::strerror(errno));
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  text.resize(have);
  return text;
}

Bio Memory(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string TimeText(const ASN1_TIME* time) {
  const Bio out(BIO_new(BIO_s_mem()));
  if (ASN1_TIME_print(out.get(), time) != 1) return "an unreadable time";
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  return std::string(text, static_cast<size_t>(size));
}

absl::Status CheckTime(const Named& file, const X509* certificate) {
  const ASN1_TIME* const begin = X509_get0_notBefore(certificate);
  const ASN1_TIME* const end = X509_get0_notAfter(certificate);
  if (X509_cmp_current_time(begin) >= 0) {
    return Wrong(file, fmt::format("is not valid before {}: is this machine's "
                                   "clock right?",
                                   TimeText(begin)));
  }
  if (X509_cmp_current_time(end) <= 0) {
    return Wrong(file, fmt::format("expired on {}: the CA's owner makes "
                                   "another one (docs/security.md)",
                                   TimeText(end)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Certificate>> Parse(const Named& file,
                                               const std::string& text) {
  std::vector<Certificate> certificates;
  const Bio bio = Memory(text);
  for (;;) {
    ERR_clear_error();
    Certificate next(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (next == nullptr) break;
    certificates.push_back(std::move(next));
  }
  // The end of the file is an error, too.
  const bool ended =
      ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (certificates.empty()) return Wrong(file, "holds no certificate in PEM");
  if (!ended) {
    return Wrong(file, fmt::format("what follows certificate {} is no "
                                   "certificate in PEM",
                                   certificates.size()));
  }
  return certificates;
}

absl::StatusOr<PrivateKey> ParseKey(const Named& file,
                                    const std::string& text) {
  const Bio bio = Memory(text);
  bool asked = false;
  // Or OpenSSL would ask the terminal.
  const auto no_passphrase = [](char*, int, int, void* user) {
    *static_cast<bool*>(user) = true;
    return -1;
  };
  PrivateKey key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, &asked));
  ERR_clear_error();
  if (key != nullptr) return key;
  return Wrong(file, asked ? "has a passphrase: write it without one "
                             "(openssl pkey), and keep the file to yourself"
                           : "holds no private key in PEM");
}

absl::Status CheckOwn(const Named& certificate_file, const Named& key_file,
                      const TlsPems& pems) {
  ASSIGN_OR_RETURN(const auto chain, Parse(certificate_file, pems.certificate));
  for (const Certificate& certificate : chain) {
    RETURN_IF_ERROR(CheckTime(certificate_file, certificate.get()));
  }
  ASSIGN_OR_RETURN(const auto key, ParseKey(key_file, pems.key));
  const bool same = X509_check_private_key(chain.front().get(), key.get()) == 1;
  ERR_clear_error();
  if (same) return absl::OkStatus();
  return Wrong(key_file, fmt::format("is not the key of the certificate in {}: "
                                     "both come from one call of openssl "
                                     "(docs/security.md)",
                                     certificate_file.path));
}

absl::Status CheckCa(const Named& file, const std::string& text) {
  ASSIGN_OR_RETURN(const auto authorities, Parse(file, text));
  for (const Certificate& authority : authorities) {
    if (X509_check_ca(authority.get()) == 0) {
      return Wrong(file, "holds a certificate that is no CA's");
    }
    RETURN_IF_ERROR(CheckTime(file, authority.get()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TlsPems> ReadTlsFiles(const TlsFiles& files,
                                     std::string_view ca_option) {
  const Named certificate{"--tls-cert", files.certificate};
  const Named key{"--tls-key", files.key};
  const Named ca{ca_option, files.ca};
  std::vector<std::string_view> missing;
  for (const Named* file : {&certificate, &key, &ca}) {
    if (file->path.empty()) missing.push_back(file->option);
  }
  if (!missing.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("missing: {}; over TCP both ends show a certificate",
                    fmt::join(missing, ", ")));
  }
  TlsPems pems;
  for (const auto& [file, text] :
       {std::pair(&certificate, &pems.certificate), std::pair(&key, &pems.key),
        std::pair(&ca, &pems.ca)}) {
    ASSIGN_OR_RETURN(*text, ReadFile(*file));
  }
  RETURN_IF_ERROR(CheckOwn(certificate, key, pems));
  RETURN_IF_ERROR(CheckCa(ca, pems.ca));
  return pems;
}

}  // namespace carillon
