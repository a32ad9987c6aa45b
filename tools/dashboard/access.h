// Who may ask the dashboard what (docs/decisions/028-a-token-on-loopback.md).
#ifndef CARILLON_TOOLS_DASHBOARD_ACCESS_H_
#define CARILLON_TOOLS_DASHBOARD_ACCESS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/dashboard/http_message.h"

namespace carillon::dashboard {

// As in certificates (docs/security.md).
enum class Role { kViewer, kOperator, kFaultInjector };
std::string_view ToText(Role role);  // "fault-injector"
std::optional<Role> RoleOf(std::string_view text);

// 128 random bits as 32 hexadecimal digits.
std::string MakeToken();

// A link: who has its token may see all, and do what the role may.
struct Grant {
  Role role = Role::kViewer;
  std::string token;
};

class Access {
 public:
  Access(uint16_t port, std::vector<Grant> grants);

  // Refuses a request that a page of another origin, or of a name that was
  // rebound to this machine, has a browser send, whatever it asks: 421, 403.
  std::optional<Response> CheckOrigin(const Request& request) const;
  // Refuses a request without a token that carries the role: 401, 403.
  std::optional<Response> CheckRole(const Request& request, Role needed) const;
  // Of the request's token; nothing: it has none that is right.
  std::optional<Role> RoleOfToken(const Request& request) const;

 private:
  const std::vector<std::string> hosts_;
  const std::vector<Grant> grants_;
};

// The fields that every response has: what the page may load, and that nobody
// keeps or frames it.
std::span<const std::pair<std::string_view, std::string_view>> CommonHeaders();

}  // namespace carillon::dashboard

#endif  // CARILLON_TOOLS_DASHBOARD_ACCESS_H_
