// Layers of neural networks: bp, conv1, conv2.
#include "devices/cpu_host/array_workload.h"
#include "kernels/background/edge_references.h"

namespace carillon::cpu_host {
namespace {

namespace reference = kernels::reference;

// All sums of such numbers are exact.
void FillWhole(std::span<float> numbers, uint32_t most, std::mt19937& random) {
  for (float& x : numbers) {
    x = static_cast<float>(random() % (2 * most + 1)) -
        static_cast<float>(most);
  }
}

// A layer of 16 hidden units: the partial sums of its outputs, then the new
// weights.
class Bp final : public ArrayWorkload {
 public:
  explicit Bp(const WorkloadOptions& options)
      : ArrayWorkload("bp_forward", GridFor(options), kBlock, options) {
    const uint64_t inputs = uint64_t{GridFor(options).y} * kHidden;
    AddInput<float>("input", inputs + 1);
    AddState<float>("weights", (inputs + 1) * kRow);
    AddOutput<float>("partial_sums", inputs);
    AddLaunch("bp_adjust", GridFor(options), kBlock);
    AddInput<float>("delta", kRow);
    AddState<float>("changes", (inputs + 1) * kRow);
    Use("input", kInput);
    Use("weights", kWeights);
  }

 private:
  enum : size_t { kInput, kWeights, kSums, kDelta, kChanges };
  static constexpr uint32_t kHidden = 16;
  static constexpr uint32_t kRow = kHidden + 1;
  static constexpr edge::Dim3 kBlock = {kHidden, kHidden, 1};

  static edge::Dim3 GridFor(const WorkloadOptions& options) {
    return {1, (options.size + kHidden - 1) / kHidden, 1};
  }
  void Fill(std::mt19937& random) override {
    for (const size_t array : {kInput, kWeights, kDelta, kChanges}) {
      FillWhole(input<float>(array), 20, random);
    }
  }
  std::vector<double> Expected(
      size_t array, std::span<const uint64_t> places) const override {
    if (array == kSums) {
      return At(reference::BpPartialSums(input<float>(kInput),
                                         input<float>(kWeights)),
                places);
    }
    const reference::BpLayer layer =
        reference::BpAdjusted(input<float>(kDelta), input<float>(kInput),
                              input<float>(kWeights), input<float>(kChanges));
    return At(array == kWeights ? layer.weights : layer.changes, places);
  }
  double tolerance() const override { return 1e-3; }
};

// A layer of LeNet, with 16 filters.
class ConvLayer final : public ArrayWorkload {
 public:
  // `shape` has no images yet.
  ConvLayer(std::string kernel, reference::ConvShape shape,
            const WorkloadOptions& options)
      : ArrayWorkload(std::move(kernel),
                      {(options.size + kImages - 1) / kImages, kGridRows, 1},
                      {32, 4, 1}, options),
        shape_(WithImages(shape, options)) {
    AddInput<float>("images", uint64_t{shape_.colours} * shape_.image_size *
                                  shape_.image_size * shape_.images);
    AddInput<float>("filters", uint64_t{shape_.colours} * shape_.filter_size *
                                   shape_.filter_size * shape_.filters);
    AddOutput<float>("targets", uint64_t{shape_.filters} * shape_.side() *
                                    shape_.side() * shape_.images);
    AddConstant(edge::Constant("colours", shape_.colours));
    AddConstant(edge::Constant("image_size", shape_.image_size));
    AddConstant(edge::Constant("filter_size", shape_.filter_size));
    AddConstant(edge::Constant("stride", shape_.stride));
    AddConstant(edge::Constant("image_count", shape_.images));
    AddConstant(edge::Constant("filter_count", shape_.filters));
  }

 private:
  static constexpr uint32_t kImages = 128;  // a block
  static constexpr uint32_t kGridRows = 64;

  static reference::ConvShape WithImages(reference::ConvShape shape,
                                         const WorkloadOptions& options) {
    shape.images = (options.size + kImages - 1) / kImages * kImages;
    return shape;
  }
  void Fill(std::mt19937& random) override {
    for (const size_t array : {0, 1})
      FillWhole(input<float>(array), 10, random);
  }
  std::vector<double> Expected(
      size_t, std::span<const uint64_t> places) const override {
    return At(reference::Convolved(shape_, input<float>(0), input<float>(1)),
              places);
  }
  double tolerance() const override { return 0; }

  const reference::ConvShape shape_;
};

}  // namespace

std::unique_ptr<Workload> MakeBp(const WorkloadOptions& options) {
  return std::make_unique<Bp>(options);
}
std::unique_ptr<Workload> MakeConv1(const WorkloadOptions& options) {
  return std::make_unique<ConvLayer>("conv1",
                                     reference::ConvShape{.colours = 1,
                                                          .image_size = 28,
                                                          .filter_size = 5,
                                                          .stride = 1,
                                                          .images = 0,
                                                          .filters = 16},
                                     options);
}
std::unique_ptr<Workload> MakeConv2(const WorkloadOptions& options) {
  return std::make_unique<ConvLayer>("conv2",
                                     reference::ConvShape{.colours = 16,
                                                          .image_size = 12,
                                                          .filter_size = 5,
                                                          .stride = 1,
                                                          .images = 0,
                                                          .filters = 16},
                                     options);
}

}  // namespace carillon::cpu_host
