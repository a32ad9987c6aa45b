#include "tools/dashboard/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/read_file.h"
#include "base/status.h"
#include "shm/faults/fault.h"
#include "tools/dashboard/page_files.h"
#include "tools/testbed/fault_plans/fields.h"

namespace carillon::dashboard {
namespace {

constexpr uint64_t kHistorySeconds = 600;
constexpr uint64_t kLogLines = 200;
constexpr uint64_t kMostLogLines = 2000;

std::string Dump(const Json& json) {
  // Log lines and notes may be any bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Response JsonText(const Json& json) {
  return Text(200, "application/json", Dump(json) + "\n");
}

int StatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
      return 409;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return 503;
    default:
      return 500;
  }
}

Response ToResponse(const absl::StatusOr<Json>& result) {
  if (result.ok()) return JsonText(*result);
  std::string message(result.status().message());
  if (const std::string hint = HintOf(result.status()); !hint.empty()) {
    message += "; " + hint;
  }
  Response response = Error(StatusOf(result.status()), message);
  if (absl::IsUnavailable(result.status())) {
    response.headers.emplace_back("Retry-After", "5");
  }
  return response;
}

// The number after "NAME=" in "a=1&b=2"; `otherwise` without one. Nothing: it
// is no number from 1 to `most`.
std::optional<uint64_t> NumberIn(std::string_view query, std::string_view name,
                                 uint64_t otherwise, uint64_t most) {
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), part.size() + 1));
    if (!part.starts_with(name) || part.substr(name.size(), 1) != "=") continue;
    const std::string_view digits = part.substr(name.size() + 1);
    uint64_t number = 0;
    const auto [end, error] =
        std::from_chars(digits.begin(), digits.end(), number);
    if (error != std::errc() || end != digits.end() || number == 0 ||
        number > most) {
      return std::nullopt;
    }
    return number;
  }
  return otherwise;
}

// A JSON object of the fields that a POST may have. Errors: InvalidArgument.
absl::StatusOr<Json> ReadBody(const Request& request) {
  Json json = Json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError("the body must be a JSON object");
  }
  return json;
}

