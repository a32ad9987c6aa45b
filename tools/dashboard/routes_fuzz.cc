// Whatever a client sends and Beast takes for a request: it gets an answer that
// is a document, and changes nothing unless it is a POST with the right token,
// host and origin.
//
// An input is lines: method, target, Host, Origin, whose token ("viewer",
// "operator", "fault-injector"; else the field as it is), Content-Type; the rest
// is the body.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/testing/fuzz_input.h"
#include "tools/dashboard/access.h"
#include "tools/dashboard/fake_view.h"
#include "tools/dashboard/routes.h"

namespace carillon::dashboard {
namespace {

constexpr std::string_view kHosts[] = {"127.0.0.1:81", "localhost:81"};

std::string TakeLine(std::string_view* text) {
  const std::string_view line = text->substr(0, text->find('\n'));
  text->remove_prefix(std::min(text->size(), line.size() + 1));
  return std::string(line);
}

void Check(std::string_view text) {
  const Access access(81, {{Role::kViewer, "viewer-token"},
                           {Role::kOperator, "operator-token"},
                           {Role::kFaultInjector, "fault-injector-token"}});
  FakeView view;
  view.set_line(std::string(text));
  const Routes routes(&access, &view);

  Request request;
  request.method = TakeLine(&text);
  request.target = TakeLine(&text);
  request.hosts = {TakeLine(&text)};
  if (std::string origin = TakeLine(&text); !origin.empty()) {
    request.origins = {std::move(origin)};
  }
  const std::string token = TakeLine(&text);
  const auto role = RoleOf(token);
  request.authorizations = {role ? "Bearer " + token + "-token" : token};
  request.content_types = {TakeLine(&text)};
  request.body = text;

  const Response response = routes.Answer(request);
  FUZZ_CHECK(response.status >= 200 && response.status < 600);
  std::string body;
  for (const SharedText& part : response.parts) body += *part;
  if (response.content_type == "application/json") {
    FUZZ_CHECK(Json::accept(body), "%s", body.c_str());
  }
  const bool ours = std::ranges::count(kHosts, request.hosts[0]) == 1 &&
                    (request.origins.empty() ||
                     request.origins[0] == "http://" + request.hosts[0]);
  const bool right = role || token == "Bearer viewer-token" ||
                     token == "Bearer operator-token" ||
                     token == "Bearer fault-injector-token";
  if (!view.changes().empty()) {
    FUZZ_CHECK(request.method == "POST");
    FUZZ_CHECK(ours && right && role != Role::kViewer);
    FUZZ_CHECK(view.changes().size() == 1);
  }
  if (!ours) FUZZ_CHECK(response.status == 421 || response.status == 403);
  // Without a token only the page's files, which are gzipped.
  if (response.status == 200 && !right) {
    FUZZ_CHECK(response.headers.size() == 1 && !response.stream);
  }
}

}  // namespace
}  // namespace carillon::dashboard

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::dashboard::Check(carillon::fuzz::FuzzInput(data, size).TakeRest());
  return 0;
}
