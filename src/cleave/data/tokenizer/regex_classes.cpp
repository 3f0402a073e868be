#include "cleave/data/tokenizer/regex_classes.h"

namespace cleave::data::tokenizer {
namespace {

// What Unicode 15 and 16 have added to a category; PCRE2 10.42 knows Unicode 14.
constexpr std::string_view kNewLu =
    R"(\x{1c89}\x{a7cb}-\x{a7cc}\x{a7da}\x{a7dc}\x{10d50}-\x{10d65})";
constexpr std::string_view kNewLl =
    R"(\x{1c8a}\x{a7cd}\x{a7db}\x{10d70}-\x{10d85}\x{1df25}-\x{1df2a})";
constexpr std::string_view kNewLm =
    R"(\x{10d4e}\x{10d6f}\x{16d40}-\x{16d42}\x{16d6b}-\x{16d6c}\x{1e030}-\x{1e06d}\x{1e4eb})";
constexpr std::string_view kNewLo =
    R"(\x{105c0}-\x{105f3}\x{10d4a}-\x{10d4d}\x{10d4f}\x{10ec2}-\x{10ec4}\x{1123f}-\x{11240})"
    R"(\x{11380}-\x{11389}\x{1138b}\x{1138e}\x{11390}-\x{113b5}\x{113b7}\x{113d1}\x{113d3})"
    R"(\x{11bc0}-\x{11be0}\x{11f02}\x{11f04}-\x{11f10}\x{11f12}-\x{11f33}\x{1342f})"
    R"(\x{13441}-\x{13446}\x{13460}-\x{143fa}\x{16100}-\x{1611d}\x{16d43}-\x{16d6a}\x{18cff})"
    R"(\x{1b132}\x{1b155}\x{1e4d0}-\x{1e4ea}\x{1e5d0}-\x{1e5ed}\x{1e5f0}\x{2b739})"
    R"(\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";
constexpr std::string_view kNewMn =
    R"(\x{897}\x{ece}\x{10d69}-\x{10d6d}\x{10efc}-\x{10eff}\x{11241}\x{113bb}-\x{113c0})"
    R"(\x{113ce}\x{113d0}\x{113d2}\x{113e1}-\x{113e2}\x{11f00}-\x{11f01}\x{11f36}-\x{11f3a})"
    R"(\x{11f40}\x{11f42}\x{11f5a}\x{13440}\x{13447}-\x{13455}\x{1611e}-\x{16129})"
    R"(\x{1612d}-\x{1612f}\x{1e08f}\x{1e4ec}-\x{1e4ef}\x{1e5ee}-\x{1e5ef})";
constexpr std::string_view kNewMc =
    R"(\x{cf3}\x{113b8}-\x{113ba}\x{113c2}\x{113c5}\x{113c7}-\x{113ca}\x{113cc}-\x{113cd})"
    R"(\x{113cf}\x{1171e}\x{11f03}\x{11f34}-\x{11f35}\x{11f3e}-\x{11f3f}\x{11f41})"
    R"(\x{1612a}-\x{1612c})";
constexpr std::string_view kNewNd =
    R"(\x{10d40}-\x{10d49}\x{116d0}-\x{116e3}\x{11bf0}-\x{11bf9}\x{11f50}-\x{11f59})"
    R"(\x{16130}-\x{16139}\x{16d70}-\x{16d79}\x{1ccf0}-\x{1ccf9}\x{1e4f0}-\x{1e4f9})"
    R"(\x{1e5f1}-\x{1e5fa})";
constexpr std::string_view kNewNo = R"(\x{1d2c0}-\x{1d2d3})";
constexpr std::string_view kNewPd = R"(\x{10d6e})";
constexpr std::string_view kNewPo =
    R"(\x{1b4e}-\x{1b4f}\x{1b7f}\x{113d4}-\x{113d5}\x{113d7}-\x{113d8}\x{11b00}-\x{11b09})"
    R"(\x{11be1}\x{11f43}-\x{11f4f}\x{16d6d}-\x{16d6f}\x{1e5ff})";
constexpr std::string_view kNewSm = R"(\x{10d8e}-\x{10d8f})";
constexpr std::string_view kNewSo =
    R"(\x{2427}-\x{2429}\x{2ffc}-\x{2fff}\x{31e4}-\x{31e5}\x{31ef}\x{1cc00}-\x{1ccef})"
    R"(\x{1cd00}-\x{1ceb3}\x{1f6dc}\x{1f774}-\x{1f776}\x{1f77b}-\x{1f77f}\x{1f7d9})"
    R"(\x{1f8b2}-\x{1f8bb}\x{1f8c0}-\x{1f8c1}\x{1fa75}-\x{1fa77}\x{1fa87}-\x{1fa89}\x{1fa8f})"
    R"(\x{1faad}-\x{1faaf}\x{1fabb}-\x{1fabf}\x{1fac6}\x{1face}-\x{1facf}\x{1fada}-\x{1fadc})"
    R"(\x{1fadf}\x{1fae8}-\x{1fae9}\x{1faf7}-\x{1faf8}\x{1fbcb}-\x{1fbef})";
// Letters aside.
constexpr std::string_view kNewAlphabetic =
    R"(\x{363}-\x{36f}\x{897}\x{c04}\x{cf3}\x{f82}-\x{f83}\x{1dd3}-\x{1de6}\x{10d69}\x{10efc})"
    R"(\x{11080}-\x{11081}\x{11241}\x{113b8}-\x{113c0}\x{113c2}\x{113c5}\x{113c7}-\x{113ca})"
    R"(\x{113cc}-\x{113cd}\x{11f00}-\x{11f01}\x{11f03}\x{11f34}-\x{11f3a}\x{11f3e}-\x{11f40})"
    R"(\x{1611e}-\x{1612e}\x{1e08f})";

/// What stands for an escape inside of brackets, in up to nine parts. PCRE2's \s counts U+180E, its
/// \w (before 10.43) no marks, and its \h is a space.
struct ClassRow {
  std::string_view escape;  // without the backslash, in lower case
  std::string_view parts[9];
};

constexpr std::string_view kSpaces =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kWords =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

constexpr ClassRow kRows[] = {
    {"s", {kSpaces}},
    {"w", {kWords, kNewLu, kNewLl, kNewLm, kNewLo, kNewMn, kNewMc, kNewNd}},
    {"d", {R"(\p{Nd})", kNewNd}},
    {"h", {"0-9A-Fa-f"}},
    {"p{L}", {R"(\p{L})", kNewLu, kNewLl, kNewLm, kNewLo}},
    {"p{Lu}", {R"(\p{Lu})", kNewLu}},
    {"p{Ll}", {R"(\p{Ll})", kNewLl}},
    {"p{Lm}", {R"(\p{Lm})", kNewLm}},
    {"p{Lo}", {R"(\p{Lo})", kNewLo}},
    {"p{M}", {R"(\p{M})", kNewMn, kNewMc}},
    {"p{Mn}", {R"(\p{Mn})", kNewMn}},
    {"p{Mc}", {R"(\p{Mc})", kNewMc}},
    {"p{N}", {R"(\p{N})", kNewNd, kNewNo}},
    {"p{Nd}", {R"(\p{Nd})", kNewNd}},
    {"p{No}", {R"(\p{No})", kNewNo}},
    {"p{P}", {R"(\p{P})", kNewPd, kNewPo}},
    {"p{Pd}", {R"(\p{Pd})", kNewPd}},
    {"p{Po}", {R"(\p{Po})", kNewPo}},
    {"p{S}", {R"(\p{S})", kNewSm, kNewSo}},
    {"p{Sm}", {R"(\p{Sm})", kNewSm}},
    {"p{So}", {R"(\p{So})", kNewSo}},
    {"p{Alpha}", {R"(\p{Alphabetic})", kNewAlphabetic, kNewLu, kNewLl, kNewLm, kNewLo}},
    {"p{Alphabetic}", {R"(\p{Alphabetic})", kNewAlphabetic, kNewLu, kNewLl, kNewLm, kNewLo}},
};

std::string spelled(const ClassRow& row) {
  std::string out;
  for (const std::string_view part : row.parts) out += part;
  return out;
}

}  // namespace

std::optional<EscapedClass> escaped_class(std::string_view text) {
  if (text.size() < 2 || text[0] != '\\') return std::nullopt;
  std::string escape(text.substr(1, text[1] == 'p' || text[1] == 'P' ? text.find('}') : 1));
  const std::size_t length = 1 + escape.size();
  bool negated = escape[0] >= 'A' && escape[0] <= 'Z';
  if (negated) escape[0] = static_cast<char>(escape[0] + 32);
  if (escape.starts_with("p{^")) {
    negated = !negated;
    escape.erase(2, 1);
  }
  for (const ClassRow& row : kRows)
    if (row.escape == escape) return EscapedClass{length, negated, spelled(row)};
  return std::nullopt;
}

std::string word_class() {
  return escaped_class("\\w")->inside;
}

std::optional<std::string> posix_class(std::string_view name) {
  const auto of = [](std::string_view escape) { return escaped_class(escape)->inside; };
  if (name == "alpha") return of(R"(\p{Alpha})");
  if (name == "alnum") return of(R"(\p{Alpha})") + of(R"(\d)");
  if (name == "ascii") return R"(\x{0}-\x{7f})";
  if (name == "blank") return R"(\p{Zs}\x{9})";
  if (name == "cntrl") return R"(\p{Cc})";
  if (name == "digit") return of(R"(\d)");
  if (name == "lower") return R"(\p{Lowercase})";
  if (name == "punct") return of(R"(\p{P})") + of(R"(\p{S})");
  if (name == "space") return of(R"(\s)");
  if (name == "upper") return R"(\p{Uppercase})";
  if (name == "word") return of(R"(\w)");
  if (name == "xdigit") return of(R"(\h)");
  return std::nullopt;
}

}  // namespace cleave::data::tokenizer