absl::Status CheckKeys(const Json& json,
                       std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(known, key) == known.end()) {
      return absl::InvalidArgumentError(fmt::format("unknown key '{}'", key));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> TextIn(const Json& json, const char* key,
                                   bool required) {
  const auto found = json.find(key);
  if (found == json.end()) {
    if (!required) return "";
    return absl::InvalidArgumentError(fmt::format("{} is missing", key));
  }
  if (!found->is_string() || (required && found->get<std::string>().empty())) {
    return absl::InvalidArgumentError(fmt::format("{} must be a text", key));
  }
  return found->get<std::string>();
}

absl::StatusOr<bool> BooleanIn(const Json& json, const char* key,
                               bool required) {
  const auto found = json.find(key);
  if (found == json.end() && !required) return false;
  if (found == json.end() || !found->is_boolean()) {
    return absl::InvalidArgumentError(
        fmt::format("{} must be true or false", key));
  }
  return found->get<bool>();
}

// {"process": "nic0", "action": "kill", "name": "nic-dies", and the fields of
// `carillon fault inject`, as texts: "point": "device.ring", "nth": "3"}
absl::StatusOr<faults::Fault> ReadFault(const Json& json) {
  faults::Fault fault;
  ASSIGN_OR_RETURN(fault.name, TextIn(json, "name", /*required=*/true));
  ASSIGN_OR_RETURN(const auto action,
                   TextIn(json, "action", /*required=*/true));
  ASSIGN_OR_RETURN(fault.action, fault::ReadAction(action));
  ASSIGN_OR_RETURN(fault.process, TextIn(json, "process", /*required=*/true));
  for (const auto& [key, value] : json.items()) {
    if (key == "name" || key == "action" || key == "process") continue;
    const auto fields = fault::Fields();
    const auto field = std::ranges::find(fields, key, &fault::Field::name);
    if (field == fields.end() || !value.is_string()) {
      return absl::InvalidArgumentError(fmt::format(
          "'{}' is no field of a fault, or its value no text", key));
    }
    if (field->part == fault::FieldSection::kDo &&
        !fault::TakesField(fault.action, field->name)) {
      return absl::InvalidArgumentError(fmt::format(
          "{} does not take {}", faults::ActionName(fault.action), key));
    }
    RETURN_IF_ERROR(field->set(value.get<std::string>(), fault));
  }
  fault.seed = fault::SeedOf(0, fault.name);
  RETURN_IF_ERROR(faults::Check(fault));
  return fault;
}

using Get = Response (*)(const Request& request, std::string_view query,
                         View& view);
using Act = absl::StatusOr<Json> (*)(const Json& body, View& view);

Response ServeState(const Request&, std::string_view, View& view) {
  const Picture picture = view.Newest();
  if (picture.json == nullptr) return Error(503, "there is no picture yet");
  return Response{.parts = {picture.json}};
}

Response ServeStream(const Request&, std::string_view, View&) {
  return Response{.content_type = "text/event-stream", .stream = true};
}

Response ServeHistory(const Request&, std::string_view query, View& view) {
  const auto seconds =
      NumberIn(query, "last", kHistorySeconds, kHistorySeconds);
  if (!seconds) {
    return Error(400, fmt::format("last must be a number of seconds, 1 to {}",
                                  kHistorySeconds));
  }
  static const auto* const begin =
      new SharedText(std::make_shared<std::string>("{\"pictures\": ["));
  static const auto* const comma =
      new SharedText(std::make_shared<std::string>(",\n"));
  static const auto* const end =
      new SharedText(std::make_shared<std::string>("]}\n"));
  Response response{.parts = {*begin}};
  for (SharedText& picture : view.History(*seconds)) {
    if (response.parts.size() > 1) response.parts.push_back(*comma);
    response.parts.push_back(std::move(picture));
  }
  response.parts.push_back(*end);
  return response;
}

Response ServeLogs(const Request&, std::string_view query, View& view) {
  const auto lines = NumberIn(query, "lines", kLogLines, kMostLogLines);
  if (!lines) {
    return Error(400,
                 fmt::format("lines must be a number, 1 to {}", kMostLogLines));
  }
  return JsonText(view.Logs(*lines));
}

Response ServeFaults(const Request&, std::string_view, View& view) {
  return ToResponse(view.Faults());
}

// Where faults can strike and what they can do there, as `fault points` has it.
Response ServePoints(const Request&, std::string_view, View&) {
  Json points = Json::array();
  for (const faults::PointInfo& info : faults::Points()) {
    if (info.point == faults::Point::kNone) continue;
    Json actions = Json::array();
    for (size_t i = 0; i < faults::kActions; ++i) {
      if (faults::Allows(info.point, faults::Action(i))) {
        actions.push_back(faults::ActionName(faults::Action(i)));
      }
    }
    points.push_back({{"point", info.name},
                      {"summary", info.summary},
                      {"actions", std::move(actions)}});
  }
  return JsonText({{"points", std::move(points)}});
}

Response ServeStory(const Request&, std::string_view, View& view) {
  return ToResponse(view.Story());
}

Response ServeTrace(const Request&, std::string_view query, View& view) {
  const auto seconds =
      NumberIn(query, "last", kHistorySeconds, kHistorySeconds);
  if (!seconds) {
    return Error(400, fmt::format("last must be a number of seconds, 1 to {}",
                                  kHistorySeconds));
  }
  auto trace = view.Trace(*seconds);
  if (!trace.ok()) return ToResponse(trace.status());
  Response response{.content_type = "application/octet-stream",
                    .file = *std::move(trace)};
  response.headers.emplace_back("Content-Disposition",
                                "attachment; filename=\"carillon.pftrace\"");
  return response;
}

Response ServeMetrics(const Request&, std::string_view, View& view) {
  return Text(200, "text/plain; version=0.0.4; charset=utf-8", view.Metrics());
}

absl::StatusOr<Json> Inject(const Json& body, View& view) {
  ASSIGN_OR_RETURN(const auto fault, ReadFault(body));
  return view.Inject(fault);
}

absl::StatusOr<Json> Clear(const Json& body, View& view) {
  RETURN_IF_ERROR(CheckKeys(body, {"name"}));
  ASSIGN_OR_RETURN(const auto name, TextIn(body, "name", /*required=*/false));
  return view.Clear(name);
}

absl::StatusOr<Json> SetPolicy(const Json& body, View& view) {
  RETURN_IF_ERROR(CheckKeys(body, {"policy"}));
  ASSIGN_OR_RETURN(const auto policy,
                   TextIn(body, "policy", /*required=*/true));
  return view.SetPolicy(policy);
}

absl::StatusOr<Json> SetTracing(const Json& body, View& view) {
  RETURN_IF_ERROR(CheckKeys(body, {"on"}));
  ASSIGN_OR_RETURN(const bool on, BooleanIn(body, "on", /*required=*/true));
  return view.SetTracing(on);
}

absl::StatusOr<Json> Restart(const Json& body, View& view) {
  RETURN_IF_ERROR(CheckKeys(body, {"process", "kill"}));
  ASSIGN_OR_RETURN(const auto process,
                   TextIn(body, "process", /*required=*/true));
  ASSIGN_OR_RETURN(const bool kill,
                   BooleanIn(body, "kill", /*required=*/false));
  return view.Restart(process, kill);
}

struct Route {
  RouteInfo info;
  Get serve = nullptr;  // GET
  Act act = nullptr;    // POST
};

constexpr Route kRoutes[] = {
    {{"GET", "/api/v1/state", Role::kViewer}, ServeState},
    {{"GET", "/api/v1/stream", Role::kViewer}, ServeStream},
    {{"GET", "/api/v1/history", Role::kViewer}, ServeHistory},
    {{"GET", "/api/v1/logs", Role::kViewer}, ServeLogs},
    {{"GET", "/api/v1/faults", Role::kViewer}, ServeFaults},
    {{"GET", "/api/v1/points", Role::kViewer}, ServePoints},
    {{"GET", "/api/v1/story", Role::kViewer}, ServeStory},
    {{"GET", "/api/v1/trace.pftrace", Role::kViewer}, ServeTrace},
    {{"GET", "/metrics", Role::kViewer}, ServeMetrics},
    {{"POST", "/api/v1/faults", Role::kFaultInjector}, nullptr, Inject},
    {{"POST", "/api/v1/faults/clear", Role::kFaultInjector}, nullptr, Clear},
    {{"POST", "/api/v1/policy", Role::kOperator}, nullptr, SetPolicy},
    {{"POST", "/api/v1/tracing", Role::kOperator}, nullptr, SetTracing},
    {{"POST", "/api/v1/restart", Role::kOperator}, nullptr, Restart},
};

Response ServeFile(const PageFile& file, const std::string& folder) {
  if (!folder.empty()) {
    const std::string_view name = file.path == "/" ? "/index.html" : file.path;
    const auto text =
        ReadFile(fmt::format("{}{}", folder, name), "page's file");
    if (!text.ok()) return Error(500, std::string(text.status().message()));
    return Text(200, file.content_type, *text);
  }
  Response response = Text(200, file.content_type,
                           {reinterpret_cast<const char*>(file.gzipped.data()),
                            file.gzipped.size()});
  response.headers.emplace_back("Content-Encoding", "gzip");
  return response;
}

bool IsJson(const Request& request) {
  if (request.content_types.size() != 1) return false;
  const std::string_view type = request.content_types[0];
  return type.substr(0, type.find(';')) == "application/json";
}

Response Serve(const Route& route, const Request& request,
               std::string_view query, View& view) {
  if (route.serve != nullptr) return route.serve(request, query, view);
  if (!IsJson(request)) {
    return Error(415, "Content-Type must be application/json");
  }
  const absl::StatusOr<Json> body = ReadBody(request);
  return ToResponse(body.ok() ? route.act(*body, view) : body.status());
}

}  // namespace

