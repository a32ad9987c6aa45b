#include "tools/cli/cli_runner.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.h"

extern char** environ;

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

CliRun::CliRun(const std::vector<std::string>& arguments)
    : out_(std::tmpfile()), err_(std::tmpfile()) {
  std::vector<std::string> words = arguments;
  words.insert(words.begin(), kProgram);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", 0, 0);
  posix_spawn_file_actions_adddup2(&files, fileno(out_), 1);
  posix_spawn_file_actions_adddup2(&files, fileno(err_), 2);
  if (posix_spawn(&pid_, kProgram, &files, nullptr, argv.data(), environ) !=
      0) {
    pid_ = 0;
  }
  posix_spawn_file_actions_destroy(&files);
}

CliRun::~CliRun() {
  if (pid_ > 0) Wait(0);
  std::fclose(out_);
  std::fclose(err_);
}

std::string CliRun::err() const { return Contents(err_); }

CliResult CliRun::Wait(int limit_s) {
  CliResult result;
  if (pid_ <= 0) return result;
  const UniqueFd pidfd(syscall(SYS_pidfd_open, pid_, 0));
  pollfd ended{pidfd.get(), POLLIN, 0};
  if (poll(&ended, 1, limit_s * 1000) != 1) kill(pid_, SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = 0;
  result.code =
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = Contents(out_);
  result.err = Contents(err_);
  return result;
}

}  // namespace carillon::cli
