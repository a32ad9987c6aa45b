// A device that breaks the rules on purpose:
//
//   hostile_device --dir TESTBED --name mallory --victim honest
//                  --trick doorbell-jump
//
// It plays one trick (hostile_tricks.h), says "holding", and keeps everything
// that it has until it is killed. `--list` names the tricks.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>

#include "base/subprocess.h"
#include "integration_tests/hostile/hostile_tricks.h"

namespace carillon::testing {

void SayOutcome(std::string_view what, const absl::Status& status) {
  if (status.ok()) return Say("ACCEPTED: {}", what);
  Say("refused: {}: {}: {}", what, absl::StatusCodeToString(status.code()),
      std::string(status.message()).substr(0, 300));
}

void SayOutcome(std::string_view what, const grpc::Status& status) {
  SayOutcome(what,
             absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                          status.error_message()));
}

void SayDenied(std::string_view what, bool failed) {
  const int error = errno;
  if (!failed) return Say("ACCEPTED: {}", what);
  Say("{}: {}: {}",
      error == EPERM || error == EACCES ? "refused" : "UNEXPECTED", what,
      std::strerror(error));
}

void SayClosed(const WireDevice& device) {
  Await("the end of the session",
        [&] { return device.closed() != shm::CloseReason::kOpen; });
  Say("closed: {}", device.closed() == shm::CloseReason::kEvicted
                        ? "evicted"
                        : std::to_string(static_cast<int>(device.closed())));
  v1::ReportReadyRequest request;
  request.set_session(device.attached.session());
  // The closed word may come just before or after the table forgets the
  // session.
  grpc::Status status;
  Await("a refused call", [&] {
    status = device.control.Call(&v1::Devices::Stub::ReportReady, request);
    return !status.ok();
  });
  SayOutcome("a call afterwards", status);
}

void Tally::Say(const std::vector<uint32_t>& expected) const {
  for (const auto& [end, count] : counts_) {
    const auto [state, status] = end;
    const bool done = state == static_cast<uint32_t>(shm::EventState::kDone);
    const bool failed =
        state == static_cast<uint32_t>(shm::EventState::kFailed);
    const bool known =
        (done || failed) &&
        std::find(expected.begin(), expected.end(), status) != expected.end();
    testing::Say("{}ended: {} events {} with status {}",
                 known ? "" : "UNEXPECTED: ", count,
                 done     ? "done"
                 : failed ? "failed"
                          : "aborted",
                 status);
  }
}

void RunSelf(const std::vector<std::string>& arguments) {
  SpawnOptions options{.argv = {OwnProgram()}};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  auto child = Subprocess::Start(options);
  if (!child.ok()) {
    return Say("UNEXPECTED: {}", std::string(child.status().message()));
  }
  child->Reap();
}

namespace {

int Main(int argc, char** argv) {
  std::vector<Trick> tricks;
  for (const auto& some :
       {MemoryTricks(), RingTricks(), HandoverTricks(), CallTricks()}) {
    tricks.insert(tricks.end(), some.begin(), some.end());
  }
  CLI::App app("A device that breaks the rules on purpose.", "hostile_device");
  std::string directory;
  std::string name = "hostile";
  std::string victim;
  std::string trick;
  std::string ticket;
  std::string session;
  bool list = false;
  app.add_flag("--list", list, "Names the tricks and ends");
  app.add_option("--dir", directory, "The testbed's directory");
  app.add_option("--name", name, "This device's name")->capture_default_str();
  app.add_option("--victim", victim, "Name of an attached device");
  app.add_option("--trick", trick, "What to do");
  app.add_option("--present-ticket", ticket, "For a trick's second process");
  app.add_option("--use-session", session, "For a trick's second process");
  CLI11_PARSE(app, argc, argv);
  if (list) {
    for (const Trick& one : tricks) Say("{:24}{}", one.name, one.what);
    return 0;
  }
  signal(SIGPIPE, SIG_IGN);
  const Scene scene{TestbedPaths(directory), name, victim};
  if (!ticket.empty()) PresentTicket(scene.paths, ticket);
  if (!session.empty()) UseSession(scene.paths, session);
  if (!ticket.empty() || !session.empty()) return 0;
  for (const Trick& one : tricks) {
    if (one.name != trick) continue;
    one.play(scene);
    Say("holding");
    while (true) pause();
  }
  fmt::print(stderr, "no trick '{}': see --list\n", trick);
  return 2;
}

}  // namespace
}  // namespace carillon::testing

int main(int argc, char** argv) { return carillon::testing::Main(argc, argv); }
