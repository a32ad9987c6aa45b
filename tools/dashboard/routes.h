// Answers the dashboard's requests, whatever sent them.
#ifndef CARILLON_TOOLS_DASHBOARD_ROUTES_H_
#define CARILLON_TOOLS_DASHBOARD_ROUTES_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tools/dashboard/access.h"
#include "tools/dashboard/http_message.h"
#include "tools/dashboard/view.h"

namespace carillon::dashboard {

struct RouteInfo {
  std::string_view method;
  std::string_view path;
  // Nothing: no token is needed. Such a route tells nothing of the testbed.
  std::optional<Role> role;
};

// Thread safe.
class Routes {
 public:
  // Both must outlive it. `page`: a folder to read the page's files from in place
  // of those in the program; empty: none.
  Routes(const Access* access, View* view, std::string page = "")
      : access_(access), view_(view), page_(std::move(page)) {}

  // Never fails: what is wrong with a request is in its response.
  Response Answer(const Request& request) const;

  static std::span<const RouteInfo> All();

 private:
  const Access* const access_;
  View* const view_;
  const std::string page_;
};

}  // namespace carillon::dashboard

#endif  // CARILLON_TOOLS_DASHBOARD_ROUTES_H_
