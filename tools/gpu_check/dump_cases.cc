// Runs the cases of kernel_cases.h on this CPU, and writes them and their
// results as JSON, for kernel_oracles.py: dump_cases SEED FILE.
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/escaping.h"
#include "tools/gpu_check/kernel_cases.h"

namespace carillon::gpu_check {
namespace {

std::string Base64(std::span<const std::byte> bytes) {
  return absl::Base64Escape(
      {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string_view NameOf(Compare compare) {
  switch (compare) {
    case Compare::kNot:
      return "not";
    case Compare::kBytes:
      return "bytes";
    case Compare::kFloats:
      return "floats";
  }
  return "";
}

nlohmann::json RunAndDescribe(const Case& one) {
  struct Free {
    void operator()(std::byte* p) const {
      ::operator delete[](p, std::align_val_t(256));
    }
  };
  const uint64_t size = Arena::BytesFor(one);
  const std::unique_ptr<std::byte[], Free> memory(new (std::align_val_t(256))
                                                      std::byte[size]());
  const Arena arena(one, {memory.get(), size});
  nlohmann::json out{{"name", one.name}};
  for (const char* list :
       {"before", "compare", "launches", "statuses", "after"}) {
    out[list] = nlohmann::json::array();
  }
  for (const Buffer& buffer : one.buffers) {
    out["before"].push_back(Base64(buffer.initial));
    out["compare"].push_back(NameOf(buffer.compare));
  }
  for (const CaseLaunch& launch : one.launches) {
    arena.Feed(launch);
    nlohmann::json inputs = nlohmann::json::object();
    for (const auto& [index, bytes] : launch.inputs) {
      inputs[std::to_string(index)] = Base64(bytes);
    }
    out["launches"].push_back({{"kernel", launch.kmd.kernel->name},
                               {"buffers", launch.buffers},
                               {"numbers", launch.numbers},
                               {"inputs", inputs}});
    out["statuses"].push_back(RunOnCpu(launch, arena.Args(launch)));
  }
  for (size_t i = 0; i < one.buffers.size(); ++i) {
    out["after"].push_back(Base64(arena.buffer(i)));
  }
  return out;
}

}  // namespace
}  // namespace carillon::gpu_check

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  nlohmann::json cases = nlohmann::json::array();
  std::vector<std::string> missing;
  for (const auto& one : carillon::gpu_check::MakeCases(
           std::strtoull(argv[1], nullptr, 10), &missing)) {
    cases.push_back(carillon::gpu_check::RunAndDescribe(one));
  }
  std::ofstream file(argv[2]);
  file << cases;
  return file.flush() ? 0 : 1;
}
