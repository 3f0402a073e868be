#pragma once

#include <filesystem>
#include <string>

#include <sys/mount.h>

namespace cleave::testing {

/// A file system of its own; not there if this process may not mount.
class Mounted {
 public:
  Mounted(const std::string& path, const std::string& options) : path_(path) {
    std::filesystem::create_directories(path);
    mounted_ = ::mount("tmpfs", path.c_str(), "tmpfs", 0, options.c_str()) == 0;
  }
  ~Mounted() {
    if (mounted_) ::umount(path_.c_str());
  }
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;

  explicit operator bool() const { return mounted_; }
  void make_read_only() const {
    ::mount(nullptr, path_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr);
  }

 private:
  std::string path_;
  bool mounted_ = false;
};

}  // namespace cleave::testing
