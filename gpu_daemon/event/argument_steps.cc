#include "gpu_daemon/event/argument_steps.h"

namespace carillon::gpud {
namespace {

template <class T>
std::byte* Append(std::span<const T> part, std::byte* to) {
  if (!part.empty()) std::memcpy(to, part.data(), part.size_bytes());
  return to + part.size_bytes();
}

}  // namespace

std::vector<std::byte> PackArgumentSteps(std::span<const std::byte> fixed_image,
                                         std::span<const SteppedBuffer> stepped,
                                         std::span<const WritableValue> values,
                                         std::span<const WritableBuffer> ranged,
                                         uint32_t entry_bytes) {
  const auto args_bytes = static_cast<uint32_t>(fixed_image.size());
  const size_t bytes =
      sizeof(ArgumentSteps) + ArgumentSteps::Padded(args_bytes) +
      stepped.size_bytes() + values.size_bytes() + ranged.size_bytes();
  const ArgumentSteps head = {
      .bytes = static_cast<uint32_t>(bytes),
      .args_bytes = args_bytes,
      .entry_bytes = entry_bytes,
      .stepped_count = static_cast<uint32_t>(stepped.size()),
      .value_count = static_cast<uint32_t>(values.size()),
      .ranged_count = static_cast<uint32_t>(ranged.size())};
  std::vector<std::byte> block(bytes);
  std::memcpy(block.data(), &head, sizeof(head));
  std::byte* to = block.data() + sizeof(head);
  Append(fixed_image, to);
  to += ArgumentSteps::Padded(args_bytes);
  to = Append(stepped, to);
  to = Append(values, to);
  Append(ranged, to);
  return block;
}

}  // namespace carillon::gpud
