#include "cleave/data/image/tar.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "cleave/base/check.h"

namespace cleave::data {
namespace {

constexpr std::int64_t kTarBlock = 512;

using TarHeader = std::array<char, kTarBlock>;

std::string_view tar_field(const TarHeader& header, std::size_t at, std::size_t length) {
  const std::string_view field(header.data() + at, length);
  return field.substr(0, field.find('\0'));
}

/// Octal digits, or a big-endian number after a byte of 0x80.
std::int64_t tar_number(const TarHeader& header, std::size_t at, std::size_t length) {
  std::int64_t value = 0;
  if (static_cast<unsigned char>(header[at]) == 0x80) {
    for (std::size_t i = at + 1; i < at + length; ++i)
      value = value << 8 | static_cast<unsigned char>(header[i]);
    return value;
  }
  for (std::size_t i = at; i < at + length; ++i)
    if (header[i] >= '0' && header[i] <= '7') value = value << 3 | (header[i] - '0');
  return value;
}

/// The sum of all bytes, those of the sum itself counting as blanks.
bool has_right_sum(const TarHeader& header) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < header.size(); ++i)
    sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(header[i]);
  return sum == tar_number(header, 148, 8);
}

/// The value of `path` in the records "length key=value\n" of a pax header.
std::string pax_path(std::string_view records) {
  std::string path;
  while (!records.empty()) {
    const std::size_t blank = records.find(' ');
    std::size_t length = 0;
    for (const char digit : records.substr(0, blank))
      if (digit >= '0' && digit <= '9')
        length = 10 * length + static_cast<std::size_t>(digit - '0');
    if (blank == std::string_view::npos || length <= blank || length > records.size()) break;
    const std::string_view record = records.substr(blank + 1, length - blank - 2);
    if (record.starts_with("path=")) path = record.substr(5);
    records.remove_prefix(length);
  }
  return path;
}

std::string text_at(const File& tar, std::int64_t offset, std::int64_t bytes) {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  tar.read(std::as_writable_bytes(std::span(text)), offset);
  return text;
}

std::string name_in(const TarHeader& header) {
  const std::string name(tar_field(header, 0, 100));
  const bool posix = std::string_view(header.data() + 257, 6) == std::string_view("ustar\0", 6);
  const std::string_view prefix = posix ? tar_field(header, 345, 155) : std::string_view();
  return prefix.empty() ? name : std::string(prefix) + "/" + name;
}

}  // namespace

std::vector<TarEntry> tar_entries(const File& tar) {
  const std::string path = tar.path().string();
  const std::int64_t size = tar.size();
  std::vector<TarEntry> entries;
  std::string long_name;  // of the next entry
  for (std::int64_t at = 0; at < size;) {
    require(at + kTarBlock <= size, path, " was cut short inside of a header; fetch it again");
    TarHeader header;
    tar.read(std::as_writable_bytes(std::span(header)), at);
    if (std::ranges::all_of(header, [](char c) { return c == 0; })) break;
    require(has_right_sum(header), path, at == 0 ? " is no tar file" : " is a damaged tar file",
            " (the header at byte ", at, " has a wrong sum)");
    const std::int64_t bytes = tar_number(header, 124, 12);
    const std::int64_t offset = at + kTarBlock;
    require(bytes >= 0 && bytes <= size - offset, path, " was cut short inside of ",
            name_in(header), "; fetch it again");
    const char type = header[156];
    constexpr std::int64_t kLongestName = 1 << 20;
    if ((type == 'L' || type == 'x') && bytes <= kLongestName) {
      const std::string text = text_at(tar, offset, bytes);
      std::string name = type == 'x' ? pax_path(text) : text.substr(0, text.find('\0'));
      if (!name.empty()) long_name = std::move(name);
    } else {
      std::string name = long_name.empty() ? name_in(header) : std::exchange(long_name, {});
      if (type == '0' || type == '\0') entries.push_back({std::move(name), offset, bytes});
    }
    at = offset + (bytes + kTarBlock - 1) / kTarBlock * kTarBlock;
  }
  return entries;
}

}  // namespace cleave::data
