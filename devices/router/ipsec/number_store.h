// Remembers in a file up to which sequence number each key has been used, so
// that neither a restart nor a crash lets a number be used twice. With AES-GCM
// the number is the IV, and an IV used twice gives the plaintexts away.
//
// The rule: a packet leaves, and a packet that came is passed on, only when the
// file says that its key's limit is at least the packet's number. Whoever begins
// anew begins behind the limit. After a crash an inbound SA is deaf until its
// peer's numbers have passed the limit: up to kMostAhead of them, which a slow peer
// takes hours to send.
#ifndef CARILLON_DEVICES_ROUTER_IPSEC_NUMBER_STORE_H_
#define CARILLON_DEVICES_ROUTER_IPSEC_NUMBER_STORE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/unique_fd.h"

namespace carillon::router {

// Not thread safe. Keys that are not in use any more stay in the file: they must
// not begin anew either.
class NumberStore {
 public:
  // Reads the file of numbers beside that of `tunnels` if it is there; a key that
  // is not in it is new, with limit 0. `keys`: fingerprints; an empty one has no
  // limit to be kept. The tunnels are this process's alone for as long as the
  // store lives, whatever links lead to them. Errors: those of the files;
  // InvalidArgument (the numbers are damaged), AlreadyExists (another process
  // has the tunnels and does not end).
  static absl::StatusOr<std::unique_ptr<NumberStore>> Open(
      const std::string& tunnels, std::vector<std::string> keys);

  uint32_t limit(size_t key) const { return limits_[key]; }

  // Sees to it that limit(key) >= number: the file has it, on the disk, when this
  // returns. Goes some way further, the further the faster numbers pass, so that
  // it has to be written about once a second; more often above kMostAhead numbers
  // a second. Errors: those of the file; then nothing has changed, and no packet
  // with that number may pass.
  absl::Status Cover(size_t key, uint32_t number) {
    if (number <= limits_[key]) return absl::OkStatus();
    return Extend(key, number);
  }

  // At an end in order: lets limit(key) be exactly `number`, so that a successor
  // skips nothing. Requires that no number behind it has passed.
  absl::Status Settle(size_t key, uint32_t number);

  // How far Cover() goes at least and at most.
  static constexpr uint32_t kLeastAhead = 32;
  static constexpr uint32_t kMostAhead = 1 << 16;

 private:
  NumberStore(std::string path, std::vector<std::string> keys);
  absl::Status Lock(const std::string& tunnels);
  absl::Status Read();
  absl::Status Extend(size_t key, uint32_t number);
  absl::Status Write(size_t key, uint32_t limit);

  const std::string path_;
  const std::vector<std::string> keys_;
  UniqueFd tunnels_lock_;
  UniqueFd lock_;
  std::map<std::string, uint32_t> file_;  // what it has
  std::vector<uint32_t> limits_;          // by key
  std::vector<uint32_t> ahead_;           // the same
  std::vector<Nanoseconds> extended_;     // when; the same
};

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_IPSEC_NUMBER_STORE_H_
