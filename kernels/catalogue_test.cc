#include "kernels/catalogue.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/registry.h"

namespace carillon::simt {
namespace {

TEST(Catalogue, NamesHowManyThereAreAndIsTheSameEachTime) {
  EXPECT_EQ(OwnCatalogue(), CatalogueOf(AllKernels()));
  EXPECT_EQ(OwnCatalogue().rfind(
                std::to_string(AllKernels().size()) + " kernels, ", 0),
            0u)
      << OwnCatalogue();
}

TEST(Catalogue, IsAnotherWhereAKernelOrItsArgumentsAre) {
  const std::vector<ParamInfo> params = {
      {"in", ParamKind::kReadBuffer, 0, 4, 4, "what it reads"},
      {"count", ParamKind::kU32, 16, 4, 4, "how many"}};
  const auto name_with =
      [&](const std::function<void(KernelInfo&, std::vector<ParamInfo>&)>&
              change) {
        KernelInfo kernel{.name = "sum", .args_size = 24, .args_align = 8};
        auto its = params;
        change(kernel, its);
        kernel.params = its;
        const KernelInfo* const all[] = {&kernel};
        return CatalogueOf(all);
      };
  const std::string before =
      name_with([](KernelInfo&, std::vector<ParamInfo>&) {});
  const std::vector<std::function<void(KernelInfo&, std::vector<ParamInfo>&)>>
      changes = {
          [](auto& kernel, auto&) { kernel.name = "sums"; },
          [](auto& kernel, auto&) { kernel.args_size = 32; },
          [](auto& kernel, auto&) { kernel.args_align = 16; },
          [](auto&, auto& its) { its.pop_back(); },
          [](auto&, auto& its) { its[0].name = "out"; },
          [](auto&, auto& its) { its[0].kind = ParamKind::kWriteBuffer; },
          [](auto&, auto& its) { its[1].kind = ParamKind::kF32; },
          [](auto&, auto& its) { its[1].offset = 20; },
          [](auto&, auto& its) { its[0].element_size = 8; },
          [](auto&, auto& its) { its[0].element_align = 8; },
          [](auto&, auto& its) { its[0].buffer_form = BufferForm::kPointer; },
      };
  for (size_t i = 0; i < changes.size(); ++i) {
    EXPECT_NE(name_with(changes[i]), before) << "change " << i;
  }
  // Neither texts for people nor what a launch costs make it another one.
  EXPECT_EQ(name_with([](auto& kernel, auto& its) {
              kernel.summary = "sums up";
              kernel.registers_per_thread = 99;
              its[0].description = "the words";
            }),
            before);
}

}  // namespace
}  // namespace carillon::simt
