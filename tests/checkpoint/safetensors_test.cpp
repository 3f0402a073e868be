#include "cleave/checkpoint/safetensors.h"

#include <bit>
#include <limits>

#include "support/errors.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace cleave::checkpoint {
namespace {

using cleave::testing::TemporaryDirectory;
using cleave::testing::user_error;

std::string prefix(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xff);
  return bytes;
}

/// A file with this header and so many bytes of data.
std::string file_of(const std::string& header, std::size_t data) {
  return prefix(header.size()) + header + std::string(data, '\x01');
}

std::string as_text(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

TEST(Safetensors, WidensHalvesExactly) {
  const std::vector<std::uint16_t> halves = {0x0000, 0x8000, 0x3c00, 0xc000, 0x7bff,
                                             0x0001, 0x83ff, 0x0400, 0x7c00, 0x3555};
  const std::vector<float> expected = {
      0,           -0.0f,    1,
      -2,          65504,    0x1p-24f,
      -0x3ffp-24f, 0x1p-14f, std::numeric_limits<float>::infinity(),
      0x1.554p-2f};
  const SafetensorsHeader header =
      lay_out({{.name = "w", .type = StoredType::F16, .shape = {std::ssize(halves)}}});
  std::string bytes = header.text;
  bytes.append(reinterpret_cast<const char*>(halves.data()), 2 * halves.size());
  const TemporaryDirectory dir;
  const SafetensorsFile file(dir.write("half.safetensors", bytes));
  std::vector<float> read(halves.size());

  file.read(*file.find("w"), 0, read);

  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(read[i]), std::bit_cast<std::uint32_t>(expected[i]))
        << i;
  }
}

TEST(Safetensors, HasTheBytesOfTheFormat) {
  const SafetensorsHeader header = lay_out({{.name = "a", .type = StoredType::F32, .shape = {1, 2}},
                                            {.name = "b", .type = StoredType::BF16, .shape = {3}}});

  // 8 + 184 bytes: the tensors start on a border of 64.
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]}})";
  EXPECT_EQ(header.text,
            std::string("\xb8\0\0\0\0\0\0\0", 8) + json + std::string(184 - json.size(), ' '));
  EXPECT_EQ(header.tensors[0].offset, 192);
  EXPECT_EQ(header.tensors[1].offset, 200);
  EXPECT_EQ(header.file_bytes, 206);
}

