// A file of used numbers, whatever its bytes, and numbers that pass then.
//
//   u8       how many numbers pass, 3 at most
//   each     u8: of which key; u32: the number; u8: bit 0: the end was in order
//   rest     the file
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/temp_directory.h"
#include "base/testing/fuzz_input.h"
#include "devices/router/ipsec/number_store.h"

namespace carillon::router {
namespace {

// In memory where there is such a folder: a number that passes waits for a disk.
TempDirectory MakeFolder() {
  auto folder = TempDirectory::Make("/dev/shm");
  return folder.ok() ? *std::move(folder) : TempDirectory();
}

void Run(fuzz::FuzzInput input) {
  static auto* const folder = new TempDirectory(MakeFolder());
  static const std::string tunnels = folder->path() + "/tunnels";
  static const std::string path = tunnels + ".numbers";
  struct Passing {
    size_t key;
    uint32_t number;
    bool in_order;
  };
  std::vector<Passing> passing(input.Take<uint8_t>() % 4);
  for (Passing& one : passing) {
    one.key = input.Take<uint8_t>() % 3;
    one.number = input.Take<uint32_t>();
    one.in_order = input.TakeBool();
  }
  const std::string text(input.TakeRest());
  std::ofstream(tunnels) << "tunnels\n";
  std::ofstream(path, std::ios::binary) << text;

  std::vector<std::string> keys = {std::string(40, '1'), std::string(40, '2'),
                                   std::string(40, 'a')};
  auto store = NumberStore::Open(tunnels, keys);
  if (!store.ok()) {
    const std::string message(store.status().message());
    FUZZ_CHECK(store.status().code() == absl::StatusCode::kInvalidArgument,
               "%s", message.c_str());
    FUZZ_CHECK(message.starts_with(path + ": "));
    return;
  }
  // Whatever the file has for other keys must stay.
  std::map<std::string, uint32_t> file;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key;
    uint64_t number = 0;
    if (line[0] == '#' || !(words >> key >> number)) continue;
    FUZZ_CHECK(key.size() == 40 && number <= 0xffffffff);
    FUZZ_CHECK(file.emplace(key, static_cast<uint32_t>(number)).second);
  }
  for (size_t key = 0; key < 3; ++key) {
    FUZZ_CHECK((*store)->limit(key) == file[keys[key]]);
  }
  std::vector<uint32_t> last(3, 0);
  for (const auto& [key, number, in_order] : passing) {
    const uint32_t before = (*store)->limit(key);
    FUZZ_CHECK((*store)->Cover(key, number).ok());
    FUZZ_CHECK((*store)->limit(key) >= std::max(before, number));
    if (number <= before) FUZZ_CHECK((*store)->limit(key) == before);
    last[key] = std::max(last[key], number);
    if (in_order) {
      FUZZ_CHECK((*store)->Settle(key, last[key]).ok());
      FUZZ_CHECK((*store)->limit(key) == last[key]);
    }
    file[keys[key]] = (*store)->limit(key);
  }
  // Whoever begins next finds all of it.
  store->reset();
  std::vector<std::string> all;
  for (const auto& [key, number] : file) all.push_back(key);
  const auto next = NumberStore::Open(tunnels, all);
  FUZZ_CHECK(next.ok(), "%s", std::string(next.status().message()).c_str());
  for (size_t i = 0; i < all.size(); ++i) {
    FUZZ_CHECK((*next)->limit(i) == file[all[i]], "key %s", all[i].c_str());
  }
}

}  // namespace
}  // namespace carillon::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::router::Run({data, size});
  return 0;
}
