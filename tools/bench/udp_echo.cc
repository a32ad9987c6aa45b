// Returns every datagram unchanged, up to 64 per system call: the upper bound
// of a server over UDP sockets. memc_load --echo drives it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: udp_echo PORT (serves on 127.0.0.1)\n");
    return 2;
  }
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::atoi(argv[1])));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    std::perror("bind");
    return 1;
  }
  constexpr unsigned kBatch = 64;
  static std::array<std::array<char, 2048>, kBatch> buffers;
  std::array<sockaddr_in, kBatch> peers;
  std::array<iovec, kBatch> parts;
  std::array<mmsghdr, kBatch> messages{};
  while (true) {
    for (unsigned i = 0; i < kBatch; ++i) {
      parts[i] = {buffers[i].data(), buffers[i].size()};
      messages[i].msg_hdr = {
          &peers[i], sizeof(peers[i]), &parts[i], 1, nullptr, 0, 0};
    }
    const int received =
        recvmmsg(fd, messages.data(), kBatch, MSG_WAITFORONE, nullptr);
    if (received <= 0) continue;
    for (int i = 0; i < received; ++i) parts[i].iov_len = messages[i].msg_len;
    for (int sent = 0; sent < received;) {
      const int n =
          sendmmsg(fd, messages.data() + sent, unsigned(received - sent), 0);
      sent += n > 0 ? n : 1;
    }
  }
}
