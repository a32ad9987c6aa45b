#include "devices/sdk/parameters.h"

#include <gtest/gtest.h>

namespace carillon::edge {
namespace {

using Bindings = google::protobuf::RepeatedPtrField<v1::ParameterBinding>;

Buffer SomeBuffer(uint32_t id) {
  return Buffer{.id = id, .place = Place::kInput, .bytes = {}};
}

TEST(ParametersTest, EveryKindOfParameterSaysWhatItWasMadeWith) {
  const std::vector<Parameter> parameters = {
      Constant("a", 0xfedcba9876543210),
      ConstantSigned("b", -5),
      ConstantFloat("c", 0.25),
      Fixed("d", SomeBuffer(4),
            {.offset = 64, .length = 128, .slot_stride = 256}),
      Fixed("e", SomeBuffer(5)),
      Writable("f"),
      WritableBuffer("g", SomeBuffer(6))};
  Bindings bindings;
  ASSERT_TRUE(ToBindings(parameters, /*ring=*/true, &bindings).ok());
  ASSERT_EQ(bindings.size(), 7);

  EXPECT_EQ(bindings[0].ShortDebugString(),
            "name: \"a\" unsigned_value: 18364758544493064720");
  EXPECT_EQ(bindings[1].ShortDebugString(), "name: \"b\" signed_value: -5");
  EXPECT_EQ(bindings[2].ShortDebugString(), "name: \"c\" float_value: 0.25");
  EXPECT_EQ(bindings[3].ShortDebugString(),
            "name: \"d\" buffer_id: 4 offset: 64 length: 128 slot_stride: 256");
  EXPECT_EQ(bindings[4].ShortDebugString(), "name: \"e\" buffer_id: 5");
  EXPECT_EQ(bindings[5].ShortDebugString(), "name: \"f\" writable: true");
  EXPECT_EQ(bindings[6].ShortDebugString(),
            "name: \"g\" writable: true buffer_id: 6");
}

TEST(ParametersTest, AConstantZeroIsSentAsAValue) {
  Bindings bindings;
  ASSERT_TRUE(ToBindings(std::vector{Constant("a", 0)}, true, &bindings).ok());
  EXPECT_EQ(bindings[0].value_case(), v1::ParameterBinding::kUnsignedValue);
}

TEST(ParametersTest, AParameterBoundTwiceIsRefused) {
  Bindings bindings;
  const absl::Status status =
      ToBindings(std::vector{Constant("n", 1), Writable("n")}, true, &bindings);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("'n' is bound twice"),
            std::string::npos);
}

TEST(ParametersTest, AParameterWithoutANameIsRefused) {
  Bindings bindings;
  EXPECT_EQ(ToBindings(std::vector{Constant("", 1)}, true, &bindings).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ParametersTest, ABackgroundKernelTakesNothingThatBelongsToARing) {
  for (const Parameter& parameter :
       {Writable("x"), WritableBuffer("x", SomeBuffer(1)),
        Fixed("x", SomeBuffer(1), {.slot_stride = 64})}) {
    Bindings bindings;
    const absl::Status status =
        ToBindings(std::vector{parameter}, /*ring=*/false, &bindings);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(status.message()).find("'x'"), std::string::npos);
    bindings.Clear();
    EXPECT_TRUE(
        ToBindings(std::vector{parameter}, /*ring=*/true, &bindings).ok());
  }
}

}  // namespace
}  // namespace carillon::edge
