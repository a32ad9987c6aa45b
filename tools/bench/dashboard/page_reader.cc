#include "tools/bench/dashboard/page_reader.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <charconv>

#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"

namespace carillon::bench {
namespace {

constexpr char kHost[] = "127.0.0.1:";
constexpr char kToken[] = "#token=";
// Of server-sent events.
constexpr std::string_view kPicture = "\ndata: ";
constexpr timeval kPatience{30, 0};

// A connection that has asked for `target`.
absl::StatusOr<UniqueFd> Ask(const DashboardLink& link,
                             std::string_view target) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  const sockaddr_in address{.sin_family = AF_INET,
                            .sin_port = htons(link.port),
                            .sin_addr = {htonl(INADDR_LOOPBACK)},
                            .sin_zero = {}};
  const std::string request = fmt::format(
      "GET {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n"
      "Connection: close\r\n\r\n",
      target, link.port, link.token);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0 ||
      send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
          static_cast<ssize_t>(request.size())) {
    return absl::UnavailableError("the dashboard does not answer");
  }
  return fd;
}

}  // namespace

absl::StatusOr<DashboardLink> DashboardLink::Read(std::string_view line) {
  DashboardLink link;
  const size_t host = line.find(kHost);
  const size_t token = line.find(kToken);
  if (host != line.npos && token != line.npos) {
    std::from_chars(line.data() + host + sizeof(kHost) - 1, line.end(),
                    link.port);
    link.token = line.substr(token + sizeof(kToken) - 1);
  }
  if (link.port != 0 && !link.token.empty()) return link;
  return absl::InternalError(fmt::format("the dashboard says '{}'", line));
}

absl::StatusOr<uint64_t> Get(const DashboardLink& link,
                             std::string_view target) {
  ASSIGN_OR_RETURN(const UniqueFd fd, Ask(link, target));
  std::string begin;
  uint64_t bytes = 0;
  char piece[64 << 10];
  ssize_t got = 0;
  while ((got = recv(fd.get(), piece, sizeof(piece), 0)) > 0) {
    if (begin.size() < 512) begin.append(piece, std::min<size_t>(got, 512));
    bytes += static_cast<uint64_t>(got);
  }
  if (got == 0 && begin.starts_with("HTTP/1.1 200 ")) return bytes;
  return absl::InternalError(
      fmt::format("GET {}: {}", target, got == 0 ? begin : "no answer"));
}

absl::StatusOr<std::unique_ptr<OpenPage>> OpenPage::Open(
    const DashboardLink& link) {
  const Nanoseconds start = NowNs();
  RETURN_IF_ERROR(Get(link, "/").status());
  RETURN_IF_ERROR(Get(link, "/api/v1/history?last=600").status());
  ASSIGN_OR_RETURN(UniqueFd stream, Ask(link, "/api/v1/stream"));
  std::unique_ptr<OpenPage> page(new OpenPage(std::move(stream)));
  while (page->pictures() == 0) {
    if (!page->ReadSome()) {
      return absl::UnavailableError("the dashboard sends no picture");
    }
  }
  page->first_data_ms_ = static_cast<double>(NowNs() - start) / 1e6;
  page->thread_ = std::thread([it = page.get()] {
    while (it->ReadSome()) {
    }
  });
  return page;
}

OpenPage::~OpenPage() {
  shutdown(stream_.get(), SHUT_RDWR);
  if (thread_.joinable()) thread_.join();
}

bool OpenPage::ReadSome() {
  char piece[64 << 10];
  const ssize_t got = recv(stream_.get(), piece, sizeof(piece), 0);
  if (got <= 0) return false;
  tail_.append(piece, static_cast<size_t>(got));
  uint64_t found = 0;
  size_t after = 0;
  for (size_t at; (at = tail_.find(kPicture, after)) != tail_.npos; ++found) {
    after = at + kPicture.size();
  }
  tail_.erase(0, std::max(after, tail_.size() -
                                     std::min(tail_.size(), kPicture.size())));
  pictures_.fetch_add(found, std::memory_order_relaxed);
  return true;
}

}  // namespace carillon::bench
