#include "tools/cli/doctor/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "base/temp_directory.h"
#include "base/testing/test_ca.h"

namespace carillon::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Doctor, LooksAtEverythingUnderAName) {
  std::set<std::string_view> names;
  for (const Check& check : Checks()) {
    EXPECT_TRUE(names.insert(check.name).second) << check.name;
    const CheckResult finding = check.look();
    EXPECT_FALSE(finding.text.empty()) << check.name;
    const bool needs_advice = finding.verdict == Verdict::kWarning ||
                              finding.verdict == Verdict::kProblem;
    EXPECT_EQ(!finding.advice.empty(), needs_advice) << check.name;
  }
  EXPECT_GE(names.size(), 10u);
}

TEST(Doctor, JudgesFigures) {
  constexpr uint64_t kMiB = 1 << 20;
  EXPECT_EQ(JudgeCores(2).verdict, Verdict::kGood);
  EXPECT_EQ(JudgeCores(1).verdict, Verdict::kWarning);
  EXPECT_EQ(JudgeFreeMemory(512 * kMiB).verdict, Verdict::kGood);
  EXPECT_EQ(JudgeFreeMemory(511 * kMiB).verdict, Verdict::kProblem);
  EXPECT_EQ(JudgeSharedMemory(kMiB, 0).verdict, Verdict::kWarning);
  EXPECT_EQ(JudgeSharedMemory(kMiB, 0).text, "0 B of 1 MiB free");
  EXPECT_EQ(JudgeOpenFiles(1024).verdict, Verdict::kGood);
  EXPECT_EQ(JudgeOpenFiles(64).verdict, Verdict::kWarning);
  EXPECT_EQ(JudgeOpenFiles(64).advice, "ulimit -n 1024");
}

TEST(Doctor, SaysHowToGetAMissingClient) {
  EXPECT_EQ(JudgeClient("memcaslap", "/usr/bin/memcaslap").verdict,
            Verdict::kGood);
  const CheckResult missing = JudgeClient("memcaslap", "");
  EXPECT_EQ(missing.verdict, Verdict::kProblem);
  EXPECT_EQ(missing.advice, "apt-get install libmemcached-tools");
}

CheckResult ResultOf(std::string_view name) {
  for (const Check& check : Checks()) {
    if (check.name == name) return check.look();
  }
  ADD_FAILURE() << "no check " << name;
  return {};
}

TEST(Doctor, FindsProgramsAndFoldersThatAreNotThere) {
  setenv("CARILLON_BIN_DIR", "/no/such/folder", 1);
  EXPECT_EQ(ResultOf("programs").verdict, Verdict::kProblem);
  EXPECT_EQ(ResultOf("programs").text,
            "there is no gpud in /no/such/folder/gpud and none in "
            "/no/such/folder/gpu_daemon/gpud");
  unsetenv("CARILLON_BIN_DIR");
  setenv("CARILLON_RUNTIME_DIR", std::string(100, 'x').c_str(), 1);
  EXPECT_EQ(ResultOf("runtime directory").verdict, Verdict::kProblem);
  unsetenv("CARILLON_RUNTIME_DIR");
  const char* const path = getenv("PATH");
  const std::string before = path == nullptr ? "" : path;
  setenv("PATH", "/no/such/folder", 1);
  EXPECT_EQ(ResultOf("memcaslap").verdict, Verdict::kProblem);
  EXPECT_EQ(ResultOf("openssl").verdict, Verdict::kWarning);
  EXPECT_EQ(ResultOf("openssl").advice, "apt-get install openssl");
  setenv("PATH", before.c_str(), 1);
}

// From here on the process gets EPERM for the system call, as under a
// container's seccomp profile.
bool Forbid(uint32_t call) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog program{.len = 4, .filter = filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(Doctor, LooksAtTheFilesOfALink) {
  const TempDirectory folder = *TempDirectory::Make();
  const TestCa ca(folder.path());
  const std::vector<std::string> hosts = {"a", "b"};
  const auto look = [&](const TlsFiles& files) {
    const CheckResult found = LookAtLinkFiles(files, hosts);
    EXPECT_EQ(found.verdict, Verdict::kProblem) << found.text;
    EXPECT_THAT(found.advice, HasSubstr("docs/security.md"));
    return found.text;
  };
  const TlsFiles good = ca.Issue(
      {.name = "b", .alternative_names = "URI:carillon:role:link,DNS:b"});
  EXPECT_EQ(LookAtLinkFiles(good, hosts).verdict, Verdict::kGood);
  EXPECT_EQ(LookAtLinkFiles(good, hosts).text,
            good.certificate + " is of host b");
  EXPECT_THAT(
      look(ca.Issue({.name = "old",
                     .alternative_names = "URI:carillon:role:link,DNS:b",
                     .ends = "20210101000000Z"})),
      AllOf(StartsWith("certificate "), HasSubstr("old.pem: expired on")));
  EXPECT_THAT(look(ca.IssueRole("viewer")),
              HasSubstr("CN=viewer is not for links of host a or b: it has "
                        "URI:carillon:role:viewer, and"));
  EXPECT_THAT(
      look(ca.Issue(
          {.name = "c", .alternative_names = "URI:carillon:role:link,DNS:c"})),
      HasSubstr("it has URI:carillon:role:link, DNS:c, and a link "
                "needs URI:carillon:role:link,DNS:HOST"));
  TlsFiles mixed = good;
  mixed.key = ca.IssueRole("viewer").key;
  EXPECT_THAT(look(mixed), HasSubstr("is not the key of the certificate in"));
  mixed.key += ".gone";
  EXPECT_THAT(look(mixed), HasSubstr(".gone: No such file"));
}

TEST(Doctor, SeesThatASandboxForbidsFutexWaitv) {
  constexpr uint32_t kFutexWaitv = 449;
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EQ(ResultOf("futex_waitv").verdict, Verdict::kGood);
  EXPECT_EXIT(
      {
        const bool forbidden = Forbid(kFutexWaitv);
        const Verdict verdict = ResultOf("futex_waitv").verdict;
        _exit(forbidden && verdict == Verdict::kProblem ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace carillon::cli