TEST(Safetensors, ReadsBackWhatItLaidOut) {
  const TemporaryDirectory dir;
  const SafetensorsHeader header = lay_out({{.name = "scalar", .shape = {}},
                                            {.name = "empty", .shape = {0, 4}},
                                            {.name = "w \"q\" \\ é", .shape = {2, 3}}});
  const std::vector<float> data = {9, 1, 2, 3, 4, 5, 6};
  const SafetensorsFile file(dir.write("x.safetensors", header.text + as_text(data)));

  const TensorEntry* w = file.find("w \"q\" \\ é");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->shape, (Shape{2, 3}));
  std::vector<float> slice(3);
  file.read(*w, 2, slice);
  EXPECT_EQ(slice, (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(file.find("empty")->bytes(), 0);
  EXPECT_EQ(file.find("scalar")->bytes(), 4);
  EXPECT_EQ(file.find("none"), nullptr);
}

TEST(Safetensors, WidensBf16) {
  const TemporaryDirectory dir;
  const std::vector<float> values = {1.5f, -2.0f, 0.0f, 3.0f, -0.25f};
  std::string data;
  for (float v : values) data += as_text({&v, 1}).substr(2);
  const SafetensorsHeader header = lay_out({{.name = "w", .type = StoredType::BF16, .shape = {5}}});
  const SafetensorsFile file(dir.write("x.safetensors", header.text + data));

  std::vector<float> read(5);
  file.read(*file.find("w"), 0, read);

  EXPECT_EQ(read, values);
}

TEST(Safetensors, RefusesHostileHeaders) {
  const std::string f32 = R"({"dtype":"F32","shape":[2],"data_offsets":)";
  struct Case {
    std::string bytes;
    std::string complaint;
  };
  const std::vector<Case> cases = {
      {"abc", "it has only 3 bytes"},
      {prefix(1ull << 62) + "{}",
       "its header claims 4611686018427387904 bytes, more than the limit of 100000000"},
      {prefix(50) + "{}", "its header claims 50 bytes, but the file has 10"},
      {file_of("{\"a\":", 0), "its header is not JSON"},
      {file_of("[]", 0), "its header is no JSON object"},
      {file_of("{\"\xff\":1}", 0), "its header is not JSON"},
      {file_of("{\"a\":" + f32 + "[0,8]},\"a\":" + f32 + "[0,8]}}", 8),
       "the key \"a\" appears twice"},
      {file_of(R"({"a":{"dtype":"F32","dtype":"BF16","shape":[2],"data_offsets":[0,8]}})", 8),
       "the key \"dtype\" appears twice"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2]}})", 8),
       "tensor \"a\" must have dtype, shape and data_offsets"},
      {file_of(R"({"a":7})", 8), "tensor \"a\" must have dtype, shape and data_offsets"},
      {file_of(R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", 8),
       "tensor \"a\" has the type \"F64\", cleave reads F32, BF16, F16 and I32"},
      {file_of(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8),
       "tensor \"a\" has the number -2, which is out of range"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", 8),
       "tensor \"a\" has 2.5 where a whole number must stand"},
      {file_of(R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})", 8),
       "tensor \"a\" has the number 18446744073709551615, which is out of range"},
      {file_of(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8),
       "the shape [4294967296,4294967296] of tensor \"a\" overflows"},
      {file_of(R"({"a":{"dtype":"F32","shape":[1,1,1,1,2],"data_offsets":[0,8]}})", 8),
       "tensor \"a\" has 5 dims, cleave reads at most 4"},
      {file_of(R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", 8),
       "tensor \"a\" has no list as its shape"},
      {file_of("{\"a\":" + f32 + "[0,4]}}", 8),
       "tensor \"a\" of shape [2] needs 8 bytes, but its offsets are [0, 4]"},
      {file_of("{\"a\":" + f32 + "[8,0]}}", 8),
       "tensor \"a\" of shape [2] needs 8 bytes, but its offsets are [8, 0]"},
      {file_of("{\"a\":" + f32 + "[0]}}", 8), "tensor \"a\" must have two data_offsets"},
      {file_of("{\"a\":" + f32 + "[8,16]}}", 8),
       "tensor \"a\" reaches past the end of the file, to byte 8 + 8 of 8"},
      {file_of("{\"a\":" + f32 + "[9223372036854775799,9223372036854775807]}}", 8),
       "tensor \"a\" reaches past the end of the file, to byte 9223372036854775799 + 8 of 8"},
      {file_of("{\"a\":" + f32 + "[0,8]},\"b\":" + f32 + "[4,12]}}", 12),
       "tensor \"b\" overlaps the one before it"},
      {file_of("{\"a\":" + f32 + "[0,8]},\"b\":" + f32 + "[12,20]}}", 20),
       "there is a hole of 4 bytes before tensor \"b\""},
      {file_of("{\"a\":" + f32 + "[0,8]}}", 9), "1 bytes after the last tensor belong to none"},
      {file_of(R"({"__metadata__":{"a":1}})", 0), "its __metadata__ must hold strings only"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 988097824\n",
       "it is a pointer that Git LFS left in its place; fetch the file with git lfs pull"},
      {file_of(std::string(100'000, '['), 0), "its header nests deeper than 64 levels"},
  };
  const TemporaryDirectory dir;
  for (const auto& [bytes, complaint] : cases) {
    const auto path = dir.write("x.safetensors", bytes);
    EXPECT_EQ(user_error([&] { SafetensorsFile{path}; }),
              path + " is not a sound safetensors file: " + complaint);
  }
}

TEST(Safetensors, DoesNotWaitForPipes) {
  const TemporaryDirectory dir;
  const std::string path = dir.path("x.safetensors");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(user_error([&] { SafetensorsFile{path}; }),
            "cannot read " + path + ": it is no regular file");
}

TEST(Safetensors, AcceptsTensorsInAnyOrderOfTheHeader) {
  const TemporaryDirectory dir;
  const std::string header =
      R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
      R"("__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  )";
  const SafetensorsFile file(dir.write("x.safetensors", file_of(header, 8)));

  EXPECT_EQ(file.header().tensors[0].name, "a");
}

}  // namespace
}  // namespace cleave::checkpoint
