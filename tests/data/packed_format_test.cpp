#include "cleave/data/packed_format.h"

#include <numeric>

#include "data/packed_numbers.h"
#include "support/errors.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "cleave/data/dataset.h"
#include "cleave/data/token_stream.h"
#include "cleave/data/token_writer.h"

namespace cleave::data {
namespace {

using cleave::testing::packed;
using cleave::testing::TemporaryDirectory;
using cleave::testing::user_error;
using Tokens = std::vector<std::int32_t>;

Tokens tokens_in(const std::filesystem::path& path, const StreamOptions& options = {}) {
  const TokenStream stream(path, TokenType::Auto, 70'000, options);
  Tokens tokens(static_cast<std::size_t>(stream.size()));
  stream.read(0, tokens);
  return tokens;
}

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

std::string gzip(const std::string& text) {
  std::string out(text.size() + 200, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

TEST(Compression, IsUnpackedForTextAndTokens) {
  const TemporaryDirectory dir;
  std::string text(3'000'000, 'a');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i * i % 23);
  const Tokens bytes(text.begin(), text.end());

  EXPECT_EQ(tokens_in(dir.write("a.txt.gz", gzip(text))), bytes);
  EXPECT_EQ(tokens_in(dir.write("b.txt.zst", zstd(text))), bytes);
  EXPECT_EQ(tokens_in(dir.write("c.bin.gz", gzip(packed(kNarrow)))), kTokens);
  const auto archive = dir.write("zip.gz", gzip("PK\3\4" + text));
  EXPECT_EQ(user_error([&] { tokens_in(archive); }),
            archive +
                " is .gz of a zip archive (.npz, .pt and .zip are such), neither text nor "
                "tokens");
  const auto cut = dir.write("cut.txt.gz", gzip(text).substr(0, 1000));
  EXPECT_EQ(user_error([&] { tokens_in(cut); }), cut + " is a gzip file that was cut off");
}

TEST(JsonLines, AreDocumentsOfTheirTexts) {
  const TemporaryDirectory dir;
  const auto good = dir.write("a.jsonl", "{\"text\": \"ab\"}\n\n{\"text\": \"c\\u00e9\"}\n");
  const auto bad = dir.write("b.jsonl", "{\"text\": \"ab\"}\n{\"texts\": []}\n");

  EXPECT_EQ(tokens_in(good), (Tokens{'a', 'b', '\n', 'c', 0xc3, 0xa9, '\n'}));
  EXPECT_EQ(user_error([&] { tokens_in(bad); }),
            bad +
                ":2 has neither \"messages\" nor a \"text\" that is a string; every line must have "
                "one");
}

TEST(TokenStream, TokenizesTextAndEndsDocuments) {
  const TemporaryDirectory dir;
  const auto tokenizer = parse_tokenizer_json(
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "</s>": 3}, "merges": ["a b"]}})");
  dir.write("t/1.txt", "aab");
  dir.write("t/2.txt", "b");

  EXPECT_EQ(tokens_in(dir.path() / "t", {.tokenizer = tokenizer.get()}), (Tokens{0, 2, 3, 1, 3}));
}

TEST(TokenStream, JoinsTheFilesOfAPattern) {
  const TemporaryDirectory dir;
  dir.write("s-2.bin", packed<std::uint16_t>({3, 4}));
  dir.write("s-1.bin", packed<std::uint16_t>({1, 2}));

  EXPECT_EQ(tokens_in(dir.path() / "s-*.bin"), (Tokens{1, 2, 3, 4}));
}

TEST(TokenStream, SaysThatAFileWasCutOffWhileItWasRead) {
  const TemporaryDirectory dir;
  const auto path = dir.write("a.txt", std::string(200'000, 'x'));
  const TokenStream stream(path, TokenType::Auto, 256);
  std::filesystem::resize_file(path, 1000);
  Tokens tokens(10);

  EXPECT_NE(user_error([&] { stream.read(150'000, tokens); }).find(path), std::string::npos);
}

TEST(TokenWriter, WritesWhatTokenStreamReads) {
  const TemporaryDirectory dir;
  for (const char* name : {"a.npy", "b.bin", "c.u32.bin"}) {
    TokenWriter writer(dir.path() / name, 65536);
    writer.append(Tokens{5, 300});
    writer.append(Tokens{65535});
    writer.finish();
    EXPECT_EQ(tokens_in(dir.path() / name), kTokens) << name;
  }
  EXPECT_EQ(user_error([&] { TokenWriter(dir.path() / "d.bin", 70'000); }),
            "a vocabulary of 70000 does not fit the 16-bit tokens of " +
                (dir.path() / "d.bin").string() + "; end --out in .u32.bin or .npy");
}

TEST(Dataset, MixesSourcesByTheirWeights) {
  const TemporaryDirectory dir;
  const std::string a = dir.write("a.txt", std::string(1001, 'a'));
  const std::string b = dir.write("b.txt", std::string(5001, 'b'));
  const Data data({.config = {.path = {{a, 0.3}, {b, 0.7}}, .validation = 0.0},
                   .vocabulary = 256,
                   .sequence = 10,
                   .batch = 4});
  std::int64_t of_a = 0;
  std::vector<int> seen(100);
  Tokens x(10);
  for (std::int64_t i = 0; i < 10'000; ++i) {
    data.training().read(data.training().window(i / 4, i % 4), "tokens", {.ids = x});
    const std::int64_t window = data.training().window(i / 4, i % 4);
    EXPECT_EQ(window < 100, x[0] == 'a');
    if (window < 100) ++seen[static_cast<std::size_t>(window)];
    of_a += x[0] == 'a' ? 1 : 0;
  }

  EXPECT_EQ(of_a, 3000);
  EXPECT_EQ(seen, std::vector<int>(100, 30));  // every epoch of a sees each of its windows once
  EXPECT_DOUBLE_EQ(data.training().epochs(2500), 30);
}

TEST(Data, FindsATokenBeyondTheVocabularyWhereverItIs) {
  const TemporaryDirectory dir;
  std::vector<std::uint16_t> tokens(200'000, 7);
  tokens[199'999] = 300;
  const auto path = dir.write("t.bin", packed(tokens));
  const auto open = [&](int process) {
    return user_error([&] {
      Data({.config = {.path = {{.path = path}}},
            .vocabulary = 256,
            .sequence = 10,
            .batch = 1,
            .process = process,
            .processes = 2});
    });
  };

  EXPECT_EQ(open(0), "(no UserError was thrown)");
  EXPECT_EQ(open(1), path +
                         " has token 300 at position 199999, but model.vocab is 256; set "
                         "model.vocab to at least 301, or check data.dtype");
}

}  // namespace
}  // namespace cleave::data
