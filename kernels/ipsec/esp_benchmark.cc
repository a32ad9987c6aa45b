// Measures ESP on one CPU core beside OpenSSL's ciphers on the same sizes: events
// of 32 packets, as a worker runs them, and OpenSSL's calls for 32 packets, in
// turn. OpenSSL only encrypts and authenticates; the kernels also check and write
// headers, find SAs, and count.
//
//   esp_benchmark [ROUNDS]
#include <fmt/format.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/ipsec/esp_test_util.h"

namespace carillon::ipsec_test {
namespace {

constexpr uint32_t kBatch = 32;
constexpr uint32_t kStride = 2048;

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void Must(bool good) {
  if (!good) std::abort();
}

// One packet's cryptography by OpenSSL, with contexts that have their keys.
class OpenSslEsp {
 public:
  OpenSslEsp(const Association& sa, bool encrypt)
      : gcm_(sa.suite == Suite::kAesGcm),
        encrypt_(encrypt),
        cipher_(EVP_CIPHER_CTX_new()),
        hmac_(EVP_MAC_fetch(nullptr, "HMAC", nullptr)),
        mac_(EVP_MAC_CTX_new(hmac_)),
        salt_(sa.cipher_key.end() - 4, sa.cipher_key.end()) {
    Must(EVP_CipherInit_ex(
             cipher_, gcm_ ? EVP_aes_128_gcm() : EVP_des_ede3_cbc(), nullptr,
             sa.cipher_key.data(), nullptr, encrypt ? 1 : 0) == 1);
    EVP_CIPHER_CTX_set_padding(cipher_, 0);
    if (!gcm_) {
      char digest[] = "SHA1";
      const OSSL_PARAM params[] = {
          OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
          OSSL_PARAM_construct_end()};
      Must(EVP_MAC_init(mac_, sa.integrity_key.data(), sa.integrity_key.size(),
                        params) == 1);
    }
  }
  ~OpenSslEsp() {
    EVP_CIPHER_CTX_free(cipher_);
    EVP_MAC_CTX_free(mac_);
    EVP_MAC_free(hmac_);
  }
  OpenSslEsp(const OpenSslEsp&) = delete;
  OpenSslEsp& operator=(const OpenSslEsp&) = delete;

  // `esp`: header, IV, payload of `bytes` bytes, ICV; writes the other payload
  // and, to encrypt, the ICV to `to`.
  void Run(const uint8_t* esp, size_t bytes, uint8_t* to) {
    const auto length = static_cast<int>(bytes);
    int done = 0;
    uint8_t iv[12];
    if (gcm_) {
      std::memcpy(iv, salt_.data(), 4);
      std::memcpy(iv + 4, esp + 8, 8);
      Must(EVP_CipherInit_ex(cipher_, nullptr, nullptr, nullptr, iv, -1) == 1);
      Must(EVP_CipherUpdate(cipher_, nullptr, &done, esp, 8) == 1);
      Must(EVP_CipherUpdate(cipher_, to, &done, esp + 16, length) == 1);
      if (!encrypt_) {
        EVP_CIPHER_CTX_ctrl(cipher_, EVP_CTRL_GCM_SET_TAG, 16,
                            const_cast<uint8_t*>(esp + 16 + bytes));
      }
      Must(EVP_CipherFinal_ex(cipher_, to + bytes, &done) == 1);
      if (encrypt_) {
        EVP_CIPHER_CTX_ctrl(cipher_, EVP_CTRL_GCM_GET_TAG, 16, to + bytes);
      }
      return;
    }
    Must(EVP_CipherInit_ex(cipher_, nullptr, nullptr, nullptr, esp + 8, -1) ==
         1);
    Must(EVP_CipherUpdate(cipher_, to, &done, esp + 16, length) == 1);
    uint8_t digest[20];
    size_t digest_bytes = 0;
    Must(EVP_MAC_init(mac_, nullptr, 0, nullptr) == 1);
    // Of the encrypted one: in a packet they lie behind each other.
    if (encrypt_) {
      Must(EVP_MAC_update(mac_, esp, 16) == 1);
      Must(EVP_MAC_update(mac_, to, bytes) == 1);
    } else {
      Must(EVP_MAC_update(mac_, esp, 16 + bytes) == 1);
    }
    Must(EVP_MAC_final(mac_, digest, &digest_bytes, sizeof(digest)) == 1);
    if (encrypt_) {
      std::memcpy(to + bytes, digest, 12);
    } else {
      Must(std::memcmp(digest, esp + 16 + bytes, 12) == 0);
    }
  }

