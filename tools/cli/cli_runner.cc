#include "tools/cli/cli_runner.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>

namespace carillon::cli {
namespace {

constexpr char kProgram[] = "tools/cli/carillon";

std::string Contents(FILE* file) {
  std::string text;
  char bytes[4096];
  off_t at = 0;
  for (ssize_t got; (got = pread(fileno(file), bytes, sizeof(bytes), at)) > 0;
       at += got) {
    text.append(bytes, got);
  }
  return text;
}

}  // namespace

CliRun::CliRun(const std::vector<std::string>& arguments, int in)
    : out_(std::tmpfile()), err_(std::tmpfile()) {
  SpawnOptions options{
      .argv = {kProgram}, .in = in, .out = fileno(out_), .err = fileno(err_)};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  if (auto process = Subprocess::Start(options); process.ok()) {
    process_.emplace(*std::move(process));
  }
}

CliRun::~CliRun() {
  std::fclose(out_);
  std::fclose(err_);
}

std::string CliRun::err() const { return Contents(err_); }

CliResult CliRun::Wait(int limit_s) {
  CliResult result;
  if (!process_) return result;
  if (!process_->AwaitEnd(std::chrono::seconds(limit_s))) {
    process_->Signal(SIGKILL);
  }
  result.code = process_->Reap().ShellCode();
  result.out = Contents(out_);
  result.err = Contents(err_);
  return result;
}

}  // namespace carillon::cli
