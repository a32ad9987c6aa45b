#include "base/send_messages.h"

#include <poll.h>

#include <cerrno>

namespace carillon {

SendCounts SendMessages(int socket, std::span<mmsghdr> messages,
                        int* attempts) {
  constexpr int kWaitMs = 1;
  SendCounts counts;
  while (!messages.empty()) {
    const int sent =
        sendmmsg(socket, messages.data(),
                 static_cast<unsigned int>(messages.size()), MSG_DONTWAIT);
    if (sent > 0) {
      counts.sent += static_cast<uint64_t>(sent);
      messages = messages.subspan(static_cast<size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if ((errno == EAGAIN || errno == ENOBUFS) && *attempts > 0) {
      --*attempts;
      pollfd room = {socket, POLLOUT, 0};
      poll(&room, 1, kWaitMs);
      continue;
    }
    ++counts.failed;
    messages = messages.subspan(1);
  }
  return counts;
}

}  // namespace carillon
