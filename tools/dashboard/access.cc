#include "tools/dashboard/access.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace carillon::dashboard {
namespace {

constexpr std::string_view kBearer = "Bearer ";

// In the same time wherever they differ: else an answer's time would tell how
// much of a guess was right.
bool SameToken(std::string_view one, std::string_view other) {
  return one.size() == other.size() &&
         CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

// As browsers say them: without the port that HTTP has by itself.
std::vector<std::string> HostsOf(uint16_t port) {
  std::vector<std::string> hosts = {fmt::format("127.0.0.1:{}", port),
                                    fmt::format("localhost:{}", port)};
  if (port == 80) hosts.insert(hosts.end(), {"127.0.0.1", "localhost"});
  return hosts;
}

}  // namespace

Response Text(int status, std::string_view content_type, std::string text) {
  Response response{.status = status, .content_type = content_type};
  response.parts.push_back(std::make_shared<std::string>(std::move(text)));
  return response;
}

Response Error(int status, const std::string& message) {
  const Json json = {{"error", {{"status", status}, {"message", message}}}};
  return Text(status, "application/json",
              json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::string_view ToText(Role role) {
  static constexpr std::string_view kTexts[] = {"viewer", "operator",
                                                "fault-injector"};
  return kTexts[static_cast<size_t>(role)];
}

std::optional<Role> RoleOf(std::string_view text) {
  for (const Role role :
       {Role::kViewer, Role::kOperator, Role::kFaultInjector}) {
    if (text == ToText(role)) return role;
  }
  return std::nullopt;
}

std::string MakeToken() {
  std::array<uint8_t, 16> bytes;
  // For so few bytes it neither fails nor waits, once the machine has booted.
  if (getrandom(bytes.data(), bytes.size(), 0) != ssize_t{bytes.size()}) {
    std::abort();
  }
  std::string token;
  for (const uint8_t byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

Access::Access(uint16_t port, std::vector<Grant> grants)
    : hosts_(HostsOf(port)), grants_(std::move(grants)) {}

std::optional<Response> Access::CheckOrigin(const Request& request) const {
  if (request.hosts.size() != 1 ||
      std::ranges::find(hosts_, request.hosts[0]) == hosts_.end()) {
    return Error(421, fmt::format("this server is http://{}/ and nobody else",
                                  hosts_[0]));
  }
  const bool own_origin = request.origins.empty() ||
                          (request.origins.size() == 1 &&
                           request.origins[0] == "http://" + request.hosts[0]);
  // "none": the user has typed the link, or followed it from outside a browser.
  const bool own_site = request.fetch_sites.empty() ||
                        (request.fetch_sites.size() == 1 &&
                         (request.fetch_sites[0] == "same-origin" ||
                          request.fetch_sites[0] == "none"));
  if (own_origin && own_site) return std::nullopt;
  return Error(403, "pages of other origins may not ask");
}

std::optional<Role> Access::RoleOfToken(const Request& request) const {
  if (request.authorizations.size() != 1) return std::nullopt;
  std::string_view token = request.authorizations[0];
  if (!token.starts_with(kBearer)) return std::nullopt;
  token.remove_prefix(kBearer.size());
  std::optional<Role> role;
  for (const Grant& grant : grants_) {
    if (SameToken(token, grant.token)) role = grant.role;
  }
  return role;
}

std::optional<Response> Access::CheckRole(const Request& request,
                                          Role needed) const {
  const std::optional<Role> role = RoleOfToken(request);
  if (!role) {
    Response refusal = Error(
        401,
        "this needs the token of the dashboard's link: open the link again; "
        "carillon dashboard --link prints that of a topology's dashboard");
    refusal.headers.emplace_back("WWW-Authenticate", "Bearer");
    return refusal;
  }
  if (needed == Role::kViewer || *role == needed) return std::nullopt;
  return Error(403, fmt::format("this needs the role {}, and the link's is {}: "
                                "carillon dashboard --role {}",
                                ToText(needed), ToText(*role), ToText(needed)));
}

std::span<const std::pair<std::string_view, std::string_view>> CommonHeaders() {
  static constexpr std::pair<std::string_view, std::string_view> kHeaders[] = {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src "
       "'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
       "frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cache-Control", "no-store"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cross-Origin-Opener-Policy", "same-origin-allow-popups"},
  };
  return kHeaders;
}

}  // namespace carillon::dashboard
