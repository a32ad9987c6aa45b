// A recorder's file with any bytes in it: read, or refused with a sentence.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "base/testing/fuzz_input.h"
#include "base/unique_fd.h"
#include "shm/recorder/flight_recorder.h"

namespace carillon::shm {
namespace {

// One file for all inputs, in memory where there is a folder for that.
struct File {
  File() {
    char name[] = "/dev/shm/carillon-fuzz-XXXXXX";
    fd.reset(mkstemp(name));
    FUZZ_CHECK(fd.get() >= 0);
    path = name;
  }
  ~File() { unlink(path.c_str()); }

  UniqueFd fd;
  std::string path;
};

void Run(std::string_view bytes) {
  static File file;
  FUZZ_CHECK(ftruncate(file.fd.get(), 0) == 0);
  FUZZ_CHECK(pwrite(file.fd.get(), bytes.data(), bytes.size(), 0) ==
             static_cast<ssize_t>(bytes.size()));
  const auto recording = ReadFlightRecording(file.path);
  if (!recording.ok()) {
    FUZZ_CHECK(recording.status().code() ==
               absl::StatusCode::kFailedPrecondition);
    FUZZ_CHECK(recording.status().message().find(file.path) !=
               std::string_view::npos);
    return;
  }
  FUZZ_CHECK(!recording->running);
  FUZZ_CHECK(!recording->name.empty());
  FUZZ_CHECK(recording->written == recording->overwritten + recording->torn +
                                       recording->records.size());
  for (const FlightRecord& record : recording->records) {
    FUZZ_CHECK(record.time_ns != 0 && record.step != Step::kNone);
    FUZZ_CHECK(StepName(record.step) != "unknown");
  }
  FUZZ_CHECK(recording->ring_names.size() <= FlightRecorder::kRingNames);
  for (const auto& [ring, name] : recording->ring_names) {
    FUZZ_CHECK(ring.second != 0);
    for (const std::string& text : {name.device, name.kernel, name.label}) {
      FUZZ_CHECK(std::ranges::none_of(text, absl::ascii_iscntrl));
    }
  }
}

}  // namespace
}  // namespace carillon::shm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::shm::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
