#include "tools/bench/report.h"

#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "fmt/chrono.h"
#include "fmt/format.h"
#include "tools/cli/ui/table.h"

namespace carillon::bench {
namespace {

using cli::Align;

constexpr const char* kRoundTripP50 = "/round_trip_ns/p50";
constexpr const char* kRoundTripP90 = "/round_trip_ns/p90";
constexpr const char* kRoundTripP99 = "/round_trip_ns/p99";
constexpr const char* kPerSecond = "/pipelined/per_second";

std::string WithRange(const Range& range, double scale) {
  if (range.runs == 0) return "";
  return fmt::format("{} [{}..{}]", Short(range.median * scale),
                     Short(range.low * scale), Short(range.high * scale));
}

}  // namespace

std::string Short(double value) {
  return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 100 ? 1 : 0);
}

std::string NumberText(const Json& result, const char* path, double scale,
                       const char* format) {
  const Json::json_pointer pointer{std::string(path)};
  if (!result.contains(pointer)) return "";
  return fmt::format(fmt::runtime(format),
                     result[pointer].get<double>() * scale);
}

Json RangeToJson(const Range& range) {
  return {{"median", range.median},
          {"low", range.low},
          {"high", range.high},
          {"runs", range.runs}};
}

bool Figure::met() const {
  if (value.runs == 0) return false;
  return wish == Wish::kAtMost ? value.median <= target
                               : value.median >= target;
}

size_t Part::IndexOf(std::string_view contender) const {
  const auto found =
      std::ranges::find(contenders_, contender, &Contender::name);
  return static_cast<size_t>(found - contenders_.begin());
}

std::vector<RoundValues> Part::Values(std::string_view contender,
                                      std::string_view path) const {
  return ValuesOf(measurements_, IndexOf(contender), path);
}

Range Part::Value(std::string_view contender, std::string_view path) const {
  std::vector<double> all;
  for (const RoundValues& round : Values(contender, path)) {
    all.insert(all.end(), round.begin(), round.end());
  }
  return RangeOf(std::move(all));
}

Range Part::Ratio(std::string_view of, std::string_view to,
                  std::string_view path) const {
  if (contenders_[IndexOf(of)].job.wait != contenders_[IndexOf(to)].job.wait) {
    return {};
  }
  return RangeOf(PairRatios(Values(of, path), Values(to, path)));
}

Json Part::ToJson() const {
  Json contenders = Json::array();
  Json summary = Json::object();
  for (const Contender& contender : contenders_) {
    contenders.push_back(bench::ToJson(contender));
    Json& one = summary[contender.name];
    for (const auto& [key, path] :
         {std::pair("round_trip_p50_ns", kRoundTripP50),
          std::pair("round_trip_p90_ns", kRoundTripP90),
          std::pair("round_trip_p99_ns", kRoundTripP99),
          std::pair("per_second", kPerSecond)}) {
      const Range range = Value(contender.name, path);
      if (range.runs > 0) one[key] = RangeToJson(range);
    }
  }
  Json measurements = Json::array();
  for (const Measurement& measurement : measurements_) {
    measurements.push_back(bench::ToJson(measurement, contenders_));
  }
  return {{"name", name_},
          {"contenders", contenders},
          {"summary", summary},
          {"measurements", measurements}};
}

std::string Part::Table(std::optional<std::string_view> base) const {
  std::vector<cli::Column> columns = {{"", Align::kLeft},
                                      {"client", Align::kLeft},
                                      {"server", Align::kLeft},
                                      {"round trip p50, us", Align::kRight},
                                      {"p90", Align::kRight},
                                      {"p99", Align::kRight},
                                      {"pipelined, M/s", Align::kRight}};
  if (base) columns.push_back({fmt::format("p50 / {}", *base), Align::kRight});
  cli::Table table(std::move(columns));
  for (const Contender& contender : contenders_) {
    const auto us = [&](const char* path) {
      const Range range = Value(contender.name, path);
      return range.runs > 0 ? Short(range.median / 1000) : std::string();
    };
    std::vector<std::string> row = {
        contender.label,
        WaitText(contender.job.wait, kClientSpin),
        WaitText(contender.job.wait, kServerSpin),
        WithRange(Value(contender.name, kRoundTripP50), 1e-3),
        us(kRoundTripP90),
        us(kRoundTripP99),
        WithRange(Value(contender.name, kPerSecond), 1e-6)};
    if (base) {
      row.push_back(WithRange(Ratio(contender.name, *base, kRoundTripP50), 1));
    }
    table.AddRow(std::move(row));
  }
  return table.ToString(false);
}

Json MakeDocument(std::string_view bench, const SessionOptions& options,
                  const std::vector<Part>& parts,
                  const std::vector<Figure>& figures) {
  Json document = {{"bench", bench},
                   {"when", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                                        fmt::gmtime(time(nullptr)))},
                   {"machine", DescribeMachine()},
                   {"method",
                    {{"rounds", options.rounds},
                     {"order", "A B C C B A, every second round reversed"},
                     {"separate_processes", true},
                     {"pinned", false},
                     {"max_foreign_share", options.max_foreign},
                     {"attempts", options.attempts},
                     {"realtime_priority", options.realtime}}}};
  document["figures"] = Json::array();
  for (const Figure& figure : figures) {
    Json json = {{"name", figure.name},
                 {"what", figure.what},
                 {"unit", figure.unit},
                 {"value", RangeToJson(figure.value)}};
    if (figure.wish != Figure::Wish::kNone) {
      json["target"] = {
          {figure.wish == Figure::Wish::kAtMost ? "at_most" : "at_least",
           figure.target}};
      json["met"] = figure.met();
    }
    document["figures"].push_back(std::move(json));
  }
  document["parts"] = Json::array();
  for (const Part& part : parts) document["parts"].push_back(part.ToJson());
  return document;
}

std::string FigureTable(const std::vector<Figure>& figures) {
  cli::Table table({{"figure", Align::kLeft},
                    {"measured", Align::kRight},
                    {"target", Align::kRight},
                    {"", Align::kLeft}});
  for (const Figure& figure : figures) {
    std::string target;
    if (figure.wish != Figure::Wish::kNone) {
      target = fmt::format("{} {}",
                           figure.wish == Figure::Wish::kAtMost ? "<=" : ">=",
                           Short(figure.target));
    }
    table.AddRow({figure.what, WithRange(figure.value, 1) + " " + figure.unit,
                  target,
                  target.empty() ? ""
                  : figure.met() ? "met"
                                 : "not met"});
  }
  return table.ToString(false);
}

}  // namespace carillon::bench
