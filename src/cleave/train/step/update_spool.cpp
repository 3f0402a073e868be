#include "cleave/train/step/update_spool.h"

#include <system_error>

namespace cleave::train {

namespace fs = std::filesystem;

UpdateSpool::UpdateSpool(fs::path directory) : directory_(std::move(directory)) {
  begin_round();
}

UpdateSpool::~UpdateSpool() {
  files_.clear();
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

void UpdateSpool::begin_round() {
  files_.clear();
  ends_.clear();
  std::error_code error;
  fs::remove_all(directory_, error);
}

void UpdateSpool::open(std::int64_t bytes) {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error)
    throw IoError(directory_.string() + " cannot be made: " + error.message() +
                  "; updates of clients wait there for the end of a round");
  files_.push_back(File::create(directory_ / ("update-" + std::to_string(files_.size()))));
  files_.back().reserve(bytes);
  ends_.push_back(0);
}

void UpdateSpool::append(std::size_t arrival, std::span<const std::byte> bytes) {
  files_[arrival].write(bytes, ends_[arrival]);
  ends_[arrival] += std::ssize(bytes);
  taken_bytes_ += std::ssize(bytes);
}

void UpdateSpool::read(std::size_t arrival, std::int64_t offset, std::span<std::byte> bytes) const {
  files_[arrival].read(bytes, offset);
}

}  // namespace cleave::train
