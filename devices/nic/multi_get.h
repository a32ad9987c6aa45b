// A get of many keys over TCP, answered in pieces. A request must fit into a
// packet buffer and its reply into a reply buffer, but a get line may be
// longer.
#ifndef CARILLON_DEVICES_NIC_MULTI_GET_H_
#define CARILLON_DEVICES_NIC_MULTI_GET_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace carillon::nic {

// A position in the line of a get, gets, gat or gats. Not thread safe.
class MultiGet {
 public:
  // `line` is a whole line with its end. Nothing if it is another command, has
  // no key, or has a key that no kernel would accept: then the line is answered
  // as a whole.
  static std::optional<MultiGet> Parse(std::string_view line);

  // The next piece: "get k1 k2 ...\r
  // ", at most `max_bytes` long (which must leave room for a line with one
  // key). Empty if all keys were asked for.
  std::string Next(size_t max_bytes);
  // The reply to the last piece did not fit. The next piece begins at the same
  // key and has at most half as many. Returns false if it had only one.
  bool Halve();
  bool done() const { return at_ >= keys_.size(); }

  // The part of a piece's reply that goes to the client: only the last piece
  // keeps the END line. Sets `failed` if the reply is an error, which then
  // answers the whole request.
  std::string_view Trim(std::string_view reply, bool* failed) const;

 private:
  MultiGet(std::string start, std::string keys)
      : start_(std::move(start)), keys_(std::move(keys)) {}

  std::string start_;  // "get", "gets", "gat 0": what every piece begins with
  std::string keys_;   // separated by one space each
  size_t at_ = 0;      // where the next piece begins
  size_t last_ = 0;    // where the last piece began
  size_t last_keys_ = 0;
  size_t max_keys_ = SIZE_MAX;
};

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_MULTI_GET_H_
