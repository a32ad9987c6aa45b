// The suffixes of an instruction's name while it is lowered.
#ifndef CARILLON_SIM_LOWER_SUFFIXES_H_
#define CARILLON_SIM_LOWER_SUFFIXES_H_

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sim/exec/semantics.h"
#include "sim/ptx/module.h"

namespace carillon::sim {

// Whoever understands a suffix takes it; a suffix that is left at the end is
// not supported.
class Suffixes {
 public:
  explicit Suffixes(const ptx::Instruction& instruction)
      : left_(instruction.suffixes) {}

  const std::vector<std::string_view>& left() const { return left_; }

  bool Take(std::string_view name) {
    const auto found = std::find(left_.begin(), left_.end(), name);
    if (found == left_.end()) return false;
    left_.erase(found);
    return true;
  }
  // Takes all suffixes with this prefix: hints to caches.
  void TakeAllThatBeginWith(std::string_view prefix) {
    std::erase_if(left_,
                  [&](std::string_view s) { return s.starts_with(prefix); });
  }
  // Takes the first suffix that is among the choices, and returns its value.
  template <class T>
  struct Choice {
    std::string_view name;
    T value;
  };
  template <class T>
  std::optional<T> TakeOneOf(std::initializer_list<Choice<T>> choices) {
    return TakeOneOf<T>(std::span(choices.begin(), choices.size()));
  }
  template <class T>
  std::optional<T> TakeOneOf(std::span<const Choice<T>> choices) {
    for (const std::string_view suffix : left_) {
      for (const Choice<T>& choice : choices) {
        if (choice.name != suffix) continue;
        Take(suffix);
        return choice.value;
      }
    }
    return std::nullopt;
  }
  std::optional<ptx::Type> TakeType() {
    for (const std::string_view suffix : left_) {
      if (const auto type = ptx::TypeNamed(suffix)) {
        Take(suffix);
        return type;
      }
    }
    return std::nullopt;
  }
  std::optional<Rounding> TakeRounding() {
    return TakeOneOf<Rounding>({{"rn", Rounding::kNearest},
                                {"rz", Rounding::kZero},
                                {"rm", Rounding::kDown},
                                {"rp", Rounding::kUp}});
  }

 private:
  std::vector<std::string_view> left_;
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_LOWER_SUFFIXES_H_
