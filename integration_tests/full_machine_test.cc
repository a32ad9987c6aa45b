// A machine that has no descriptor, no thread or no memory left: gpud, devices
// and `carillon up` are started with every limit from the smallest up until everything
// works. Each failure before that is an exit code and a sentence, and leaves
// nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/status.h"
#include "base/temp_directory.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"
#include "integration_tests/hostile/checksum_events.h"
#include "integration_tests/testbed_process.h"
#include "tools/testbed/supervisor/marks.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using testing::Checksums;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::Process;
using testing::Testbed;

constexpr int kFailed = 1;
constexpr int kTestbedLost = 4;
// The loader's exit code, before our program runs.
constexpr int kNotLoaded = 127;
constexpr char kLoader[] = "error while loading shared libraries";
constexpr uid_t kNobody = 65534;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

// A directory that everybody may use, removed by the destructor.
class Folder {
 public:
  Folder() { fs::permissions(path(), fs::perms(0755)); }
  const std::string& path() const { return directory_.path(); }
  // Made if missing.
  std::string Testbed(uid_t owner) const {
    const std::string testbed = path() + "/testbed";
    fs::create_directory(testbed);
    EXPECT_EQ(chown(testbed.c_str(), owner, owner), 0);
    return testbed;
  }
  // Makes a copy, because other users may not look into the build's folder.
  std::string Copy(const std::string& program) const {
    const std::string copy =
        path() + "/" + fs::path(program).filename().string();
    fs::copy_file(testing::Program(program), copy,
                  fs::copy_options::skip_existing);
    return copy;
  }

 private:
  const TempDirectory directory_;
};

std::unique_ptr<Process> Start(const std::string& name,
                               std::vector<std::string> before,
                               const std::vector<std::string>& argv) {
  before.insert(before.end(), argv.begin(), argv.end());
  auto process = Process::Start(name, before);
  EXPECT_TRUE(process.ok()) << Message(process.status());
  return *std::move(process);
}

std::vector<std::string> Limited(const std::string& limit) {
  return {"/usr/bin/prlimit", limit, "--"};
}
// `limit` is an option of prlimit; empty: none.
std::vector<std::string> AsNobody(const std::string& limit) {
  std::vector<std::string> words = {"/usr/bin/setpriv", "--reuid",
                                    std::to_string(kNobody), "--clear-groups",
                                    "--"};
  if (limit.empty()) return words;
  words.insert(words.end(), {"/usr/bin/prlimit", limit, "--"});
  return words;
}

absl::Status VisitTestbed(const std::string& directory) {
  edge::AttachOptions options;
  options.testbed_directory = directory;
  options.name = "visitor";
  options.kind = "test";
  ASSIGN_OR_RETURN(auto device, edge::Device::Attach(options));
  ASSIGN_OR_RETURN(auto events, Checksums::Register(*device, 32));
  events->RingDoorbell();
  return events->Take();
}

// Whether gpud ended because memory ran out, which may happen at any time: it
// ends at once, and the next gpud cleans up what it left.
bool RanOutOfMemory(Process& gpud, const std::string& directory) {
  if (gpud.Wait() != kFailed ||
      gpud.output().find("gpud: out of memory") == std::string::npos) {
    return false;
  }
  fs::remove_all(directory);
  return true;
}

// Whether a gpud in `directory` starts and serves. Afterwards it has ended, in
// order or with a sentence that matches `sentence`.
bool GpudWorks(std::unique_ptr<Process> gpud, const std::string& directory,
               const std::string& sentence) {
  if (!gpud->WaitForOutput("is up in")) {
    if (RanOutOfMemory(*gpud, directory)) return false;
    const auto exit = gpud->Wait();
    EXPECT_THAT(exit, AnyOf(kFailed, kNotLoaded));
    EXPECT_THAT(gpud->output(),
                exit == kNotLoaded
                    ? ::testing::Matcher<std::string>(HasSubstr(kLoader))
                    : ContainsRegex(sentence));
    EXPECT_TRUE(!fs::exists(directory) || fs::is_empty(directory));
    return false;
  }
  const absl::Status visit = VisitTestbed(directory);
  // gRPC answers Unknown where a handler cannot have a thread.
  EXPECT_THAT(visit.code(),
              AnyOf(absl::StatusCode::kOk, absl::StatusCode::kResourceExhausted,
                    absl::StatusCode::kUnavailable, absl::StatusCode::kUnknown))
      << Message(visit);
  gpud->Signal(SIGTERM);
  if (RanOutOfMemory(*gpud, directory)) return false;
  EXPECT_EQ(gpud->Wait(), 0);
  return visit.ok();
}

