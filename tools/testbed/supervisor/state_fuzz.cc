// Any bytes as state.json: they are refused with the file's name, or give a
// state that is the same after it is written and read again.
#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/testing/fuzz_input.h"
#include "base/unique_fd.h"
#include "tools/testbed/supervisor/state.h"

namespace carillon::testbed {
namespace {

struct File {
  File() {
    char name[] = "/dev/shm/carillon-fuzz-XXXXXX";
    fd.reset(mkstemp(name));
    FUZZ_CHECK(fd.get() >= 0);
    path = name;
  }
  ~File() {
    unlink(path.c_str());
    unlink((path + "2").c_str());
  }
  UniqueFd fd;
  std::string path;
};

void Run(std::string_view bytes) {
  static File file;
  FUZZ_CHECK(ftruncate(file.fd.get(), 0) == 0);
  FUZZ_CHECK(pwrite(file.fd.get(), bytes.data(), bytes.size(), 0) ==
             static_cast<ssize_t>(bytes.size()));
  const auto state = ReadState(file.path);
  if (!state.ok()) {
    FUZZ_CHECK(state.status().code() == absl::StatusCode::kFailedPrecondition);
    FUZZ_CHECK(state.status().message().find(file.path) !=
               std::string_view::npos);
    return;
  }
  FUZZ_CHECK(WriteState(file.path + "2", *state).ok());
  const auto again = ReadState(file.path + "2");
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(ToJson(*again) == ToJson(*state));
}

}  // namespace
}  // namespace carillon::testbed

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::testbed::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
