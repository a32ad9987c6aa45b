#include "tools/dashboard/routes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/temp_directory.h"
#include "shm/faults/fault.h"
#include "tools/dashboard/fake_view.h"
#include "tools/testbed/fault_plans/fields.h"

namespace carillon::dashboard {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr char kHost[] = "127.0.0.1:4321";

// Bodies that each POST takes.
const std::map<std::string_view, std::string> kBodies = {
    {"/api/v1/faults",
     R"({"name": "dies", "process": "nic0", "action": "kill"})"},
    {"/api/v1/faults/clear", "{}"},
    {"/api/v1/policy", R"({"policy": "priority"})"},
    {"/api/v1/tracing", R"({"on": true})"},
    {"/api/v1/restart", R"({"process": "nic0"})"},
};

class RoutesTest : public ::testing::Test {
 protected:
  static std::string TokenOf(Role role) {
    return fmt::format("{}-token", ToText(role));
  }
  // With the right token, host and origin.
  static Request Right(const RouteInfo& route) {
    Request request{.method = std::string(route.method),
                    .target = std::string(route.path),
                    .hosts = {kHost}};
    if (route.role) {
      request.authorizations = {"Bearer " + TokenOf(*route.role)};
    }
    if (route.method == "POST") {
      request.origins = {fmt::format("http://{}", kHost)};
      request.fetch_sites = {"same-origin"};
      request.content_types = {"application/json"};
      request.body = kBodies.at(route.path);
    }
    return request;
  }
  static Request Get(std::string target) {
    return Right({"GET", target, Role::kViewer});
  }
  static Request Post(std::string_view path, Role role, std::string body) {
    Request request = Right({"POST", path, role});
    request.body = std::move(body);
    return request;
  }
  int Status(const Request& request) { return routes_.Answer(request).status; }
  static std::string BodyOf(const Response& response) {
    std::string body;
    for (const SharedText& part : response.parts) body += *part;
    if (response.file == nullptr) return body;
    std::string file(response.file->bytes, '\0');
    EXPECT_EQ(pread(response.file->fd.get(), file.data(), file.size(), 0),
              static_cast<ssize_t>(file.size()));
    return body + file;
  }

