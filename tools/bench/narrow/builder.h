// How a workload's tasks come to their data and their expected results. A file for
// each kind of data has the functions.
#ifndef CARILLON_TOOLS_BENCH_NARROW_BUILDER_H_
#define CARILLON_TOOLS_BENCH_NARROW_BUILDER_H_

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/narrow/tasks.h"
#include "tools/bench/narrow/workload.h"

namespace carillon::bench {

class NarrowWorkload::Builder {
 public:
  Builder(NarrowWorkload* workload, uint64_t seed)
      : workload_(*workload), random_(seed) {}

  void Add(const kernels::NarrowTask& task, uint32_t threads);

  // The matrix of the LU tasks, before the first of them.
  void AddMatrix(const std::vector<kernels::NarrowTask>& tasks);
  // Behind the last of them.
  void CheckMatrix();

 private:
  static constexpr uint64_t kAlignment = 256;
  // Groups have data in so many variants, each with its results.
  static constexpr uint32_t kVariants = 4;
  // Of a sum of products of numbers up to 1 in single precision.
  static constexpr double kTolerance = 1e-3;

  // A beamformer: the data of its group, made with its first task.
  struct Beamformer {
    std::vector<uint64_t> signals, coarse, beams, out;
    uint64_t channels = 0;
  };

  uint32_t variant() const { return unit_->group % kVariants; }
  float Random() {
    return static_cast<float>(random_() % 2001) / 1000.0f - 1.0f;
  }

  uint64_t Allocate(uint64_t bytes) {
    auto& memory = workload_.initial_;
    const uint64_t offset = memory.size();
    memory.resize(offset + (bytes + kAlignment - 1) / kAlignment * kAlignment);
    return offset;
  }
  // Valid until the next Allocate().
  template <class T>
  std::span<T> At(uint64_t offset, uint64_t count) {
    return {reinterpret_cast<T*>(&workload_.initial_[offset]), count};
  }
  template <class T>
  uint64_t Store(const std::vector<T>& values) {
    const uint64_t offset = Allocate(values.size() * sizeof(T));
    std::memcpy(&workload_.initial_[offset], values.data(),
                values.size() * sizeof(T));
    return offset;
  }
  // Once for all tasks of the workload.
  template <class T, class F>
  uint64_t Shared(const std::string& name, std::vector<T>* values, F make) {
    const auto found = shared_.find(name);
    if (found != shared_.end()) {
      values->resize(found->second.second);
      std::memcpy(values->data(), &workload_.initial_[found->second.first],
                  values->size() * sizeof(T));
      return found->second.first;
    }
    *values = make();
    const uint64_t offset = Store(*values);
    shared_[name] = {offset, values->size()};
    return offset;
  }
  // Numbers of a variant, as all groups of it have them.
  std::vector<float> Numbers(const std::string& name, uint64_t count) {
    auto& values = numbers_[fmt::format("{} {} {}", name, variant(), count)];
    while (values.size() < count) values.push_back(Random());
    return values;
  }

  void Buffer(std::string_view name, uint64_t offset, uint64_t bytes) {
    unit_->arguments.push_back(
        {.name = name, .is_buffer = true, .offset = offset, .bytes = bytes});
  }
  void Value(std::string_view name, uint32_t value) {
    unit_->arguments.push_back({.name = name, .bits = value});
  }
  void Value(std::string_view name, float value) {
    Value(name, std::bit_cast<uint32_t>(value));
  }

  // The task's result is `count` of T at `offset`, and near what make() gives for
  // the variant.
  template <class T>
  void Expect(const std::string& name, uint64_t offset, double tolerance,
              const std::function<std::vector<T>()>& make) {
    auto& known = expected_[fmt::format("{} {}", name, variant())];
    if (known == nullptr) {
      known = std::make_shared<std::vector<double>>();
      for (const T value : make()) known->push_back(value);
    }
    workload_.results_.push_back(
        {workload_.tasks_.size() - 1,
         [=, want = known](std::span<const std::byte> memory) {
           for (size_t i = 0; i < want->size(); ++i) {
             T got;
             std::memcpy(&got, &memory[offset + i * sizeof(T)], sizeof(T));
             if (!(std::abs(static_cast<double>(got) - (*want)[i]) <=
                   tolerance)) {
               return false;
             }
           }
           return true;
         }});
  }

  // A task's data and result. Images:
  void Mandelbrot();
  void Conv();
  void Dct();
  // Signals:
  void FilterBank();
  void Beam();
  // Matrices:
  void Matmul();
  void Slud();
  // Packets:
  void TripleDes();

  NarrowWorkload& workload_;
  std::mt19937_64 random_;
  const kernels::NarrowTask* task_ = nullptr;
  NarrowUnit* unit_ = nullptr;
  std::map<std::string, std::pair<uint64_t, uint64_t>> shared_;
  std::map<std::string, std::vector<float>> numbers_;
  std::map<std::string, std::shared_ptr<std::vector<double>>> expected_;
  std::map<uint32_t, Beamformer> beamformers_;
  uint32_t length_ = 0;  // of the beamformers' signals
  std::map<uint32_t, uint64_t> rows_;
  std::map<uint32_t, std::vector<uint8_t>> packets_;
  // SLUD's matrix: in blocks, and as a whole.
  uint32_t n_ = 0;
  uint32_t side_ = 0;
  std::vector<uint64_t> blocks_;
  // The first and the last task that writes a block, from 1; 0: none does.
  std::vector<std::pair<size_t, size_t>> written_;
  std::vector<double> matrix_;
};

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_NARROW_BUILDER_H_
