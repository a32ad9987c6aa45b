#include "gpu_daemon/control/testing/test_peer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fmt/format.h"

namespace carillon::gpud {
namespace {

constexpr char kProgram[] = "gpu_daemon/control/testing/control_test_peer";

}  // namespace

std::string ToHex(const std::string& bytes) {
  std::string hex;
  for (const char c : bytes) {
    hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  }
  return hex;
}

TestPeer::TestPeer(const std::string& mode, const std::string& directory,
                   const std::string& argument) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  output_.reset(ends[0]);
  const UniqueFd theirs(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
  const char* arguments[] = {kProgram, mode.c_str(), directory.c_str(),
                             argument.c_str(), nullptr};
  // Not fork(): gRPC's threads are running.
  EXPECT_EQ(posix_spawn(&pid_, kProgram, &actions, nullptr,
                        const_cast<char**>(arguments), environ),
            0);
  posix_spawn_file_actions_destroy(&actions);
}

TestPeer::~TestPeer() { Kill(); }

std::string TestPeer::ReadLine() {
  std::string line;
  char c = 0;
  pollfd readable{.fd = output_.get(), .events = POLLIN, .revents = 0};
  while (poll(&readable, 1, 20'000) == 1 && read(output_.get(), &c, 1) == 1 &&
         c != '\n') {
    line += c;
  }
  return line;
}

void TestPeer::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace carillon::gpud
