#include "gpu_daemon/control/sessions/module_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/temp_directory.h"

namespace carillon::gpud {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ModuleStoreTest : public ::testing::Test {
 protected:
  static v1::RegisterModuleRequest Module(const std::string& file,
                                          const std::string& image = "PTX") {
    v1::RegisterModuleRequest module;
    module.set_file(file);
    module.set_image(image);
    module.add_kernels()->set_symbol(file + "_kernel");
    return module;
  }
  // What another gpud finds: "FILE:IMAGE", or an error.
  std::vector<std::string> Kept() const {
    std::vector<std::string> kept;
    ModuleStore(folder_).ForEach([&](const auto&, const auto& module) {
      kept.push_back(module.ok() ? module->file() + ":" + module->image()
                                 : std::string(module.status().message()));
    });
    return kept;
  }

  TempDirectory directory_;
  const std::string folder_ = directory_.path() + "/modules";
  ModuleStore store_{folder_};
};

TEST_F(ModuleStoreTest, AnotherGpudFindsModulesInTheirOrder) {
  EXPECT_THAT(Kept(), IsEmpty());
  std::vector<std::string> expected;
  for (int i = 0; i < 12; ++i) {
    const std::string name(1, static_cast<char>('z' - i));
    ASSERT_TRUE(ModuleStore(folder_).Keep(Module(name)).ok());
    expected.push_back(name + ":PTX");
  }
  EXPECT_EQ(Kept(), expected);
  store_.Clear();
  EXPECT_THAT(Kept(), IsEmpty());
}

TEST_F(ModuleStoreTest, AKernelThatIsLoadedAnewReplacesTheOldOne) {
  ASSERT_TRUE(store_.Keep(Module("a", "old")).ok());
  ASSERT_TRUE(store_.Keep(Module("b")).ok());
  ASSERT_TRUE(store_.Keep(Module("a", "new")).ok());
  EXPECT_THAT(Kept(), ElementsAre("b:PTX", "a:new"));
}

TEST_F(ModuleStoreTest, OneSymbolUnderTwoNamesIsTwoKernels) {
  const auto named = [](const std::string& file, const std::string& name) {
    v1::RegisterModuleRequest module = Module(file);
    module.mutable_kernels(0)->set_symbol("scale");
    module.mutable_kernels(0)->set_name(name);
    return module;
  };
  ASSERT_TRUE(store_.Keep(named("floats", "")).ok());
  ASSERT_TRUE(store_.Keep(named("doubles", "scale_doubles")).ok());
  EXPECT_THAT(Kept(), ElementsAre("floats:PTX", "doubles:PTX"));
  ASSERT_TRUE(store_.Keep(named("better", "scale_doubles")).ok());
  EXPECT_THAT(Kept(), ElementsAre("floats:PTX", "better:PTX"));
}

TEST_F(ModuleStoreTest, WhatIsTooMuchLeavesItsNames) {
  const std::string big(ModuleStore::kMaxBytes / 2 + 1, 'x');
  ASSERT_TRUE(store_.Keep(Module("a", big)).ok());
  const absl::Status status = store_.Keep(Module("b", big));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("no more than 268435456 are kept"));
  EXPECT_THAT(Kept(), ElementsAre("a:" + big, "b:"));
}

TEST_F(ModuleStoreTest, AFileThatIsNotWholeIsSaid) {
  ASSERT_TRUE(store_.Keep(Module("a")).ok());
  ASSERT_TRUE(store_.Keep(Module("b")).ok());
  std::filesystem::resize_file(folder_ + "/000000.module", 3);
  EXPECT_THAT(Kept(), ElementsAre("the file is not whole", "b:PTX"));
}

TEST_F(ModuleStoreTest, AFolderThatCannotBeMadeIsSaid) {
  std::ofstream(folder_) << "in its way";
  EXPECT_THAT(std::string(store_.Keep(Module("a")).message()),
              HasSubstr("cannot write"));
  EXPECT_THAT(Kept(), IsEmpty());
}

}  // namespace
}  // namespace carillon::gpud
