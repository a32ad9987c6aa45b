#include "base/testing/test_ca.h"

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "fmt/format.h"

namespace carillon {
namespace {

constexpr char kConfiguration[] = R"([ca]
default_ca = d
[d]
database = index.txt
serial = serial
new_certs_dir = .
default_md = sha256
policy = p
copy_extensions = copy
unique_subject = no
[p]
commonName = optional
[req]
distinguished_name = dn
[dn]
)";
constexpr char kNewKey[] =
    "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -config ca.cnf";

void Run(const std::string& directory, const std::string& command) {
  const std::string line =
      fmt::format("cd '{}' && openssl {} > said.txt 2>&1", directory, command);
  if (std::system(line.c_str()) == 0) return;
  std::fprintf(stderr, "openssl %s\n", command.c_str());
  [[maybe_unused]] const int shown =
      std::system(fmt::format("cat '{}/said.txt' >&2", directory).c_str());
  std::abort();
}

}  // namespace

TestCa::TestCa(const std::string& directory, const std::string& name)
    : directory_(directory + "/" + name) {
  mkdir(directory_.c_str(), 0700);
  std::ofstream(path("ca.cnf")) << kConfiguration;
  std::ofstream(path("index.txt"));
  std::ofstream(path("serial")) << "01\n";
  Run(directory_,
      fmt::format("req -x509 {} -days 3650 -subj '/CN={}' -addext "
                  "basicConstraints=critical,CA:TRUE -keyout ca.key -out "
                  "ca.pem",
                  kNewKey, name));
}

TlsFiles TestCa::Issue(const Certificate& wanted) const {
  const std::string names = wanted.alternative_names.empty()
                                ? ""
                                : fmt::format("-addext 'subjectAltName={}'",
                                              wanted.alternative_names);
  Run(directory_,
      fmt::format("req {} -subj '/CN={}' {} -keyout {}.key -out "
                  "{}.csr",
                  kNewKey, wanted.name, names, wanted.name, wanted.name));
  Run(directory_,
      fmt::format("ca -batch -config ca.cnf -notext -cert ca.pem -keyfile "
                  "ca.key -in {}.csr -out {}.pem -startdate {} -enddate {}",
                  wanted.name, wanted.name, wanted.begins, wanted.ends));
  return {.certificate = path(wanted.name + ".pem"),
          .key = path(wanted.name + ".key"),
          .ca = file()};
}

}  // namespace carillon
