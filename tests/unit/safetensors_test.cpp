// Files of named tensors. Files of the format's own implementation are read, and written byte for byte.
// Anything that breaks a rule of the format is refused by name.
#include <vkattn/safetensors.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "support/must.hpp"
#include "support/temp_folder.hpp"
#include "support/text.hpp"
#include "unit/build.hpp"

namespace vkattn {
namespace {

using tests::has;
using tests::is_refused;

template <class T>
std::span<const std::byte> bytes_of(const T& values) {
  return std::as_bytes(std::span(values));
}

std::string file_of(const std::string& header, const std::string& data) {
  std::string text(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(header.size() >> 8U * i & 0xffU);
  return text + header + data;
}

/// The sentence that refuses a file.
std::string refusal_of(const std::string& content) {
  const tests::TempFolder folder;
  tests::write_file(folder / "model.safetensors", content);
  const auto file = SafetensorsFile::open(folder / "model.safetensors");
  if (file.ok()) return "not refused";
  EXPECT_EQ(file.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(has(file.error().message, "model.safetensors: "));
  EXPECT_LT(file.error().message.size(), 500U);
  return file.error().message;
}

/// A file with one tensor of 2 x 3 float32. Its entry has these members, and its data are 24 bytes.
std::string with_entry(const std::string& members) {
  return file_of(R"({"w":{)" + members + "}}", std::string(24, 'x'));
}

/// Such a file of float32 with this shape and these offsets.
std::string with_sizes(const std::string& shape, const std::string& offsets) {
  return with_entry(R"("dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets);
}

/// Contents of files, and words of the refusal of each.
void expect_refused(const std::vector<std::pair<std::string, const char*>>& files) {
  for (const auto& [content, words] : files) {
    EXPECT_TRUE(has(refusal_of(content), words)) << content.substr(0, 200);
  }
}

const std::array<float, 6> kWeight = {0, 1, -2.5F, 1e30F, 0.1F, -0.0F};
const std::array<float, 3> kBias = {1, 2, 3};
const std::array<std::uint16_t, 4> kHalf = {0x3e00, 0xfbff, 0x0001, 0};
const std::array<std::uint16_t, 2> kBrain = {0x3f80, 0xc049};
const std::array<double, 1> kScalar = {0.5};
const std::array<std::int64_t, 2> kSteps = {-1, std::int64_t{1} << 40};
const std::array<std::uint8_t, 3> kMask = {1, 0, 1};
const std::array<std::uint8_t, 1> kByte = {255};

/// The tensors of tests/golden/make_safetensors.py.
std::vector<TensorToStore> golden_tensors() {
  return {{"layer.weight", StoredType::kFloat32, {2, 3}, bytes_of(kWeight)},
          {"layer.bias", StoredType::kFloat32, {3}, bytes_of(kBias)},
          {"half", StoredType::kFloat16, {2, 2}, bytes_of(kHalf)},
          {"brain", StoredType::kBfloat16, {2}, bytes_of(kBrain)},
          {"scalar", StoredType::kFloat64, {}, bytes_of(kScalar)},
          {"empty", StoredType::kFloat32, {0, 4}, {}},
          {"steps", StoredType::kInt64, {2}, bytes_of(kSteps)},
          {"mask", StoredType::kBool, {3}, bytes_of(kMask)},
          {"\xc3\xbc \"quoted\" \\ \n", StoredType::kUint8, {1}, bytes_of(kByte)}};
}

const std::string kGoldenFile = std::string(tests::build::kGolden) + "/weights.safetensors";

TEST(Safetensors, ReadsWhatTheFormatsOwnImplementationWrites) {
  auto file = tests::must(SafetensorsFile::open(kGoldenFile));
  const auto expected = golden_tensors();
  EXPECT_EQ(file.tensors().size(), expected.size());
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  for (const TensorToStore& tensor : expected) {
    const StoredTensor* const found = file.find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_EQ(found->type, tensor.type) << tensor.name;
    EXPECT_EQ(found->shape, tensor.shape) << tensor.name;
    std::vector<std::byte> bytes(tensor.bytes.size());
    ASSERT_TRUE(file.read(*found, bytes).ok()) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(bytes, tensor.bytes)) << tensor.name;
    const std::size_t first = tensor.bytes.size() / 3;
    ASSERT_TRUE(file.read_part(*found, first, std::span(bytes).first(tensor.bytes.size() / 2)).ok());
    EXPECT_TRUE(std::ranges::equal(std::span(bytes).first(tensor.bytes.size() / 2),
                                   tensor.bytes.subspan(first, tensor.bytes.size() / 2)));
  }
}

TEST(Safetensors, WritesTheBytesOfTheFormatsOwnImplementation) {
  const tests::TempFolder folder;
  const auto tensors = golden_tensors();
  tests::must(write_safetensors(folder / "w.safetensors", tensors, {{"format", "pt"}}));
  EXPECT_EQ(tests::read_file(folder / "w.safetensors"), tests::read_file(kGoldenFile));
  EXPECT_EQ(folder.file_count(), 1U) << "nothing is left beside it";
  tests::must(write_safetensors(folder / "w.safetensors", {}));
  EXPECT_TRUE(tests::must(SafetensorsFile::open(folder / "w.safetensors")).tensors().empty());
}

TEST(Safetensors, FloatsOfEachTypeAreReadExactly) {
  auto file = tests::must(SafetensorsFile::open(kGoldenFile));
  using Floats = std::vector<float>;
  for (const auto& [name, expected] : {std::pair{"layer.weight", Floats(kWeight.begin(), kWeight.end())},
                                       {"half", {1.5F, -65504, 0x1p-24F, 0}},
                                       {"brain", {1, -3.140625F}},
                                       {"empty", {}}}) {
    const auto values = tests::must(file.read_floats(name));
    ASSERT_EQ(values.size(), expected.size()) << name;
    EXPECT_TRUE(std::ranges::equal(bytes_of(values), bytes_of(expected))) << name;
  }
  const std::array<std::int64_t, 2> shape = {2, 3};
  EXPECT_TRUE(file.read_floats("layer.weight", shape).ok());
}

TEST(Safetensors, WhatIsNotThereAsAskedForIsNamedWithBothShapes) {
  auto file = tests::must(SafetensorsFile::open(kGoldenFile));
  const std::array<std::int64_t, 1> six = {6};
  EXPECT_TRUE(has(file.read_floats("layer.weight", six).error().message,
                  "tensor 'layer.weight' has the shape (2, 3), not (6,)"));
  EXPECT_TRUE(has(file.read_floats("weight").error().message, "has no tensor 'weight'"));
  EXPECT_TRUE(has(file.read_floats("steps").error().message, "has the dtype I64"));
  std::vector<std::byte> few(3);
  EXPECT_TRUE(has(file.read(*file.find("half"), few).error().message, "8 bytes, and there is room for 3"));
  EXPECT_TRUE(has(file.read_part(*file.find("half"), 6, few).error().message,
                  "takes 8 bytes, and 3 from byte 6 on were asked for"));
  EXPECT_FALSE(file.read_part(*file.find("half"), ~std::uint64_t{0}, few).ok());
}

TEST(Safetensors, FilesThatAreTornAreRefused) {
  const std::string whole = tests::read_file(kGoldenFile);
  for (std::size_t bytes = 8; bytes < whole.size(); ++bytes)
    ASSERT_NE(refusal_of(whole.substr(0, bytes)), "not refused") << bytes;
  expect_refused({{"", "has 0 bytes, too few"},
                  {whole.substr(0, 7), "has 7 bytes, too few"},
                  {whole.substr(0, 100), "takes 600 bytes, but the file has 92 behind"},
                  {whole.substr(0, 650), "of the data, of which the file has 42"},
                  {whole + "x", "bytes 76 to 76 of the data belong to no tensor"}});
}

TEST(Safetensors, HeadersThatAreTooLargeOrNoObjectAreRefused) {
  expect_refused({{"\x01\xe1\xf5\x05" + std::string(4, '\0'), "takes 100000001 bytes, more than"},
                  {std::string(16, '\xff'), "perhaps it is no safetensors file"},
                  {file_of("", ""), "does not begin with {"},
                  {file_of(" {}", ""), "does not begin with {"},
                  {file_of("[]", ""), "does not begin with {"},
                  {file_of("{} {}", ""), "no JSON from its byte 4"},
                  {file_of("{\"w\":", ""), "no JSON from its byte"},
                  {file_of("{\"\xff\":{}}", ""), "no JSON from its byte"},
                  {file_of(R"({"w":3})", ""), "'w' is a number, not an object"},
                  {file_of(R"({"w":null})", ""), "'w' is null, not an object"},
                  {file_of("{}      ", ""), "not refused"}});
}

TEST(Safetensors, DeepHeadersAreRefusedAtTheFirstLevelTooMany) {
  std::string deep = R"({"w":)";
  for (int i = 0; i < 1'000'000; ++i) deep += R"({"a":)";
  expect_refused({{file_of(deep, ""), "tensor 'w' has 'a', which is none of"},
                  {file_of(R"({"w":{"shape":)" + std::string(1'000'000, '['), ""),
                   "tensor 'w' has an array in its shape"}});
}

TEST(Safetensors, NamesThatAreThereTwiceAreRefused) {
  const std::string entry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  const auto twice = [&](const std::string& name) {
    return file_of("{\"" + name + "\":" + entry + ",\"" + name + "\":" + entry + "}", "");
  };
  expect_refused({{twice("w"), "has 'w' twice"},
                  {file_of(R"({"__metadata__":{},"__metadata__":{}})", ""), "'__metadata__' twice"},
                  {file_of(R"({"__metadata__":{"a":"1","a":"2"}})", ""), "have 'a' twice"},
                  {with_entry(R"("dtype":"F32","dtype":"F32")"), "tensor 'w' has 'dtype' twice"},
                  {twice(std::string(100'000, 'n')), "nnn\xe2\x80\xa6' twice"}});
}

TEST(Safetensors, EntriesThatAreNotWhatTheFormatHasAreRefused) {
  expect_refused({{with_entry(R"("dtype":"F99","shape":[2,3],"data_offsets":[0,24])"),
                   "tensor 'w' has the unknown dtype 'F99'"},
                  {with_entry(R"("dtype":7)"), "has a number as its dtype"},
                  {with_entry(R"("dtype":"F32","shape":[2,3])"), "has no data_offsets"},
                  {with_entry(R"("dtype":"F32","data_offsets":[0,24])"), "has no shape"},
                  {with_entry(R"("shape":[2,3],"data_offsets":[0,24])"), "has no dtype"},
                  {with_entry(R"("stride":[3,1])"), "has 'stride', which is none of"},
                  {with_entry(R"("shape":[2,-3])"), "has a negative number in its shape"},
                  {with_entry(R"("shape":[2.5])"), "has a fraction in its shape"},
                  {with_entry(R"("shape":[1e400])"), "the header is no JSON"},
                  {with_entry(R"("shape":["2"])"), "has a text in its shape"},
                  {with_entry(R"("shape":[true])"), "has true or false in its shape"},
                  {with_entry(R"("shape":[9223372036854775808])"), "does not fit 63 bits"},
                  {with_entry(R"("data_offsets":[0])"), "has 1 data_offsets, not two"},
                  {with_entry(R"("data_offsets":[0,1,2])"), "has more than two data_offsets"},
                  {with_entry(R"("data_offsets":[24,0])"), "ends at byte 0 and begins behind it, at 24"},
                  {file_of(R"({"__metadata__":{"a":1}})", ""), "have a number as 'a', not a text"}});
}

TEST(Safetensors, SizesThatDoNotFitAreRefusedWithTheNumbers) {
  expect_refused(
      {{with_sizes("[2,3]", "[0,24]"), "not refused"},
       {with_sizes("[2,4]", "[0,24]"),
        "tensor 'w' of shape (2, 4) and dtype F32 takes 32 bytes, but its data_offsets give it 24"},
       {with_sizes("[2,3]", "[0,25]"), "takes 24 bytes, but its data_offsets give it 25"},
       {with_sizes("[4294967296,4294967296]", "[0,24]"), "takes more than 2^63 bytes"},
       {with_sizes("[9223372036854775807,9223372036854775807,0]", "[0,24]"), "takes 0 bytes"},
       {with_sizes("[2,3]", "[4,28]"), "ends at byte 28 of the data, of which the file has 24"},
       {with_sizes("[2,3]", "[9223372036854775783,9223372036854775807]"), "ends at byte 9223372036854775807"},
       {with_sizes("[5]", "[0,20]"), "bytes 20 to 23 of the data belong to no tensor"},
       {with_sizes("[5]", "[4,24]"), "bytes 0 to 3 of the data belong to no tensor"},
       {file_of(R"({"a":{"dtype":"U8","shape":[6],"data_offsets":[0,6]},)"
                R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                "12345678"),
        "tensor 'b' begins at byte 4 of the data, before 'a' ends at 6"}});
}

/// A tensor without elements has no bytes that another could overlap, wherever the header places it.
TEST(Safetensors, TensorsWithoutElementsLieAnywhere) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[6],"data_offsets":[0,6]},)"
                             R"("none":{"dtype":"F32","shape":[0,2],"data_offsets":[0,0]},)"
                             R"("b":{"dtype":"U8","shape":[2],"data_offsets":[6,8]},)"
                             R"("too":{"dtype":"U8","shape":[0],"data_offsets":[6,6]}})";
  EXPECT_EQ(refusal_of(file_of(header, "12345678")), "not refused");
}

TEST(Safetensors, FilesThatAreNotThereAreErrors) {
  const tests::TempFolder folder;
  for (const auto& [path, why] :
       {std::pair(folder / "none.safetensors", "there is no such file"), {folder.path(), "folder"}}) {
    EXPECT_TRUE(
        is_refused(SafetensorsFile::open(path), ErrorCode::kIo, {path.string() + ": cannot be read", why}));
  }
}

TEST(Safetensors, AModelsFilesAreThoseOfItsFolder) {
  const tests::TempFolder folder;
  for (const char* const name : {"a", "b", "c"})
    tests::must(write_safetensors(folder / (std::string(name) + ".safetensors"),
                                  std::array{TensorToStore{name, StoredType::kUint8, {1}, bytes_of(kByte)}}));
  tests::write_file(folder / "model.safetensors.index.json",
                    R"({"metadata": {"total_size": 3}, "weight_map": {"x": "c.safetensors",
                        "y": "a.safetensors", "z": "c.safetensors"}, "more": [1]})");
  const auto tensors = [&] {
    std::string names;
    for (const SafetensorsFile& file : tests::must(SafetensorsFile::open_folder(folder.path())))
      names += file.tensors().front().name;
    return names;
  };
  EXPECT_EQ(tensors(), "ac") << "each shard that the index names, once";
  std::filesystem::rename(folder / "b.safetensors", folder / "model.safetensors");
  EXPECT_EQ(tensors(), "b") << "the index is not read where there is the model's one file";
}

TEST(Safetensors, FoldersWithoutAModelAreRefused) {
  const tests::TempFolder folder;
  const auto open = [&] { return SafetensorsFile::open_folder(folder.path()); };
  const std::string name = "model.safetensors.index.json";
  EXPECT_TRUE(is_refused(open(), ErrorCode::kNotFound,
                         {folder.path().string() + ": has no model.safetensors and no " + name}));
  for (const auto& [content, words] :
       {std::pair{R"({"weight_map": {"a": "b.safetensors")", "is no index of shards: it is wrong at byte 36"},
        {R"({"weight_map": {"a": 3}})", "is no index of shards: it is wrong at byte 21"},
        {R"({"weight_map": {}} x)", "is no index of shards: it is wrong at byte 19"},
        {R"([])", "is no index of shards: it is wrong at byte 0"},
        {R"({"weight_map": {}})", "has no weight_map that names shards"},
        {R"({"metadata": {}})", "has no weight_map that names shards"},
        {R"({"weight_map": {"a": "../a.safetensors"}})", "names no file for the tensor 'a'"},
        {R"({"weight_map": {"a": "/a.safetensors"}})", "names no file for the tensor 'a'"},
        {R"({"weight_map": {"a": ".."}})", "names no file for the tensor 'a'"},
        {R"({"weight_map": {"a": ""}})", "names no file for the tensor 'a'"},
        {R"({"weight_map": {"": "../a.safetensors"}})", "names no file for the tensor ''"},
        {R"({"weight_map": {"": "/a.safetensors"}})", "names no file for the tensor ''"}}) {
    tests::write_file(folder / name, content);
    EXPECT_TRUE(is_refused(open(), ErrorCode::kInvalidArgument, {name + ": ", words})) << content;
  }
  tests::write_file(folder / name, R"({"weight_map": {"a": "shard-2.safetensors"}})");
  EXPECT_TRUE(is_refused(open(), ErrorCode::kIo, {"shard-2.safetensors: cannot be read"}));
  std::filesystem::remove(folder / name);
  std::filesystem::create_directory(folder / name);
  EXPECT_TRUE(is_refused(open(), ErrorCode::kIo, {name + ": cannot be read: this is a folder"}));
}

TEST(Safetensors, WhatCannotBeStoredIsRefusedAndTheOldFileStays) {
  const tests::TempFolder folder;
  const auto path = folder / "w.safetensors";
  tests::write_file(path, "old");
  const auto refusal = [&](std::vector<TensorToStore> tensors,
                           const std::map<std::string, std::string>& metadata = {}) {
    const std::string message = tests::message_of(write_safetensors(path, tensors, metadata));
    EXPECT_EQ(tests::read_file(path), "old");
    EXPECT_EQ(folder.file_count(), 1U);
    return message;
  };
  const TensorToStore good{"w", StoredType::kFloat32, {6}, bytes_of(kWeight)};
  TensorToStore bad = good;
  bad.shape = {7};
  EXPECT_TRUE(has(refusal({bad}), "tensor 'w' of shape (7,) and dtype F32 takes 28 bytes, and was given 24"));
  bad.shape = {-6};
  EXPECT_TRUE(has(refusal({bad}), "of shape (-6,)"));
  EXPECT_TRUE(has(refusal({good, good}), "has 'w' twice"));
  bad = good;
  bad.name = "__metadata__";
  EXPECT_TRUE(has(refusal({bad}), "no tensor can have the name '__metadata__'"));
  bad.name = "\xff";
  EXPECT_TRUE(has(refusal({bad}), "is not UTF-8"));
  EXPECT_TRUE(has(refusal({good}, {{"key", "\xc3"}}), "metadata are not UTF-8"));
  bad.name = std::string(kMaxSafetensorsHeaderBytes, 'n');
  EXPECT_TRUE(has(refusal({bad}), "100000000 are the most"));
  EXPECT_TRUE(is_refused(write_safetensors(path / "within", std::vector{good}), ErrorCode::kIo, {}));
}

}  // namespace
}  // namespace vkattn