 private:
  const bool gcm_;
  const bool encrypt_;
  EVP_CIPHER_CTX* const cipher_;
  EVP_MAC* const hmac_;
  EVP_MAC_CTX* const mac_;
  const Bytes salt_;
};

// Rounds of both, in turn, of packets with `size` bytes inside.
void Compare(Suite suite, bool encrypt, uint32_t size, int rounds) {
  const bool gcm = suite == Suite::kAesGcm;
  const Association out = MakeAssociation(0x1001, suite, Direction::kOutbound,
                                          "192.0.2.1", "192.0.2.2", 1);
  // The way back, for the check of the inner source, is at place 0.
  Association back = out;
  back.spi = 0x1000;
  std::swap(back.local, back.peer);
  const std::vector<Association> table = encrypt
                                             ? std::vector{out, Association{}}
                                             : std::vector{back, OtherEnd(out)};
  const std::vector<Route> routes = {
      {*forwarding::ParsePrefix("10.0.0.0/8"), 0}};
  Gateway gateway(table, routes, kStride);

  // Inner packets, and ESP packets as OpenSSL makes them.
  const Bytes inner =
      MakeIpv4(Address("10.0.0.1"), Address("10.0.0.2"), 64, size - 20);
  const Bytes payload = PadPayload(suite, inner, 4);
  std::vector<Bytes> esp;
  for (uint32_t i = 0; i < kBatch; ++i) {
    esp.push_back(SealEsp(out, i + 1, payload));
  }
  Bytes packets;
  std::vector<forwarding::Packet> descriptors;
  for (uint32_t i = 0; i < kBatch; ++i) {
    const Bytes packet = encrypt ? inner : WithOuterHeader(out, esp[i]);
    descriptors.push_back({i * kStride, static_cast<uint32_t>(packet.size())});
    packets.insert(packets.end(), packet.begin(), packet.end());
    packets.resize((i + 1) * kStride);
  }
  std::vector<ipsec::Unit> slots(kBatch * kStride / sizeof(ipsec::Unit));
  std::vector<ipsec::Result> results(kBatch);
  std::vector<uint64_t> counts(ipsec::kVerdicts);
  kernels::EspArgs args = gateway.args();
  args.packets = simt::ReadOnly(packets);
  args.descriptors = simt::ReadOnly(descriptors);
  args.out = simt::Writable(slots);
  args.results = simt::Writable(results);
  args.counts = simt::Writable(counts);
  args.count = kBatch;
  const simt::KernelInfo& kernel =
      encrypt ? kernels::esp_encrypt_info : kernels::esp_decrypt_info;
  std::vector<std::byte> shared(kernel.static_shared_bytes + 16);
  uint32_t status = 0;
  simt::BlockLaunch launch;
  launch.block = {32, 1, 1};
  launch.block_index = {0, 0, 0};
  launch.shared_bytes = kernel.static_shared_bytes;
  launch.shared = shared.data();
  launch.fail_status = &status;

  OpenSslEsp openssl(out, encrypt);
  // What it starts from: to encrypt, header, IV and the bare payload.
  std::vector<Bytes> from = esp;
  if (encrypt) {
    for (Bytes& one : from) std::ranges::copy(payload, one.begin() + 16);
  }
  Bytes to(kStride);

  const int events = static_cast<int>(1 + 200'000 / (kBatch * (size + 200)));
  std::vector<double> ours, theirs, ratios;
  for (int round = 0; round < rounds; ++round) {
    double start = CpuSeconds();
    for (int i = 0; i < events; ++i) {
      if (!encrypt) {
        ipsec::Sa& sa = gateway.sas()[1];
        sa.highest = 0;
        std::ranges::fill(sa.seen, 0);
      }
      kernel.run_block(launch, &args);
    }
    ours.push_back((CpuSeconds() - start) / events / kBatch);
    start = CpuSeconds();
    for (int i = 0; i < events; ++i) {
      for (uint32_t k = 0; k < kBatch; ++k) {
        openssl.Run(from[k].data(), payload.size(), to.data());
      }
    }
    theirs.push_back((CpuSeconds() - start) / events / kBatch);
    ratios.push_back(theirs.back() / ours.back());
  }
  Must(status == 0);
  Must(counts[static_cast<size_t>(Verdict::kDone)] ==
       static_cast<uint64_t>(rounds) * static_cast<uint64_t>(events) * kBatch);
  const auto rate = [&](double seconds) {
    return fmt::format("{:8.1f} k/s {:6.3f} Gb/s", 1e-3 / seconds,
                       8e-9 * size / seconds);
  };
  fmt::print("{:14} {:7} {:5} B   {}   OpenSSL {}   {:5.2f} x\n",
             gcm ? "AES-128-GCM" : "3DES-HMAC-SHA1",
             encrypt ? "encrypt" : "decrypt", size, rate(Median(ours)),
             rate(Median(theirs)), Median(ratios));
}

}  // namespace
}  // namespace carillon::ipsec_test

int main(int argc, char** argv) {
  using namespace carillon::ipsec_test;
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 41;
  if (rounds < 1) return 2;
  for (const Suite suite : {Suite::kTripleDesSha1, Suite::kAesGcm}) {
    for (const bool encrypt : {true, false}) {
      for (const uint32_t size : {64u, 256u, 576u, 1420u}) {
        Compare(suite, encrypt, size, rounds);
      }
    }
  }
}
