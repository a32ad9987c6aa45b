// Brings the routes of a router up to date when their file changes.
#ifndef CARILLON_DEVICES_ROUTER_ROUTE_RELOADER_H_
#define CARILLON_DEVICES_ROUTER_ROUTE_RELOADER_H_

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "devices/router/route_store.h"

namespace carillon::router {

// Reads the file and computes the tables in a thread, as both take seconds for a
// full table of the Internet. Not thread safe.
class RouteReloader {
 public:
  // `store` must outlive it. Errors: FailedPrecondition (the file's folder
  // cannot be watched).
  static absl::StatusOr<std::unique_ptr<RouteReloader>> Watch(
      const std::string& path, std::vector<std::string> ports,
      RouteStore* store);

  // Readable when Poll() has something to do.
  int fd() const { return epoll_.get(); }
  // To be called when the forwarders use the store's routes and none from before.
  // OK: the store has new routes; an error: the file is wrong, and the store as
  // it was. Nothing: neither, so far.
  std::optional<absl::Status> Poll();
  // Waits until the store may be looked at. It may always be, but between a
  // Poll() that returned nothing and the next call of Poll() or Settle().
  void Settle();

 private:
  RouteReloader(std::string path, std::vector<std::string> ports,
                RouteStore* store)
      : path_(std::move(path)), ports_(std::move(ports)), store_(store) {}
  absl::Status OpenDescriptors();
  // Whether the file has changed since the last call.
  bool Changed();

  const std::string path_;
  const std::vector<std::string> ports_;
  RouteStore* const store_;
  UniqueFd inotify_;
  UniqueFd done_;  // an eventfd: the thread has ended
  UniqueFd epoll_;
  bool wanted_ = false;  // it has changed, and was not read since
  std::future<absl::Status> reading_;
};

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_ROUTE_RELOADER_H_
