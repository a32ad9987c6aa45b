// Clients of a supervisor's socket with arbitrary bytes: a request is an object
// or nothing, the server never waits for clients, and it releases those that
// ask no further.
//
//   u8           bits 0..1: clients, less one; bit 2: they hang up at the end
//   steps        u8: which client (bits 0..1), and what: sends (u8 bytes
//                follow), sends the rest of the input, hangs up, or is answered
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/testing/fuzz_input.h"
#include "base/unique_fd.h"
#include "tools/testbed/supervisor/supervisor_socket.h"

namespace carillon::testbed {
namespace {

struct Folder {
  Folder() {
    char name[] = "/tmp/carillon-fuzz-XXXXXX";
    FUZZ_CHECK(mkdtemp(name) != nullptr);
    path = name;
  }
  ~Folder() { rmdir(path.c_str()); }
  std::string path;
};

class Run {
 public:
  Run(const std::string& path, fuzz::FuzzInput input)
      : path_(path), input_(input) {
    RequestServer::Limits limits;
    limits.connections = 3;
    limits.request_bytes = 512;
    desk_.emplace(limits);
    FUZZ_CHECK(desk_->Open(path_).ok());
  }
  ~Run() {
    desk_->Close();
    unlink(path_.c_str());
  }

  void Go() {
    const auto how = input_.Take<uint8_t>();
    for (size_t i = 0; i <= (how & 3u); ++i) clients_[i] = Connect();
    while (!input_.empty()) Step();
    if ((how & 4) != 0) {
      for (UniqueFd& client : clients_) client.reset();
    }
    Take();
    // A client gets no answer without a question, and none twice.
    desk_->Done(0, Json::object());
    for (const auto id : open_) {
      desk_->Say(id, "word\n\x1b \xff");
      desk_->Done(id, {{"text", "\xff"}});
      desk_->Done(id, Json::object());
      desk_->Failed(id, absl::InternalError("\xff"));
    }
    for (const UniqueFd& client : clients_) Read(client);
  }

 private:
  UniqueFd Connect() {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, path_.size());
    FUZZ_CHECK(connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
                       sizeof(address)) == 0);
    return fd;
  }
  void Step() {
    const auto what = input_.Take<uint8_t>();
    UniqueFd& client = clients_[what & 3];
    std::string_view bytes;
    switch (what >> 2 & 3) {
      case 0:
        bytes = input_.TakeText(input_.Take<uint8_t>());
        break;
      case 1:
        bytes = input_.TakeRest();
        break;
      case 2:
        client.reset();
        break;
      default:
        if (open_.empty()) break;
        desk_->Failed(open_.back(), absl::NotFoundError("none"));
        open_.pop_back();
    }
    // If the server has hung up, the client gets an error, as with a full
    // socket.
    if (client && !bytes.empty()) {
      (void)!send(client.get(), bytes.data(), bytes.size(),
                  MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    Take();
  }
  void Take() {
    for (const RequestServer::Request& request : desk_->Take()) {
      FUZZ_CHECK(request.id != 0 && request.json.is_object());
      FUZZ_CHECK(asked_.insert(request.id).second, "one id for two");
      open_.push_back(request.id);
    }
    std::vector<pollfd> fds;
    desk_->AddTo(fds);
    FUZZ_CHECK(fds.size() <= 4);
  }
  // Answers are lines of JSON.
  static void Read(const UniqueFd& client) {
    if (!client) return;
    std::string text(64 << 10, '\0');
    const ssize_t got =
        recv(client.get(), text.data(), text.size(), MSG_DONTWAIT);
    text.resize(got > 0 ? static_cast<size_t>(got) : 0);
    size_t at = 0;
    while (at < text.size()) {
      const size_t end = text.find('\n', at);
      FUZZ_CHECK(end != std::string::npos);
      FUZZ_CHECK(Json::accept(text.substr(at, end - at)));
      at = end + 1;
    }
  }

  const std::string path_;
  fuzz::FuzzInput input_;
  std::optional<RequestServer> desk_;
  std::array<UniqueFd, 4> clients_;
  std::set<uint64_t> asked_;
  std::vector<uint64_t> open_;
};

}  // namespace
}  // namespace carillon::testbed

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static carillon::testbed::Folder folder;
  carillon::testbed::Run(folder.path + "/s", {data, size}).Go();
  return 0;
}