std::span<const RouteInfo> Routes::All() {
  static const auto* const all = [] {
    auto* const infos = new std::vector<RouteInfo>;
    for (const PageFile& file : PageFiles()) {
      infos->push_back({"GET", file.path, std::nullopt});
    }
    for (const Route& route : kRoutes) infos->push_back(route.info);
    return infos;
  }();
  return *all;
}

Response Routes::Answer(const Request& request) const {
  if (auto refusal = access_->CheckOrigin(request)) return *std::move(refusal);
  const std::string_view target = request.target;
  const std::string_view path = target.substr(0, target.find('?'));
  const std::string_view query =
      target.substr(std::min(target.size(), path.size() + 1));

  std::string allowed;
  for (const PageFile& file : PageFiles()) {
    if (file.path != path) continue;
    if (request.method == "GET") return ServeFile(file, page_);
    allowed = "GET";
  }
  for (const Route& route : kRoutes) {
    if (route.info.path != path) continue;
    if (route.info.method != request.method) {
      if (!allowed.empty()) allowed += ", ";
      allowed += route.info.method;
      continue;
    }
    if (auto refusal = access_->CheckRole(request, *route.info.role)) {
      return *std::move(refusal);
    }
    Response response = Serve(route, request, query, *view_);
    response.trusted = true;
    // So that the page offers what this link may do, and nothing else.
    response.headers.emplace_back("Carillon-Role",
                                  ToText(*access_->RoleOfToken(request)));
    return response;
  }
  if (allowed.empty()) return Error(404, "there is no such page");
  Response response = Error(405, fmt::format("this takes {}", allowed));
  response.headers.emplace_back("Allow", allowed);
  return response;
}

}  // namespace carillon::dashboard
