// Sends a burst of datagrams or frames without waiting for long.
#ifndef CARILLON_BASE_SEND_MESSAGES_H_
#define CARILLON_BASE_SEND_MESSAGES_H_

#include <sys/socket.h>

#include <cstdint>
#include <span>

namespace carillon {

struct SendCounts {
  uint64_t sent = 0;
  uint64_t failed = 0;  // the operating system did not take them
};

// Waits for room in the socket for a millisecond at a time, while `attempts` are
// left; leaves a message out that is refused for another reason, as those behind
// it may have better luck.
SendCounts SendMessages(int socket, std::span<mmsghdr> messages, int* attempts);

// What a caller begins with.
inline constexpr int kSendAttempts = 4;

}  // namespace carillon

#endif  // CARILLON_BASE_SEND_MESSAGES_H_