TEST(FullMachineTest, GpudWithEveryNumberOfDescriptors) {
  const Folder folder;
  const std::string directory = folder.Testbed(geteuid());
  int limit = 3;
  while (
      limit < 200 && !::testing::Test::HasFailure() &&
      !GpudWorks(Start("gpud", Limited(fmt::format("--nofile={0}:{0}", limit)),
                       {testing::Program("gpu_daemon/gpud"), "--dir", directory,
                        "--workers", "2"}),
                 directory, "descriptors are needed and [0-9]+ can be had")) {
    ++limit;
  }
  EXPECT_GT(limit, 3);
  EXPECT_LT(limit, 200);
}

TEST(FullMachineTest, ADeviceWithEveryNumberOfDescriptors) {
  const auto testbed = Testbed::Start();
  ASSERT_TRUE(testbed.ok()) << Message(testbed.status());
  ASSERT_TRUE(VisitTestbed((*testbed)->directory()).ok());
  const auto held = [&] {
    const fs::directory_iterator files(
        fmt::format("/proc/{}/fd", (*testbed)->gpud().pid()));
    return std::distance(begin(files), end(files));
  };
  const auto before = held();
  int limit = 3;
  for (std::optional<int> exit; exit != 0 && limit < 100; ++limit) {
    const auto fpga =
        Start("fpga", Limited(fmt::format("--nofile={0}:{0}", limit)),
              {testing::Program("devices/fpga/fpga"), "--dir",
               (*testbed)->directory(), "--frames", "3"});
    exit = fpga->Wait();
    ASSERT_THAT(exit, AnyOf(0, kFailed, kTestbedLost, kNotLoaded))
        << "with " << limit;
    if (exit == 0) break;
    ASSERT_THAT(fpga->output(),
                AnyOf(HasSubstr(kLoader), HasSubstr("descriptors"),
                      HasSubstr("Too many open files")))
        << "with " << limit;
    EXPECT_TRUE(Eventually([&] {
      return (*testbed)->Status().devices() == 0 && held() <= before;
    })) << "with "
        << limit;
  }
  EXPECT_LT(limit, 100);
}

TEST(FullMachineTest, GpudWithEveryNumberOfThreads) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  const Folder folder;
  const std::string directory = folder.Testbed(kNobody);
  const std::string gpud = folder.Copy("gpu_daemon/gpud");
  int limit = 1;
  while (
      limit < 300 && !::testing::Test::HasFailure() &&
      !GpudWorks(Start("gpud", AsNobody(fmt::format("--nproc={0}:{0}", limit)),
                       {gpud, "--dir", directory, "--workers", "2"}),
                 directory, "threads are needed and [0-9]+ can be had")) {
    ++limit;
  }
  EXPECT_GT(limit, 2);
  EXPECT_LT(limit, 300);
}

TEST(FullMachineTest, ADeviceWithEveryNumberOfThreads) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  const Folder folder;
  const std::string directory = folder.Testbed(kNobody);
  const auto gpud = Start("gpud", AsNobody(""),
                          {folder.Copy("gpu_daemon/gpud"), "--dir", directory});
  ASSERT_TRUE(gpud->WaitForOutput("is up in"));
  const std::string fpga = folder.Copy("devices/fpga/fpga");
  int limit = 1;
  for (; limit < 300; ++limit) {
    const auto device =
        Start("fpga", AsNobody(fmt::format("--nproc={0}:{0}", limit)),
              {fpga, "--dir", directory, "--frames", "3"});
    const auto exit = device->Wait();
    if (exit == 0) break;
    ASSERT_EQ(exit, kFailed) << "with " << limit;
    ASSERT_THAT(device->output(), HasSubstr("threads are needed"))
        << "with " << limit;
  }
  EXPECT_GT(limit, 2);
  EXPECT_LT(limit, 300);
  EXPECT_TRUE(VisitTestbed(directory).ok());
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kTakesTheWholeAddressSpace = true;
#else
constexpr bool kTakesTheWholeAddressSpace = false;
#endif

TEST(FullMachineTest, GpudWithEverySizeOfAddressSpace) {
  if (kTakesTheWholeAddressSpace) GTEST_SKIP() << "a sanitizer needs it all";
  const Folder folder;
  const std::string directory = folder.Testbed(geteuid());
  constexpr uint64_t kStep = 4 << 20;
  // With less than the program's own size the kernel kills it before it runs.
  const uint64_t least = fs::file_size(testing::Program("gpu_daemon/gpud"));
  uint64_t limit = least;
  while (limit < (uint64_t{16} << 30) && !::testing::Test::HasFailure() &&
         !GpudWorks(Start("gpud", Limited(fmt::format("--as={0}:{0}", limit)),
                          {testing::Program("gpu_daemon/gpud"), "--dir",
                           directory, "--workers", "2", "--memory", "16M"}),
                    directory, "ulimit -v|out of memory|no memory")) {
    limit += kStep;
  }
  EXPECT_GT(limit, least);
  EXPECT_LT(limit, uint64_t{16} << 30);
}

