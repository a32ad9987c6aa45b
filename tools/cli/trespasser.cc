// A device that tries what its user must not be able to do to the testbed, and
// says how each attempt ended.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/testbed_paths.h"
#include "base/unique_fd.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

void Say(const std::string& what, bool done) {
  fmt::print("{}: {}\n", what, done ? "done" : strerrorname_np(errno));
}

UniqueFd Connect(const std::string& path, int type) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
              sizeof(address)) != 0) {
    fd.reset();
  }
  return fd;
}

void Trespass(const std::string& directory) {
  for (int fd = 3; fd < 1024; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) fmt::print("descriptor {} is open\n", fd);
  }
  const TestbedPaths paths(directory);
  const UniqueFd control = Connect(paths.control_socket(), SOCK_STREAM);
  Say("connect control.sock", bool{control});
  ucred gpud{};
  socklen_t size = sizeof(gpud);
  getsockopt(control.get(), SOL_SOCKET, SO_PEERCRED, &gpud, &size);
  Say("connect handover.sock",
      bool{Connect(paths.handover_socket(), SOCK_SEQPACKET)});
  Say("connect operator.sock",
      bool{Connect(paths.operator_socket(), SOCK_STREAM)});
  Say("connect bus.sock", bool{Connect(paths.bus_socket(), SOCK_STREAM)});
  Say("connect supervisor.sock",
      bool{Connect(directory + "/supervisor.sock", SOCK_STREAM)});
  for (const char* const name :
       {"state.json", "lock", "gpud.lock", "logs/gpud.log"}) {
    const std::string path = directory + "/" + name;
    Say(fmt::format("read {}", name),
        bool{UniqueFd(open(path.c_str(), O_RDONLY))});
    Say(fmt::format("write {}", name),
        bool{UniqueFd(open(path.c_str(), O_WRONLY))});
  }
  Say("list the directory", opendir(directory.c_str()) != nullptr);
  Say("make a file", bool{UniqueFd(open((directory + "/mine").c_str(),
                                        O_WRONLY | O_CREAT, 0600))});
  Say("remove control.sock", unlink(paths.control_socket().c_str()) == 0);
  if (gpud.pid > 0) {
    Say("signal gpud", kill(gpud.pid, SIGTERM) == 0);
    Say("trace gpud", ptrace(PTRACE_SEIZE, gpud.pid, nullptr, nullptr) == 0);
    Say("open gpud's memory",
        bool{UniqueFd(
            open(fmt::format("/proc/{}/mem", gpud.pid).c_str(), O_RDWR))});
  }
  Say("signal the supervisor", kill(getppid(), SIGTERM) == 0);
  Say("become root", setuid(0) == 0);
  Say("open the terminal", bool{UniqueFd(open("/dev/tty", O_RDWR))});
  fmt::print("uid {} gid {} groups {}\n", getuid(), getgid(),
             getgroups(0, nullptr));
  fmt::print("no new privileges: {}\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
  fmt::print("in {}\n", fs::current_path().string());
  for (const char* const name : {"HOME", "USER"}) {
    const char* const value = getenv(name);
    fmt::print("{}={}\n", name, value == nullptr ? "" : value);
  }
}

}  // namespace
}  // namespace carillon

int main(int argc, char** argv) {
  const char* const own = getenv(carillon::kTestbedDirectoryVariable);
  carillon::Trespass(argc > 1 ? argv[1] : own);
  fmt::print("end\n");
  fflush(stdout);
  pause();  // The test ends it.
}
