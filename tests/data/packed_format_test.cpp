#include "cleave/data/packed_format.h"

#include <numeric>

#include "data/packed_numbers.h"
#include "data/tokens_in.h"
#include "support/errors.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

namespace cleave::data {
namespace {

using cleave::testing::packed;
using cleave::testing::TemporaryDirectory;
using cleave::testing::tokens_in;
using cleave::testing::user_error;
using Tokens = std::vector<std::int32_t>;

std::string llmc_header(std::uint32_t magic, std::uint32_t version, std::uint32_t count) {
  std::vector<std::uint32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return packed(header);
}

std::string numpy(const std::string& type, const std::string& numbers) {
  std::string text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (3,), }";
  text.resize(117, ' ');
  text += '\n';
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + text + numbers;
}

const std::vector<std::uint16_t> kNarrow = {5, 300, 65535};
const std::vector<std::uint32_t> kWide = {5, 300, 65535};
const Tokens kTokens = {5, 300, 65535};

TEST(PackedFormat, ReadsLlmcAfterItsHeader) {
  const TemporaryDirectory dir;

  EXPECT_EQ(tokens_in(dir.write("a.bin", llmc_header(20240520, 1, 3) + packed(kNarrow))), kTokens);
  EXPECT_EQ(tokens_in(dir.write("b.bin", llmc_header(20240801, 7, 3) + packed(kWide))), kTokens);
  const auto cut = dir.write("cut.bin", llmc_header(20240520, 1, 4) + packed(kNarrow));
  EXPECT_EQ(user_error([&] { tokens_in(cut); }),
            cut + " has 3 tokens, but its header says 4; it was cut off");
}

TEST(PackedFormat, ReadsOtherVersionsOfLlmcByTheirNumberOfTokens) {
  const TemporaryDirectory dir;

  EXPECT_EQ(tokens_in(dir.write("a.bin", llmc_header(20240520, 2, 3) + packed(kNarrow))), kTokens);
  EXPECT_EQ(tokens_in(dir.write("b.bin", llmc_header(20240801, 8, 3) + packed(kWide))), kTokens);
  const auto other = dir.write("c.bin", llmc_header(20240520, 2, 5) + packed(kNarrow));
  EXPECT_EQ(user_error([&] { tokens_in(other); }),
            other +
                " has a header of llm.c of version 2 and 5 tokens, which its 6 bytes after that "
                "are not, of 16 or 32 bits each; it was cut off, or is of another kind");
  const auto longer = dir.write("d.bin", llmc_header(20240520, 1, 2) + packed(kNarrow));
  EXPECT_EQ(user_error([&] { tokens_in(longer); }),
            longer + " has 3 tokens, but its header says 2; something was added to it");
  const auto weights = dir.write("gpt2_124M.bin", llmc_header(20240326, 3, 0) + packed(kWide));
  EXPECT_EQ(user_error([&] { tokens_in(weights); }),
            weights + " is the weights of a model of llm.c, not a file of tokens");
}

TEST(PackedFormat, HoldsNumpyArraysToTheirShape) {
  const TemporaryDirectory dir;
  const auto cut = dir.write("cut.npy", numpy("<u2", packed<std::uint16_t>({5, 300})));
  EXPECT_EQ(user_error([&] { tokens_in(cut); }),
            cut + " has 2 tokens, but its header says 3; it was cut off");
  std::string by_columns = numpy("<u2", packed<std::uint16_t>({1, 2, 3, 4}));
  const std::string from = "False, 'shape': (3,), }    ", to = "True, 'shape': (2, 2), }   ";
  by_columns.replace(by_columns.find(from), from.size(), to);
  const auto columns = dir.write("columns.npy", by_columns);
  EXPECT_EQ(user_error([&] { tokens_in(columns); }),
            columns +
                " has its columns one after another (fortran_order), not its rows; save it in "
                "C order");
}

TEST(PackedFormat, KnowsNumbersBelowZero) {
  const TemporaryDirectory dir;
  EXPECT_EQ(tokens_in(dir.write("a.npy", numpy("|i1", std::string("\1\2\3")))), (Tokens{1, 2, 3}));
  const auto negative = dir.write("b.npy", numpy("<i2", packed<std::int16_t>({5, 7, -1})));
  EXPECT_EQ(user_error([&] { tokens_in(negative); }),
            negative + " has -1 at position 2, which is no token; save numbers from 0 on");
  // As labels have it that are not learned; the highest bit is no mark here.
  const auto ignored = dir.write("c.npy", numpy("<i4", packed<std::int32_t>({5, -100, 7})));
  EXPECT_EQ(user_error([&] { tokens_in(ignored); }),
            ignored + " has -100 at position 1, which is no token; save numbers from 0 on");
}

TEST(PackedFormat, ReadsNoTarArchiveAsText) {
  const TemporaryDirectory dir;
  std::string tar(1024, '\0');
  tar.replace(0, 5, "a.txt");
  tar.replace(257, 5, "ustar");
  for (const std::string name : {"a.tar", "a"}) {
    const auto path = dir.write(name, tar);
    EXPECT_EQ(user_error([&] { tokens_in(path); }),
              path + " is a tar archive, neither text nor tokens");
  }
}

TEST(PackedFormat, ReadsNumpyArraysOfAnyWholeNumbers) {
  const TemporaryDirectory dir;
  const std::vector<std::int64_t> wider = {5, 300, 65535};

  EXPECT_EQ(tokens_in(dir.write("a.npy", numpy("<u2", packed(kNarrow)))), kTokens);
  EXPECT_EQ(tokens_in(dir.write("b.npy", numpy("<i4", packed(kWide)))), kTokens);
  EXPECT_EQ(tokens_in(dir.write("c.npy", numpy("<i8", packed(wider)))), kTokens);
  const auto cut = dir.write("g.npy", std::string("\x93NUMPY\x02\x00", 8));
  EXPECT_EQ(user_error([&] { tokens_in(cut); }), cut + " was cut off inside of its header");
  const auto floats = dir.write("f.npy", numpy("<f4", packed(kWide)));
  EXPECT_EQ(
      user_error([&] { tokens_in(floats); }),
      floats + " is an array of '<f4', which are no tokens; save whole numbers, such as uint16");
}

TEST(PackedFormat, ReadsMegatronByItsIndex) {
  const TemporaryDirectory dir;
  const std::string head = std::string("MMIDIDX\0\0", 9) + packed<std::uint64_t>({1}) + '\x04' +
                           packed<std::uint64_t>({2, 3});
  const std::string sizes = packed<std::int32_t>({1, 2}) + packed<std::int64_t>({0, 4});
  dir.write("m.idx", head + sizes + packed<std::int64_t>({0, 1, 2}));
  const auto bin = dir.write("m.bin", packed(kWide));

  EXPECT_EQ(tokens_in(bin), kTokens);
  dir.write("m.idx", head + packed<std::int32_t>({1, 3}) + packed<std::int64_t>({0, 4, 0, 1, 2}));
  EXPECT_EQ(user_error([&] { tokens_in(bin); }),
            bin + " is shorter than its index says; it was cut off");
}

TEST(PackedFormat, HoldsCountsOfMegatronAgainstTheIndex) {
  const TemporaryDirectory dir;
  const auto bin = dir.write("m.bin", packed(kWide));
  const std::string sizes = packed<std::int32_t>({1, 2}) + packed<std::int64_t>({0, 4, 0, 1, 2});
  // Twelve times each of these is small in 64 bits.
  for (const std::uint64_t sequences : {~std::uint64_t{0}, std::uint64_t{1} << 62}) {
    const auto index =
        dir.write("m.idx", std::string("MMIDIDX\0\0", 9) + packed<std::uint64_t>({1}) + '\x04' +
                               packed<std::uint64_t>({sequences, 3}) + sizes);
    EXPECT_EQ(user_error([&] { tokens_in(bin); }), index + " was cut off");
  }
}

TEST(PackedFormat, HoldsSequencesOfMegatronAgainstTheirFile) {
  const TemporaryDirectory dir;
  const auto bin = dir.write("m.bin", packed(kWide));
  const auto refusal = [&](std::uint64_t version, std::vector<std::int32_t> lengths,
                           std::vector<std::int64_t> rest) {
    const auto index = dir.write(
        "m.idx", std::string("MMIDIDX\0\0", 9) + packed<std::uint64_t>({version}) + '\x04' +
                     packed<std::uint64_t>({2, 3}) + packed(lengths) + packed(rest));
    return user_error([&] { tokens_in(bin); }).substr(index.size());
  };

  EXPECT_EQ(refusal(2, {1, 2}, {0, 4, 0, 1, 2}),
            " is an index of Megatron of version 2, and cleave reads version 1");
  EXPECT_EQ(refusal(1, {1, 2}, {0, 4, 0, 1}), " was cut off");
  EXPECT_EQ(refusal(1, {1, -2}, {0, 4, 0, 1, 2}),
            " has a sequence of -2 tokens at byte 4; make the index anew");
  EXPECT_EQ(refusal(1, {1, 2}, {0, -4, 0, 1, 2}),
            " has a sequence of 2 tokens at byte -4; make the index anew");
}

TEST(PackedFormat, ReadsNoWeightsOrArchivesAsText) {
  const TemporaryDirectory dir;
  const auto refusal = [&](const std::string& name, const std::string& bytes) {
    const auto path = dir.write(name, bytes + std::string(100, 'x'));
    return user_error([&] { tokens_in(path); }).substr(path.size());
  };

  EXPECT_EQ(refusal("a.safetensors", std::string("\x60\0\0\0\0\0\0\0{\"", 10)),
            " is a safetensors file, neither text nor tokens");
  EXPECT_EQ(refusal("a.txt.lz4", "\x04\x22\x4d\x18"), " is an LZ4 file, neither text nor tokens");
  EXPECT_EQ(refusal("a.gguf", "GGUF"), " is a GGUF file, neither text nor tokens");
  EXPECT_EQ(refusal("a.idx", std::string("MMIDIDX\0\0", 9)),
            " is the index of a Megatron file (its .bin beside it is what to name), neither text "
            "nor tokens");
  EXPECT_EQ(refusal("a.png", "\x89PNG\r\n"),
            " is a PNG image (cleave data pack makes a set of images), neither text nor tokens");
}

TEST(PackedFormat, NamesWhatItRefuses) {
  const TemporaryDirectory dir;
  std::vector<std::int64_t> wide(100);
  std::iota(wide.begin(), wide.end(), 1);
  const auto wide_bin = dir.write("w.bin", packed(wide));
  const auto pickle = dir.write("p.bin", std::string("\x80\x04\x95", 3) + std::string(100, 'x'));

  EXPECT_EQ(user_error([&] { tokens_in(wide_bin); }),
            wide_bin + " seems to hold int64 tokens; save them as uint16 or uint32, or as .npy");
  EXPECT_EQ(user_error([&] { tokens_in(pickle); }),
            pickle + " is a Python pickle, not a file of tokens");
}

}  // namespace
}  // namespace cleave::data
