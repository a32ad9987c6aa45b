// One GET at a time over UDP: window1_client PORT SECONDS spin|block. Prints
// requests a second, and how many answers were wrong and lost.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
static const char kAnswer[] = "VALUE key0123456789abc 0 2\r\nxx\r\nEND\r\n";
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}
int main(int c, char** v) {
  int port = atoi(v[1]);
  double secs = atof(v[2]);
  int spin = v[3][0] == 's';
  int s = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connect(s, (void*)&a, sizeof a);
  struct timeval tv = {.tv_sec = 1};
  setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
  char q[64] = "\0\1\0\0\0\1\0\0set key0123456789abc 0 0 2\r\nxx\r\n", r[2048];
  send(s, q, 8 + strlen(q + 8), 0);
  recv(s, r, sizeof r, 0);
  memcpy(q + 8, "get key0123456789abc\r\n", 23);
  size_t n = 8 + 22;
  long done = 0, bad = 0, lost = 0;
  double t0 = now(), t;
  do {
    for (int i = 0; i < 64; i++) {
      q[0] = done >> 8;
      q[1] = done;
      send(s, q, n, 0);
      ssize_t g;
      for (;;) {
        g = recv(s, r, sizeof r, spin ? MSG_DONTWAIT : 0);
        if (g < 0 && errno == EAGAIN && spin) continue;
        if (g < 0) {
          lost++;
          break;
        }
        if (r[0] == q[0] && r[1] == q[1]) break;
      }
      if (g != 8 + (ssize_t)strlen(kAnswer) ||
          memcmp(r + 8, kAnswer, strlen(kAnswer)) != 0) {
        bad++;
      }
      done++;
    }
    t = now();
  } while (t - t0 < secs);
  printf("%.1f %ld %ld\n", done / (t - t0), bad, lost);
}
