// main() of a fuzz target that no libFuzzer runs: the files that are named, and
// then a bounded number of mutations of them, the same ones every time.
//
//   X_fuzz [-runs=N] [-seed=N] [-max_len=BYTES] [-dict=FILE] [FILE | FOLDER]...
//
// An input that ends the process is left in $TEST_UNDECLARED_OUTPUTS_DIR or in
// the working folder, as crash-NUMBER: named on the command line, it runs again.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/testing/mutator.h"

extern "C" {
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int* argc, char*** argv);
// Under a sanitizer, which may end the process without a signal.
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());
}

namespace carillon::fuzz {
namespace {

// What runs at this moment. One thread writes it; whoever ends the process
// reads it.
struct Running {
  const uint8_t* data = nullptr;
  size_t size = 0;
  bool saved = false;
  char path[4096];
  char what[512];
};
Running running;

// Async-signal-safe.
void Save() {
  if (running.data == nullptr || running.saved) return;
  running.saved = true;
  const int fd =
      open(running.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  size_t done = 0;
  while (fd >= 0 && done < running.size) {
    const ssize_t wrote = write(fd, running.data + done, running.size - done);
    if (wrote <= 0) break;
    done += static_cast<size_t>(wrote);
  }
  const auto say = [](const char* text) {
    (void)!write(STDERR_FILENO, text, strlen(text));
  };
  say("the input that did it (");
  say(running.what);
  say(done == running.size ? ") is " : ") could not be written to ");
  say(running.path);
  say("\n");
}

void OnSignal(int number) {
  Save();
  signal(number, SIG_DFL);
  raise(number);
}

void Run(const Bytes& input, const std::string& what) {
  // A copy of exactly that size: a sanitizer sees a read behind it.
  const Bytes copy = input;
  snprintf(running.what, sizeof(running.what), "%s", what.c_str());
  running.data = copy.data();
  running.size = copy.size();
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
  running.data = nullptr;
}

bool ReadFile(const std::filesystem::path& path, Bytes& bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    fprintf(stderr, "cannot read %s\n", path.c_str());
    return false;
  }
  bytes.assign(std::istreambuf_iterator<char>(file), {});
  return true;
}

int Main(int argc, char** argv) {
  uint64_t runs = 2000;
  uint64_t seed = 1;
  uint64_t max_bytes = 4096;
  std::vector<Bytes> words;
  std::vector<std::filesystem::path> files;
  const auto number = [](std::string_view text, std::string_view flag,
                         uint64_t& value) {
    if (!text.starts_with(flag)) return false;
    value = std::strtoull(text.data() + flag.size(), nullptr, 10);
    return true;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (number(word, "-runs=", runs) || number(word, "-seed=", seed) ||
        number(word, "-max_len=", max_bytes)) {
      continue;
    }
    if (word.starts_with("-dict=")) {
      Bytes text;
      std::string error;
      if (!ReadFile(word.substr(6), text)) return 1;
      words = ParseDictionary({text.begin(), text.end()}, &error);
      if (!error.empty()) {
        fprintf(stderr, "%s: %s\n", argv[i] + 6, error.c_str());
        return 1;
      }
    } else if (word.starts_with("-")) {
      // libFuzzer's own.
      fprintf(stderr, "%s: no such option of the bounded form\n", argv[i]);
      return 1;
    } else if (std::filesystem::is_directory(word)) {
      for (const auto& entry : std::filesystem::directory_iterator(word)) {
        if (entry.is_regular_file()) files.push_back(entry.path());
      }
    } else {
      files.emplace_back(word);
    }
  }
  if (files.empty()) {
    fputs("no inputs: name files or folders\n", stderr);
    return 1;
  }
  std::sort(files.begin(), files.end());

  const char* folder = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  snprintf(running.path, sizeof(running.path), "%s/crash-%d",
           folder != nullptr ? folder : ".", static_cast<int>(getpid()));
  for (const int fatal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM}) {
    signal(fatal, OnSignal);
  }
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(Save);
  }
  if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);

  std::vector<Bytes> corpus;
  for (const auto& file : files) {
    Bytes bytes;
    if (!ReadFile(file, bytes)) return 1;
    Run(bytes, file.string());
    corpus.push_back(std::move(bytes));
  }
  Mutator mutator(seed, std::move(corpus), std::move(words), max_bytes);
  for (uint64_t i = 1; i <= runs; ++i) {
    Run(mutator.Next(), "mutation " + std::to_string(i));
  }
  printf("%zu inputs and %llu mutations of them: nothing found\n", files.size(),
         static_cast<unsigned long long>(runs));
  return 0;
}

}  // namespace
}  // namespace carillon::fuzz

int main(int argc, char** argv) { return carillon::fuzz::Main(argc, argv); }
