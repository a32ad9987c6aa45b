// A client's dialogue with the memcached kernels, byte for byte.
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_DIALOGUE_H_
#define CARILLON_KERNELS_MEMCACHED_MEMC_DIALOGUE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "kernels/memcached/memc_test_util.h"

namespace carillon::kernels {

// Sends requests and checks replies in turn, over a stream, all through
// memc_set.
class Dialogue {
 public:
  Dialogue& operator()(const std::string& request, const std::string& reply) {
    ++line_;
    const Answer answer = server.Set(request);
    EXPECT_EQ(answer.Text(), reply) << "line " << line_ << ": " << request;
    EXPECT_EQ(answer.outcome, reply.empty() ? memcached::Outcome::kSilent
                                            : memcached::Outcome::kAnswered)
        << "line " << line_ << ": " << request;
    return *this;
  }
  Dialogue& Later(uint64_t seconds) {
    server.now_s += seconds;
    return *this;
  }

  MemcServer server;

 private:
  int line_ = 0;
};

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_DIALOGUE_H_