  FakeView view_;
  const Access access_{4321,
                       {{Role::kViewer, TokenOf(Role::kViewer)},
                        {Role::kOperator, TokenOf(Role::kOperator)},
                        {Role::kFaultInjector, TokenOf(Role::kFaultInjector)}}};
  const Routes routes_{&access_, &view_};
};

TEST_F(RoutesTest, EveryRouteAnswersTheRightTokenHostAndOrigin) {
  ASSERT_GT(Routes::All().size(), 10u);
  for (const RouteInfo& route : Routes::All()) {
    EXPECT_EQ(Status(Right(route)), 200) << route.method << " " << route.path;
  }
}

TEST_F(RoutesTest, EveryRouteWithATokenRefusesAllOthers) {
  for (const RouteInfo& route : Routes::All()) {
    if (!route.role) continue;
    const std::string right = "Bearer " + TokenOf(*route.role);
    const std::string token = TokenOf(*route.role);
    for (const std::vector<std::string>& wrong :
         std::vector<std::vector<std::string>>{
             {},
             {""},
             {"Bearer "},
             {token},
             {"Bearer " + token + "x"},
             {"Bearer " + token.substr(1)},
             {"Bearer x" + token.substr(1)},
             {"Bearer " + token.substr(0, token.size() - 1) + "x"},
             {"Basic " + token},
             {right, right},
             {"Bearer x", right}}) {
      Request request = Right(route);
      request.authorizations = wrong;
      const Response response = routes_.Answer(request);
      EXPECT_EQ(response.status, 401) << route.path;
      EXPECT_FALSE(response.stream);
    }
  }
  EXPECT_THAT(view_.changes(), IsEmpty());
}

TEST_F(RoutesTest, EveryRouteRefusesForeignHostsWhateverTheToken) {
  for (const RouteInfo& route : Routes::All()) {
    for (const std::vector<std::string>& hosts :
         std::vector<std::vector<std::string>>{{},
                                               {""},
                                               {"evil.example:4321"},
                                               {"127.0.0.1"},
                                               {"127.0.0.1:4322"},
                                               {"127.0.0.1:4321.evil.example"},
                                               {kHost, kHost},
                                               {kHost, "evil.example"}}) {
      for (const bool token : {false, true}) {
        Request request = Right(route);
        request.hosts = hosts;
        if (!token) request.authorizations.clear();
        EXPECT_EQ(Status(request), 421) << route.path;
      }
    }
  }
  EXPECT_THAT(view_.changes(), IsEmpty());
}

TEST_F(RoutesTest, EveryRouteRefusesForeignOriginsWhateverTheToken) {
  for (const RouteInfo& route : Routes::All()) {
    for (const std::vector<std::string>& origins :
         std::vector<std::vector<std::string>>{
             {"http://evil.example"},
             {"null"},
             {""},
             {"https://127.0.0.1:4321"},
             {"http://127.0.0.1:4322"},
             {"http://localhost:4321"},
             {"http://127.0.0.1:4321", "http://evil.example"}}) {
      Request request = Right(route);
      request.origins = origins;
      EXPECT_EQ(Status(request), 403) << route.path << " " << origins[0];
    }
    for (const char* const site : {"cross-site", "same-site", ""}) {
      Request request = Right(route);
      request.fetch_sites = {site};
      EXPECT_EQ(Status(request), 403) << route.path << " " << site;
    }
  }
  EXPECT_THAT(view_.changes(), IsEmpty());
}

TEST_F(RoutesTest, ALinkMayDoWhatItsRoleMayAndSeeAll) {
  for (const RouteInfo& route : Routes::All()) {
    if (!route.role) continue;
    for (const Role role :
         {Role::kViewer, Role::kOperator, Role::kFaultInjector}) {
      Request request = Right(route);
      request.authorizations = {"Bearer " + TokenOf(role)};
      const bool may = route.role == Role::kViewer || route.role == role;
      EXPECT_EQ(Status(request), may ? 200 : 403)
          << ToText(role) << " " << route.path;
    }
  }
  EXPECT_THAT(view_.changes(),
              ElementsAre("inject dies nic0 kill nth 1", "clear ",
                          "policy priority", "tracing on", "restart nic0"));
}

TEST_F(RoutesTest, AGetChangesNothing) {
  for (const RouteInfo& route : Routes::All()) {
    for (const char* const method : {"GET", "HEAD", "PUT", "DELETE", "get"}) {
      for (const Role role :
           {Role::kViewer, Role::kOperator, Role::kFaultInjector}) {
        Request request = Right(route);
        request.method = method;
        request.authorizations = {"Bearer " + TokenOf(role)};
        (void)routes_.Answer(request);
      }
    }
  }
  EXPECT_THAT(view_.changes(), IsEmpty());
}

TEST_F(RoutesTest, OtherMethodsAreToldWhatThePathTakes) {
  Request request = Get("/api/v1/faults");
  request.method = "DELETE";
  const Response response = routes_.Answer(request);
  EXPECT_EQ(response.status, 405);
  EXPECT_THAT(response.headers,
              ElementsAre(::testing::Pair("Allow", "GET, POST")));
  EXPECT_EQ(Status(Get("/api/v1/nothing")), 404);
  EXPECT_EQ(Status(Get("/../app.js")), 404);
  EXPECT_EQ(Status(Get("")), 404);
}

TEST_F(RoutesTest, APostMustBeAJsonObjectOfKnownKeys) {
  Request form =
      Post("/api/v1/policy", Role::kOperator, R"({"policy": "priority"})");
  for (const char* const type : {"application/x-www-form-urlencoded",
                                 "text/plain", "multipart/form-data", ""}) {
    form.content_types = {type};
    EXPECT_EQ(Status(form), 415) << type;
  }
  form.content_types = {};
  EXPECT_EQ(Status(form), 415);
  for (const char* const body :
       {"", "{", "[]", "3", "null", "{}", R"({"policy": 3})",
        R"({"policy": ""})", R"({"policy": "priority", "x": 1})",
        "{\"policy\": \"\xff\"}"}) {
    EXPECT_EQ(Status(Post("/api/v1/policy", Role::kOperator, body)), 400)
        << body;
  }
  for (const char* const body : {"{}", R"({"on": "true"})", R"({"on": 1})"}) {
    EXPECT_EQ(Status(Post("/api/v1/tracing", Role::kOperator, body)), 400)
        << body;
  }
  for (const char* const body :
       {R"({"name": "a", "process": "nic0"})",
        R"({"name": "a", "process": "nic0", "action": "explode"})",
        R"({"name": "A b", "process": "nic0", "action": "kill"})",
        R"({"name": "a", "process": "nic0", "action": "kill", "nth": 3})",
        R"({"name": "a", "process": "nic0", "action": "kill", "no": "3"})",
        R"({"name": "a", "process": "nic0", "action": "kill", "for": "3s"})"}) {
    EXPECT_EQ(Status(Post("/api/v1/faults", Role::kFaultInjector, body)), 400)
        << body;
  }
  EXPECT_THAT(view_.changes(), IsEmpty());
}

TEST_F(RoutesTest, AFaultHasTheFieldsOfTheCommandLine) {
  EXPECT_EQ(Status(Post("/api/v1/faults", Role::kFaultInjector,
                        R"({"name": "a", "process": "nic*", "action": "kill",
                            "point": "device.ring", "nth": "3"})")),
            200);
  EXPECT_THAT(view_.changes(), ElementsAre("inject a nic* kill nth 3"));
}

TEST_F(RoutesTest, WhatATestbedRefusesIsTold) {
  view_.set_status(absl::NotFoundError("there is no policy 'x'"));
  const Response response = routes_.Answer(
      Post("/api/v1/policy", Role::kOperator, R"({"policy": "x"})"));
  EXPECT_EQ(response.status, 404);
  EXPECT_THAT(BodyOf(response), HasSubstr("there is no policy 'x'"));
}

TEST_F(RoutesTest, WhatIsUnavailableSaysWhenToAskAgain) {
  const Request request =
      Post("/api/v1/policy", Role::kOperator, R"({"policy": "x"})");
  const auto asks_again = ::testing::Contains(
      ::testing::Pair(std::string_view("Retry-After"), "5"));
  view_.set_status(absl::UnavailableError("somebody waits"));
  const Response later = routes_.Answer(request);
  EXPECT_EQ(later.status, 503);
  EXPECT_THAT(later.headers, asks_again);
  view_.set_status(absl::ResourceExhaustedError("it is too large"));
  EXPECT_THAT(routes_.Answer(request).headers, ::testing::Not(asks_again));
}

TEST_F(RoutesTest, NumbersInAQueryHaveBounds) {
  EXPECT_THAT(BodyOf(routes_.Answer(Get("/api/v1/logs"))), HasSubstr("200"));
  EXPECT_THAT(BodyOf(routes_.Answer(Get("/api/v1/logs?x=1&lines=7"))),
              HasSubstr("7"));
  for (const char* const wrong :
       {"lines=0", "lines=-1", "lines=2001", "lines=", "lines=7x",
        "lines=99999999999999999999999", "x=1&lines=a"}) {
    EXPECT_EQ(Status(Get(fmt::format("/api/v1/logs?{}", wrong))), 400) << wrong;
  }
  EXPECT_EQ(Status(Get("/api/v1/history?last=601")), 400);
}

TEST_F(RoutesTest, HistoryIsOneDocument) {
  const Json json = Json::parse(
      BodyOf(routes_.Answer(Get("/api/v1/history?last=60"))), nullptr, false);
  ASSERT_TRUE(json.is_object());
  ASSERT_EQ(json["pictures"].size(), 2u);
  EXPECT_EQ(json["pictures"][0]["s"], 60);
}

TEST_F(RoutesTest, AnyBytesInALogMakeADocument) {
  view_.set_line("\xff\x00\x1b[31m</script>\"\n");
  const std::string body = BodyOf(routes_.Answer(Get("/api/v1/logs")));
  const Json json = Json::parse(body, nullptr, false);
  ASSERT_TRUE(json.is_object()) << body;
  EXPECT_THAT(body, ::testing::Not(HasSubstr("\x1b")));
}

TEST(TokenTest, HasRandomBits) {
  const std::string token = MakeToken();
  EXPECT_THAT(token, ::testing::MatchesRegex("[0-9a-f]{32}"));
  EXPECT_NE(token, MakeToken());
}

TEST_F(RoutesTest, PointsAreThoseOfTheFaults) {
  const Json points =
      Json::parse(BodyOf(routes_.Answer(Get("/api/v1/points"))))["points"];
  // All but kNone.
  EXPECT_EQ(points.size(), faults::Points().size() - 1);
  for (const Json& point : points) {
    const auto named =
        std::ranges::find(faults::Points(), point["point"].get<std::string>(),
                          &faults::PointInfo::name);
    ASSERT_NE(named, faults::Points().end()) << point;
    EXPECT_NE(named->point, faults::Point::kNone);
    for (const Json& action : point["actions"]) {
      const auto read = fault::ReadAction(action.get<std::string>());
      ASSERT_TRUE(read.ok()) << point;
      EXPECT_TRUE(faults::Allows(named->point, *read)) << point;
    }
  }
}

TEST_F(RoutesTest, ATraceIsAFileOfTheSecondsThatWereAskedFor) {
  const Response response = routes_.Answer(Get("/api/v1/trace.pftrace?last=7"));
  EXPECT_EQ(BodyOf(response), "trace of 7 s");
  EXPECT_EQ(response.content_type, "application/octet-stream");
  EXPECT_THAT(response.headers,
              Contains(Pair("Content-Disposition",
                            "attachment; filename=\"carillon.pftrace\"")));
  EXPECT_EQ(Status(Get("/api/v1/trace.pftrace?last=0")), 400);
  EXPECT_EQ(Status(Get("/api/v1/trace.pftrace?last=601")), 400);
}

TEST_F(RoutesTest, AnAnswerTellsWhatItsLinkMayDo) {
  for (const Role role :
       {Role::kViewer, Role::kOperator, Role::kFaultInjector}) {
    const Response response =
        routes_.Answer(Right({"GET", "/api/v1/stream", role}));
    EXPECT_THAT(response.headers,
                Contains(Pair("Carillon-Role", std::string(ToText(role)))));
  }
}

TEST_F(RoutesTest, AFolderOfThePageIsReadAtEachRequest) {
  const TempDirectory folder;
  const Routes routes(&access_, &view_, folder.path());
  const Response missing = routes.Answer(Get("/app.js"));
  EXPECT_EQ(missing.status, 500);
  EXPECT_THAT(BodyOf(missing), HasSubstr(folder.path() + "/app.js"));
  for (const std::string text : {"let a;", "let b;"}) {
    std::ofstream(folder.path() + "/app.js") << text;
    const Response response = routes.Answer(Get("/app.js"));
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(BodyOf(response), text);
    EXPECT_THAT(response.headers, IsEmpty()) << "it is not gzipped";
  }
  // Only the page's files, whatever else is in there.
  std::ofstream(folder.path() + "/secret") << "x";
  EXPECT_EQ(routes.Answer(Get("/secret")).status, 404);
  EXPECT_EQ(routes.Answer(Get("/../etc/passwd")).status, 404);
}

}  // namespace
}  // namespace carillon::dashboard
