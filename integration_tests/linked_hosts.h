// Two hosts for tests: a testbed on each, and a link by which devices of host a
// have their events run by the gpud of host b.
#ifndef CARILLON_INTEGRATION_TESTS_LINKED_HOSTS_H_
#define CARILLON_INTEGRATION_TESTS_LINKED_HOSTS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/temp_directory.h"
#include "base/tls_files.h"
#include "integration_tests/testbed_process.h"
#include "tools/testbed/ledger/checker.h"

namespace carillon::testing {

inline std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

class LinkedHostsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite() { files_.reset(); }

  // gpud of host b, and its linkd, which listens at `listen`.
  void StartHostB(const std::string& listen);
  void StartLinkd(const std::string& listen);
  // gpud of host a, which finds linkd at `link`.
  void StartHostA(const std::string& link);
  std::vector<std::string> NearFlags() const;

  static ledger::Report Check(const Testbed& testbed);
  // By the recorders of a testbed, so many events have been rung there, and each
  // has ended once.
  static void ExpectEachEndedOnce(const Testbed& testbed, uint64_t events);
  // Has `lose` take the link away while a device of host a has long events in
  // flight there: the lease of both hosts is over before they end. Each has one
  // end, and who is aborted has that reason, on both hosts.
  void ExpectALostLinkIsTheReasonOnBothHosts(const std::function<void()>& lose);

  // By gpud's recorder: how often a session ended because its link was lost, and
  // how often an event that was aborted has that status. Any other reason fails
  // the test.
  struct LinkLostRecords {
    uint64_t sessions = 0;
    uint64_t events = 0;
  };
  static LinkLostRecords CountLinkLost(const Testbed& testbed);

  static std::unique_ptr<TempDirectory> files_;
  static TlsFiles near_files_;
  static TlsFiles far_files_;
  std::string engine_ = "tls";
  std::string lease_s_ = "60";
  std::string far_lease_s_ = "60";
  std::vector<std::string> far_flags_ = {"--backend", "cpu", "--workers", "1"};
  std::unique_ptr<Testbed> b_;
  std::unique_ptr<Process> linkd_;
  std::string linkd_address_;
  std::string link_;  // where host a finds linkd
  std::unique_ptr<Testbed> a_;
};

}  // namespace carillon::testing

#endif  // CARILLON_INTEGRATION_TESTS_LINKED_HOSTS_H_
