// The output of a bench: a document (JSON), and tables for people.
#ifndef CARILLON_TOOLS_BENCH_REPORT_H_
#define CARILLON_TOOLS_BENCH_REPORT_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/bench/session.h"
#include "tools/bench/stats.h"

namespace carillon::bench {

// A number, and what the project expects of it. Others may share the machine,
// so the number is shown but is never a test's verdict.
struct Figure {
  std::string name;  // null_event_over_ring_p50
  std::string what;  // one line for people
  std::string unit;  // "x", "M/s", "% of a core"
  Range value;
  // The expectation, if there is one: at most (or at least) `target`.
  enum class Wish { kNone, kAtMost, kAtLeast };
  Wish wish = Wish::kNone;
  double target = 0;

  bool met() const;
};

// Three significant digits.
std::string Short(double value);
// The number at `path` of a result, times `scale`; nothing if it has none there.
std::string NumberText(const Json& result, const char* path, double scale,
                       const char* format);
// {median, low, high, runs}.
Json RangeToJson(const Range& range);

// One session: its contenders, its measurements, and their summaries.
class Part {
 public:
  Part(std::string name, std::vector<Contender> contenders,
       std::vector<Measurement> measurements)
      : name_(std::move(name)),
        contenders_(std::move(contenders)),
        measurements_(std::move(measurements)) {}

  const std::string& name() const { return name_; }
  const std::vector<Measurement>& measurements() const { return measurements_; }

  // The contender must exist.
  std::vector<RoundValues> Values(std::string_view contender,
                                  std::string_view path) const;
  Range Value(std::string_view contender, std::string_view path) const;
  // The PairRatios() of two contenders' values; none if they wait differently.
  Range Ratio(std::string_view of, std::string_view to,
              std::string_view path) const;

  // {"name", "contenders", "measurements", "summary": by contender}
  Json ToJson() const;
  // Round trips in us, rates in M/s; medians [lowest..highest] of the runs.
  // With `base`: the ratio of the round trips' medians to the base, in
  // interleaved pairs, of the contenders that wait as the base does.
  std::string Table(std::optional<std::string_view> base) const;

 private:
  size_t IndexOf(std::string_view contender) const;

  std::string name_;
  std::vector<Contender> contenders_;
  std::vector<Measurement> measurements_;
};

// Makes the whole document: what was measured, when, how and on which machine.
Json MakeDocument(std::string_view bench, const SessionOptions& options,
                  const std::vector<Part>& parts,
                  const std::vector<Figure>& figures);
std::string FigureTable(const std::vector<Figure>& figures);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_REPORT_H_
