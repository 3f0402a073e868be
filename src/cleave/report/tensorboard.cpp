#include "cleave/report/tensorboard.h"

#include <array>
#include <bit>
#include <cstring>

#include <fmt/format.h>

namespace cleave::report {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ ((rest & 1) != 0 ? 0x82f63b78u : 0u);
    table[byte] = rest;
  }
  return table;
}

constexpr auto kCrcTable = crc_table();

/// Records carry a rotated checksum, so that a checksum of a file of records is not degenerate.
std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

template <class T>
std::string raw(T value) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// The wire format of protocol buffers: a key (field number and kind), then the value.
enum class Wire : std::uint8_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}

std::string key(int field, Wire wire) {
  return varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire));
}

std::string message(int field, std::string_view bytes) {
  return key(field, Wire::Bytes) + varint(bytes.size()) + std::string(bytes);
}

// Field numbers of Event: 1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log.
std::string event_of(double seconds, std::int64_t step, std::string_view rest) {
  return key(1, Wire::Fixed64) + raw(seconds) + key(2, Wire::Varint) +
         varint(static_cast<std::uint64_t>(step)) + std::string(rest);
}

/// Fields of Summary.Value: 1 is the tag, 2 simple_value, an f32.
std::string scalar(std::string_view tag, double value) {
  return message(1, message(1, tag) + key(2, Wire::Fixed32) + raw(static_cast<float>(value)));
}

File create(const std::filesystem::path& directory, double seconds) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw IoError("cannot make " + directory.string() + ": " + error.message());
  return File::open_or_create(directory /
                              fmt::format("events.out.tfevents.{:.6f}.cleave", seconds));
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char byte : bytes)
    crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 255];
  return ~crc;
}

TensorBoardFile::TensorBoardFile(const std::filesystem::path& directory, double seconds,
                                 std::int64_t first_step)
    : file_(create(directory, seconds)) {
  file_.truncate(0);
  append(event_of(seconds, 0, message(3, "brain.Event:2")));
  constexpr int kStarted = 1;  // SessionLog.status
  if (first_step > 0)
    append(event_of(seconds, first_step, message(7, key(1, Wire::Varint) + varint(kStarted))));
}

void TensorBoardFile::write(std::int64_t step, double seconds, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) summary += scalar(tag, value);
  append(event_of(seconds, step, message(5, summary)));
}

void TensorBoardFile::append(std::string_view event) {
  const std::string length = raw(static_cast<std::uint64_t>(event.size()));
  const std::string record =
      length + raw(masked_crc(length)) + std::string(event) + raw(masked_crc(event));
  file_.write(std::as_bytes(std::span(record)), end_);
  end_ += std::ssize(record);
}

}  // namespace cleave::report
