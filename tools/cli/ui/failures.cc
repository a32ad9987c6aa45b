#include "tools/cli/ui/failures.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/ui/exit_code.h"

namespace carillon::cli {

Json ErrorToJson(const absl::Status& status) {
  return {{"code", ExitCodeName(ExitCodeOf(status))},
          {"message", status.message()},
          {"hint", HintOf(status)}};
}

void Failures::Add(const std::string& name, const absl::Status& status) {
  if (!status.ok()) failures_.emplace_back(name, status);
}

absl::Status Failures::Status() const {
  if (failures_.empty()) return absl::OkStatus();
  if (failures_.size() == 1) return failures_[0].second;
  std::vector<std::string> names;
  for (const auto& [name, status] : failures_) names.push_back(Quote(name));
  return absl::Status(failures_[0].second.code(),
                      fmt::format("{} testbeds gave trouble: {}", names.size(),
                                  JoinWords(names)));
}

void Failures::Say(Console& console) const {
  if (failures_.size() < 2) return;
  for (const auto& [name, status] : failures_) {
    console.Say(fmt::format("{}: {}", Quote(name), status.message()));
    if (const std::string hint = HintOf(status); !hint.empty()) {
      console.Say(fmt::format("  hint: {}", hint));
    }
  }
}

void Failures::AddTo(Json& document) const {
  Json list = Json::array();
  for (const auto& [name, status] : failures_) {
    Json failure = {{"testbed", name}};
    failure.update(ErrorToJson(status));
    list.push_back(std::move(failure));
  }
  document["failed"] = std::move(list);
  if (!failures_.empty()) document["error"] = ErrorToJson(Status());
}

}  // namespace carillon::cli
