// The number that a plan expects: "0", "> 0", "any".
#ifndef CARILLON_TOOLS_TESTBED_FAULT_PLANS_COMPARISON_H_
#define CARILLON_TOOLS_TESTBED_FAULT_PLANS_COMPARISON_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace carillon::fault {

class Comparison {
 public:
  enum class Kind { kAny, kEqual, kNotEqual, kLess, kAtMost, kMore, kAtLeast };

  Comparison() = default;  // any
  Comparison(Kind kind, uint64_t number) : kind_(kind), number_(number) {}

  // Reads "any", "3", "= 3", "!= 3", "< 3", "<= 3", "> 3", ">= 3". Errors:
  // InvalidArgument.
  static absl::StatusOr<Comparison> Parse(std::string_view text);

  bool Holds(uint64_t number) const;
  std::string ToString() const;  // what Parse() makes the same of
  bool is_any() const { return kind_ == Kind::kAny; }

  bool operator==(const Comparison&) const = default;

 private:
  Kind kind_ = Kind::kAny;
  uint64_t number_ = 0;
};

inline Comparison Exactly(uint64_t number) {
  return {Comparison::Kind::kEqual, number};
}
inline Comparison AtLeast(uint64_t number) {
  return {Comparison::Kind::kAtLeast, number};
}

}  // namespace carillon::fault

#endif  // CARILLON_TOOLS_TESTBED_FAULT_PLANS_COMPARISON_H_
