#include "tools/gpu_check/narrow_cases.h"

#include "fmt/format.h"

namespace carillon::gpu_check {
namespace {

using Numbers = std::map<std::string, uint64_t>;

class Maker {
 public:
  Maker(Random* random, std::vector<Case>* cases)
      : random_(*random), cases_(*cases) {}

  void Make() {
    Mandelbrot();
    FilterBank();
    BeamFir();
    BeamForm();
    Slud();
    Dct();
    Convolution();
    Matmul();
    TripleDes();
  }

 private:
  // One case of these arguments, and one with `wrong` instead of a number.
  void Add(const char* kernel, bool one_block, std::vector<Buffer> buffers,
           const std::map<std::string, size_t>& names, const Numbers& numbers,
           const Numbers& wrong) {
    const simt::Dim3 grid{one_block ? 1 : random_.Small(1, 4), 1, 1};
    const simt::Dim3 block{random_.AnyBlock(), 1, 1};
    std::string name =
        fmt::format("{} by {}x{} threads:", kernel, grid.x, block.x);
    for (const auto& [key, value] : numbers) {
      name += fmt::format(" {} {}", key, value);
    }
    cases_.push_back(
        {name, buffers, {Launch(kernel, grid, block, names, numbers)}});
    Numbers refused = numbers;
    for (const auto& [key, value] : wrong) refused[key] = value;
    cases_.push_back({name + ", refused",
                      std::move(buffers),
                      {Launch(kernel, grid, block, names, refused)}});
  }

  void Mandelbrot() {
    const uint32_t width = random_.Small(1, 70);
    const uint32_t height = random_.Small(1, 70);
    Add("mandelbrot", false,
        {{random_.Bytes(uint64_t{width} * height * 4), Compare::kBytes}},
        {{"counts", 0}},
        {{"width", width},
         {"height", height},
         {"most", random_.Between(1, 300)},
         {"first_real", Float(-1.8f)},
         {"first_imaginary", Float(-0.9f)},
         {"step", Float(0.028f)}},
        {{"height", height + 1}});
  }

  void FilterBank() {
    const uint64_t length = random_.Between(1, 700);
    const uint64_t taps = random_.Between(1, 70);
    Add("filter_bank", true,
        {{random_.Floats(length)},
         {random_.Floats(taps)},
         {random_.Floats(taps)},
         {Zeros(length * 4), Compare::kFloats},
         {Zeros(length * 4), Compare::kFloats},
         {Zeros(length * 4), Compare::kFloats}},
        {{"signal", 0},
         {"analysis", 1},
         {"synthesis", 2},
         {"filtered", 3},
         {"kept", 4},
         {"out", 5}},
        {{"length", length},
         {"taps", taps},
         {"factor", random_.Between(1, 10)}},
        {{"taps", taps + 1}});
  }

  void BeamFir() {
    const uint64_t length = random_.Between(1, 700);
    const uint64_t taps = random_.Between(1, 70);
    const uint64_t factor = random_.Between(1, 4);
    Add("beam_fir", false,
        {{random_.Floats(2 * length)},
         {random_.Floats(2 * taps)},
         {Zeros((length + factor - 1) / factor * 8), Compare::kFloats}},
        {{"signal", 0}, {"filter", 1}, {"out", 2}},
        {{"length", length}, {"taps", taps}, {"factor", factor}},
        {{"factor", 0}});
  }

  void BeamForm() {
    const uint64_t length = random_.Between(1, 300);
    const uint64_t channels = random_.Between(1, 14);
    Add("beam_form", false,
        {{random_.Floats(2 * length * channels)},
         {random_.Floats(2 * channels)},
         {Zeros(length * 8), Compare::kFloats}},
        {{"channels", 0}, {"weights", 1}, {"beam", 2}},
        {{"channel_count", channels}, {"length", length}},
        {{"channel_count", channels + 1}});
  }

  // With a strong diagonal and little beside it, so that errors do not grow.
  std::vector<std::byte> SludBlock(uint64_t n) {
    std::vector<std::byte> block = random_.Floats(n * n, -0.1f, 0.1f);
    for (uint64_t i = 0; i < n; ++i) {
      const float pivot = static_cast<float>(random_.Between(2, 9));
      std::memcpy(&block[(i * n + i) * sizeof(float)], &pivot, sizeof(pivot));
    }
    return block;
  }

  void Slud() {
    const uint64_t n = random_.Between(2, 40);
    const std::vector<std::byte> block = SludBlock(n);
    Add("slud_lu0", true, {{block, Compare::kFloats}}, {{"block", 0}},
        {{"n", n}}, {{"n", n + 1}});
    Add("slud_lu0", true, {{Zeros(n * n * 4)}}, {{"block", 0}}, {{"n", n}},
        {{"n", 0}});
    for (const char* kernel : {"slud_fwd", "slud_bdiv"}) {
      Add(kernel, false, {{block}, {random_.Floats(n * n), Compare::kFloats}},
          {{"diagonal", 0}, {"block", 1}}, {{"n", n}}, {{"n", n + 1}});
    }
    Add("slud_bmod", false,
        {{random_.Floats(n * n)},
         {random_.Floats(n * n)},
         {random_.Floats(n * n), Compare::kFloats}},
        {{"left", 0}, {"upper", 1}, {"block", 2}}, {{"n", n}}, {{"n", 0}});
  }

  void Dct() {
    const uint64_t width = random_.Between(1, 90);
    const uint64_t height = random_.Between(1, 90);
    for (const char* kernel : {"dct8x8_plain", "dct8x8_shared"}) {
      Add(kernel, false,
          {{random_.Bytes(width * height)},
           {Zeros((width + 7) / 8 * ((height + 7) / 8) * 256),
            Compare::kFloats}},
          {{"image", 0}, {"coefficients", 1}},
          {{"width", width}, {"height", height}}, {{"width", 0}});
    }
  }

  void Convolution() {
    const uint64_t width = random_.Between(1, 60);
    const uint64_t height = random_.Between(1, 60);
    const uint64_t radius = random_.Between(0, 12);
    for (const char* kernel : {"conv_rows", "conv_columns"}) {
      Add(kernel, false,
          {{random_.Floats(width * height)},
           {random_.Floats(2 * radius + 1)},
           {Zeros(width * height * 4), Compare::kFloats}},
          {{"image", 0}, {"taps", 1}, {"out", 2}},
          {{"width", width}, {"height", height}, {"radius", radius}},
          {{"radius", radius + 1}});
    }
  }

  void Matmul() {
    const uint64_t n = random_.Between(1, 70);
    for (const char* kernel : {"matmul_plain", "matmul_shared"}) {
      Add(kernel, false,
          {{random_.Floats(n * n)},
           {random_.Floats(n * n)},
           {Zeros(n * n * 4), Compare::kFloats}},
          {{"a", 0}, {"b", 1}, {"c", 2}}, {{"n", n}}, {{"n", n + 1}});
    }
  }

  void TripleDes() {
    const uint64_t blocks = random_.Between(1, 600);
    Add("triple_des", false,
        {{random_.Bytes(96 * 4)},
         {random_.Bytes(blocks * 8)},
         {Zeros(blocks * 8), Compare::kBytes}},
        {{"keys", 0}, {"packet", 1}, {"out", 2}}, {{"bytes", blocks * 8}},
        {{"bytes", blocks * 8 + 8}});
  }

  Random& random_;
  std::vector<Case>& cases_;
};

}  // namespace

void AddNarrowCases(Random* random, std::vector<Case>* cases) {
  Maker(random, cases).Make();
}

}  // namespace carillon::gpu_check
