#include "devices/router/route_reloader.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/status.h"
#include "devices/router/route_file.h"

namespace carillon::router {
namespace {

std::string FolderOf(const std::string& path) {
  const std::filesystem::path folder =
      std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RouteReloader>> RouteReloader::Watch(
    const std::string& path, std::vector<std::string> ports,
    RouteStore* store) {
  std::unique_ptr<RouteReloader> reloader(
      new RouteReloader(path, std::move(ports), store));
  RETURN_IF_ERROR(reloader->OpenDescriptors());
  return reloader;
}

absl::Status RouteReloader::OpenDescriptors() {
  inotify_.reset(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  done_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  // The folder, since an editor puts a new file in the place of the old one.
  if (inotify_ && done_ && epoll_ &&
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, inotify_.get(), &event) == 0 &&
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, done_.get(), &event) == 0 &&
      inotify_add_watch(inotify_.get(), FolderOf(path_).c_str(),
                        IN_CLOSE_WRITE | IN_MOVED_TO) >= 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      fmt::format("{}: its folder cannot be watched for changes: {}", path_,
                  std::strerror(errno)));
}

bool RouteReloader::Changed() {
  const std::string name = std::filesystem::path(path_).filename().string();
  alignas(inotify_event) std::array<char, 4096> bytes;
  bool changed = false;
  ssize_t length;
  while ((length = read(inotify_.get(), bytes.data(), bytes.size())) > 0) {
    for (size_t at = 0; at < static_cast<size_t>(length);) {
      inotify_event event;
      std::memcpy(&event, bytes.data() + at, sizeof(event));
      // The name has zeros behind it. With IN_Q_OVERFLOW some went unseen.
      if ((event.mask & IN_Q_OVERFLOW) != 0 ||
          (event.len > 0 && name == bytes.data() + at + sizeof(event))) {
        changed = true;
      }
      at += sizeof(event) + event.len;
    }
  }
  return changed;
}

std::optional<absl::Status> RouteReloader::Poll() {
  if (Changed()) wanted_ = true;
  std::optional<absl::Status> result;
  if (reading_.valid()) {
    uint64_t count;
    if (read(done_.get(), &count, sizeof(count)) != sizeof(count)) {
      return std::nullopt;
    }
    result = reading_.get();
  } else if (wanted_) {
    wanted_ = false;
    reading_ = std::async(std::launch::async, [this]() -> absl::Status {
      const auto routes = ReadRoutes(path_, ports_);
      const absl::Status status =
          routes.ok() ? store_->Replace(*routes) : routes.status();
      const uint64_t one = 1;
      [[maybe_unused]] const ssize_t written =
          write(done_.get(), &one, sizeof(one));
      return status;
    });
  }
  return result;
}

void RouteReloader::Settle() {
  if (reading_.valid()) reading_.wait();
}

}  // namespace carillon::router
