// A CA for tests, made with openssl.
#ifndef CARILLON_BASE_TESTING_TEST_CA_H_
#define CARILLON_BASE_TESTING_TEST_CA_H_

#include <string>

#include "base/tls_files.h"

namespace carillon {

class TestCa {
 public:
  struct Certificate {
    std::string name;  // its CN, and its files'
    // "URI:carillon:role:viewer,URI:..."; empty: none.
    std::string alternative_names;
    std::string begins = "20200101000000Z";
    std::string ends = "20991231235959Z";
  };

  // Makes a CA called `name` in `directory`, which must be there. What openssl
  // cannot do ends the process with its words.
  explicit TestCa(const std::string& directory, const std::string& name = "ca");

  // The CA's own certificate.
  std::string file() const { return path("ca.pem"); }
  // Makes a certificate and its key, of this CA.
  TlsFiles Issue(const Certificate& wanted) const;
  // The same with one role.
  TlsFiles IssueRole(const std::string& role) const {
    return Issue(
        {.name = role, .alternative_names = "URI:carillon:role:" + role});
  }
  // For a gpud on this machine.
  TlsFiles IssueGpud() const {
    return Issue({.name = "gpud",
                  .alternative_names = "DNS:localhost,IP:127.0.0.1,IP:::1"});
  }

 private:
  std::string path(const std::string& file) const {
    return directory_ + "/" + file;
  }

  const std::string directory_;
};

}  // namespace carillon

#endif  // CARILLON_BASE_TESTING_TEST_CA_H_
