#include "cleave/data/token_stream.h"

#include <numeric>

#include "data/packed_numbers.h"
#include "data/tokens_in.h"
#include "support/errors.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "cleave/data/dataset.h"
#include "cleave/data/token_writer.h"

namespace cleave::data {
namespace {

using cleave::testing::packed;
using cleave::testing::TemporaryDirectory;
using cleave::testing::tokens_in;
using cleave::testing::user_error;
using Tokens = std::vector<std::int32_t>;

const std::vector<std::uint16_t> kShortNumbers = {5, 300, 65535};
const Tokens kNumbers = {5, 300, 65535};

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
  EXPECT_EQ(tokens_in(dir.write("c.bin.gz", gzip(packed(kShortNumbers)))), kNumbers);
  const auto archive = dir.write("zip.gz", gzip("PK\3\4" + text));
  EXPECT_EQ(user_error([&] { tokens_in(archive); }),
            archive +
                " is .gz of a zip archive (.npz, .pt and .zip are such), neither text nor "
                "tokens");
  const auto cut = dir.write("cut.txt.gz", gzip(text).substr(0, 1000));
  EXPECT_EQ(user_error([&] { tokens_in(cut); }), cut + " is a gzip file that was cut off");
}

// What comes of a step of unpacking fills the room for it exactly.
TEST(Compression, IsUnpackedWhateverTheSize) {
  const TemporaryDirectory dir;
  for (const std::size_t size : {std::size_t{1} << 20, std::size_t{2} << 20}) {
    const std::string text(size, 'a');
    const Tokens once(size, 'a'), twice(2 * size, 'a');
    EXPECT_EQ(tokens_in(dir.write("a.txt.zst", zstd(text))), once);
    EXPECT_EQ(tokens_in(dir.write("b.txt.zst", zstd(text) + zstd(text))), twice);
    EXPECT_EQ(tokens_in(dir.write("c.txt.gz", gzip(text) + gzip(text))), twice);
    const auto cut = dir.write("cut.txt.zst", zstd(text) + zstd(text).substr(0, 30));
    EXPECT_EQ(user_error([&] { tokens_in(cut); }), cut + " is a zstd file that was cut off");
  }
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

// Copying a value of that depth takes more stack than there is.
TEST(JsonLines, NestNoDeeperThanTexts) {
  const TemporaryDirectory dir;
  constexpr std::size_t kDepth = 1'000'000;
  const std::string content = std::string(kDepth, '[') + std::string(kDepth, ']');
  const auto deep = dir.write(
      "a.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": {\"a\": " + content + "}}]}\n");

  EXPECT_EQ(user_error([&] { tokens_in(deep, {.chat = find_chat_template("chatml")}); }),
            deep + ":1 is no JSON object; every line must be one");
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
    EXPECT_EQ(tokens_in(dir.path() / name), kNumbers) << name;
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