// As gRPC does where malloc has nothing: it aborts and says nothing.
TEST(FullMachineTest, GpudSaysWhyItAbortsWhereThereIsNoMemory) {
  const Folder folder;
  const std::string directory = folder.Testbed(geteuid());
  for (const bool limited : {false, true}) {
    const auto gpud = Start("gpud", {},
                            {testing::Program("gpu_daemon/gpud"), "--dir",
                             directory, "--workers", "2", "--memory", "16M"});
    ASSERT_TRUE(gpud->WaitForOutput("is up in"));
    constexpr rlimit kNothing{0, 0};
    ASSERT_EQ(
        prlimit(gpud->pid(), RLIMIT_AS, limited ? &kNothing : nullptr, nullptr),
        0);
    gpud->Signal(SIGABRT);
    EXPECT_EQ(gpud->Wait(), limited ? kFailed : -SIGABRT);
    EXPECT_EQ(gpud->output().find("gpud: out of memory") != std::string::npos,
              limited);
    fs::remove_all(directory);
  }
}

// What `carillon up` needs for a testbed with one FPGA.
struct UpFiles {
  std::string programs;  // the folder of gpud and the FPGA
  std::string carillon;
  std::string runtime;
  std::string topology;
};

UpFiles MakeUpFiles(const Folder& folder, uid_t owner) {
  UpFiles files{.programs = std::filesystem::absolute("."),
                .carillon = testing::Program("tools/cli/carillon"),
                .runtime = folder.Testbed(owner),
                .topology = folder.path() + "/topology.yaml"};
  std::ofstream(files.topology)
      << "gpu: {backend: cpu, workers: 2, memory: 16MiB}\n"
         "devices:\n"
         "  - {name: fpga0, kind: fpga, size: 64x64, fps: 100}\n";
  return files;
}

// Whether a testbed comes up. Afterwards `carillon up` has ended, in order or
// with a sentence that names the limit, and nothing of it runs.
bool UpWorks(const UpFiles& files, const std::vector<std::string>& before) {
  const auto up =
      Start("carillon up", before,
            {"/usr/bin/env", "CARILLON_RUNTIME_DIR=" + files.runtime,
             "CARILLON_BIN_DIR=" + files.programs, files.carillon, "up",
             "--file", files.topology, "--name", "lab", "--timeout", "20"});
  const bool is_up = up->WaitForOutput("\nup in");
  if (is_up) up->Signal(SIGTERM);
  const auto exit = up->Wait();
  EXPECT_TRUE(exit.has_value()) << "it hangs, and is deaf";
  EXPECT_THAT(
      testbed::MarkedProcesses(TestbedPaths(files.runtime + "/lab")).size(), 0);
  if (exit == 0) return true;
  // gpud, too, may run out of memory at any time.
  if (is_up && exit == kFailed) return false;
  EXPECT_THAT(exit, AnyOf(kFailed, kTestbedLost, kNotLoaded));
  // Where gpud or the FPGA finds too little, the sentence is theirs.
  EXPECT_THAT(up->output(),
              HasSubstr(exit == kNotLoaded ? kLoader : "carillon: "));
  return false;
}

TEST(FullMachineTest, ASupervisorWithEveryNumberOfDescriptors) {
  const Folder folder;
  const UpFiles files = MakeUpFiles(folder, geteuid());
  int limit = 4;
  while (limit < 200 && !::testing::Test::HasFailure() &&
         !UpWorks(files, Limited(fmt::format("--nofile={0}:{0}", limit)))) {
    ++limit;
  }
  EXPECT_GT(limit, 4);
  EXPECT_LT(limit, 200);
}

TEST(FullMachineTest, ASupervisorWithEveryNumberOfThreads) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  const Folder folder;
  UpFiles files = MakeUpFiles(folder, kNobody);
  files.carillon = folder.Copy("tools/cli/carillon");
  files.programs = fs::path(folder.Copy("gpu_daemon/gpud")).parent_path();
  folder.Copy("devices/fpga/fpga");
  int limit = 1;
  while (limit < 300 && !::testing::Test::HasFailure() &&
         !UpWorks(files, AsNobody(fmt::format("--nproc={0}:{0}", limit)))) {
    ++limit;
  }
  EXPECT_GT(limit, 2);
  EXPECT_LT(limit, 300);
}

TEST(FullMachineTest, ASupervisorWithEverySizeOfAddressSpace) {
  if (kTakesTheWholeAddressSpace) GTEST_SKIP() << "a sanitizer needs it all";
  const Folder folder;
  const UpFiles files = MakeUpFiles(folder, geteuid());
  constexpr uint64_t kStep = 8 << 20;
  const uint64_t least = fs::file_size(files.carillon);
  uint64_t limit = least;
  while (limit < (uint64_t{16} << 30) && !::testing::Test::HasFailure() &&
         !UpWorks(files, Limited(fmt::format("--as={0}:{0}", limit)))) {
    limit += kStep;
  }
  EXPECT_GT(limit, least);
  EXPECT_LT(limit, uint64_t{16} << 30);
}

}  // namespace
}  // namespace carillon
