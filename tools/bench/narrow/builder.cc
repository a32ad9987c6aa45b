#include "tools/bench/narrow/builder.h"

#include <openssl/evp.h>

#include <array>
#include <iterator>

#include "kernels/ipsec/des.cuh"
#include "kernels/registry.h"

namespace carillon::bench {

using kernels::NarrowTask;

void NarrowWorkload::Builder::Add(const NarrowTask& task, uint32_t threads) {
  workload_.tasks_.push_back({.kernel = simt::FindKernel(task.kernel),
                              .threads = threads != 0 ? threads : task.threads,
                              .group = task.group,
                              .phase = task.phase});
  task_ = &task;
  unit_ = &workload_.tasks_.back();
  if (task.kernel == "mandelbrot") return Mandelbrot();
  if (task.kernel == "filter_bank") return FilterBank();
  if (task.kernel == "beam_fir" || task.kernel == "beam_form") return Beam();
  if (task.kernel == "conv_rows" || task.kernel == "conv_columns") {
    return Conv();
  }
  if (task.kernel == "dct8x8_shared") return Dct();
  if (task.kernel == "matmul_shared") return Matmul();
  if (task.kernel == "triple_des") return TripleDes();
  Slud();
}

void NarrowWorkload::Builder::TripleDes() {
  constexpr uint32_t kLongest = 65'536;
  std::array<uint8_t, kernels::des::kKeyBytes> key;
  for (size_t i = 0; i < key.size(); ++i) {
    key[i] = static_cast<uint8_t>(37 * i + 11);
  }
  std::vector<uint32_t> words;
  const uint64_t keys = Shared("keys", &words, [&] {
    const auto rounds = kernels::des::EncryptKeys(key.data());
    return std::vector<uint32_t>(std::begin(rounds.words),
                                 std::end(rounds.words));
  });
  auto& packet = packets_[variant()];
  while (packet.size() < kLongest) {
    packet.push_back(static_cast<uint8_t>(random_()));
  }
  const uint32_t bytes = task_->width;
  const uint64_t from =
      Store(std::vector<uint8_t>(packet.begin(), packet.begin() + bytes));
  const uint64_t out = Allocate(bytes);
  Buffer("keys", keys, words.size() * sizeof(uint32_t));
  Buffer("packet", from, bytes);
  Buffer("out", out, bytes);
  Value("bytes", bytes);
  unit_->in = {from, bytes};
  unit_->out = {out, bytes};
  Expect<uint8_t>(fmt::format("3des {}", bytes), out, 0, [&] {
    std::vector<uint8_t> want(bytes);
    int length = 0;
    EVP_CIPHER_CTX* const context = EVP_CIPHER_CTX_new();
    EVP_EncryptInit_ex(context, EVP_des_ede3_ecb(), nullptr, key.data(),
                       nullptr);
    EVP_EncryptUpdate(context, want.data(), &length, packet.data(),
                      static_cast<int>(bytes));
    EVP_CIPHER_CTX_free(context);
    return want;
  });
}

}  // namespace carillon::bench
