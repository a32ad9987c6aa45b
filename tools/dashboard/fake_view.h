// A testbed that tells what was asked of it.
#ifndef CARILLON_TOOLS_DASHBOARD_FAKE_VIEW_H_
#define CARILLON_TOOLS_DASHBOARD_FAKE_VIEW_H_

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "tools/dashboard/view.h"

namespace carillon::dashboard {

class FakeView : public View {
 public:
  // What was changed, one line each: "policy priority".
  std::vector<std::string> changes() const {
    const std::lock_guard lock(mutex_);
    return changes_;
  }
  // The next picture.
  void Show(const std::string& json) {
    const std::lock_guard lock(mutex_);
    newest_ = {newest_.number + 1, std::make_shared<std::string>(json)};
  }
  // What POSTs end with.
  void set_status(absl::Status status) { status_ = std::move(status); }
  // Called before logs are given: they may wait.
  void set_before_logs(std::function<void()> call) {
    before_logs_ = std::move(call);
  }
  // A line of a log.
  void set_line(std::string line) { line_ = std::move(line); }
  // All of a trace.
  void set_trace(std::string trace) { trace_ = std::move(trace); }

  Picture Newest() const override {
    const std::lock_guard lock(mutex_);
    return newest_;
  }
  std::vector<SharedText> History(uint64_t seconds) const override {
    return {
        std::make_shared<std::string>(fmt::format("{{\"s\": {}}}", seconds)),
        std::make_shared<std::string>("{}")};
  }
  Json Logs(size_t lines) override {
    if (before_logs_) before_logs_();
    return {{"asked", lines}, {"line", line_}};
  }
  absl::StatusOr<Json> Faults() override { return Json::object(); }
  absl::StatusOr<Json> Story() override { return Json{{"verdict", "ok"}}; }
  absl::StatusOr<SharedFile> Trace(uint64_t seconds) override {
    const std::string text =
        trace_.empty() ? fmt::format("trace of {} s", seconds) : trace_;
    auto file = std::make_shared<OpenFile>();
    file->fd.reset(memfd_create("trace", MFD_CLOEXEC));
    file->bytes = text.size();
    if (write(file->fd.get(), text.data(), text.size()) !=
        static_cast<ssize_t>(text.size())) {
      return absl::InternalError("no memory for a trace");
    }
    return file;
  }
  std::string Metrics() override { return "carillon_test 1\n"; }

  absl::StatusOr<Json> Inject(const faults::Fault& fault) override {
    return Change(fmt::format("inject {} {} {} nth {}", fault.name,
                              fault.process, faults::ActionName(fault.action),
                              fault.nth));
  }
  absl::StatusOr<Json> Clear(const std::string& fault) override {
    return Change("clear " + fault);
  }
  absl::StatusOr<Json> SetPolicy(const std::string& policy) override {
    return Change("policy " + policy);
  }
  absl::StatusOr<Json> SetTracing(bool on) override {
    return Change(on ? "tracing on" : "tracing off");
  }
  absl::StatusOr<Json> Restart(const std::string& process, bool kill) override {
    return Change("restart " + process + (kill ? " kill" : ""));
  }

 private:
  absl::StatusOr<Json> Change(std::string change) {
    const std::lock_guard lock(mutex_);
    changes_.push_back(std::move(change));
    if (!status_.ok()) return status_;
    return Json{{"done", true}};
  }

  mutable std::mutex mutex_;
  std::vector<std::string> changes_;
  Picture newest_{1, std::make_shared<std::string>("{\"n\":1}")};
  absl::Status status_;
  std::string line_;
  std::string trace_;
  std::function<void()> before_logs_;
};

}  // namespace carillon::dashboard

#endif  // CARILLON_TOOLS_DASHBOARD_FAKE_VIEW_H_
