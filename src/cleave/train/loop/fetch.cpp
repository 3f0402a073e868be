#include "cleave/train/loop/fetch.h"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <vector>

#include <unistd.h>

#include "cleave/base/cache_directory.h"
#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/base/hash.h"
#include "cleave/comm/together.h"
#include "cleave/data/read_files.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kChunk = std::int64_t{4} << 20;

/// A file below what is fetched.
struct FetchedFile {
  std::string name;  ///< relative
  std::int64_t bytes = 0;
};

/// What there is, and a hash of all its names and contents.
struct Inventory {
  std::string name;  ///< what is opened, below where the files are; empty: the directory itself
  std::string hash;
  std::vector<FetchedFile> files;
};

template <class Visit>
void for_each_chunk(std::int64_t bytes, Visit&& visit) {
  for (std::int64_t at = 0; at < bytes; at += kChunk) visit(at, std::min(kChunk, bytes - at));
}

Inventory take_inventory(const data::ReadFiles& read) {
  Inventory inventory{.name = read.name};
  Hasher hasher;
  std::vector<std::byte> chunk(kChunk);
  for (const std::string& name : read.files) {
    const File file = File::open(read.base / name);
    inventory.files.push_back({name, file.size()});
    hasher.add(name + "\n");
    for_each_chunk(file.size(), [&](std::int64_t at, std::int64_t bytes) {
      const auto part = std::span(chunk).first(static_cast<std::size_t>(bytes));
      file.read(part, at);
      hasher.add(part);
    });
  }
  inventory.hash = to_hex(hasher.digest());
  return inventory;
}

std::string to_text(const Inventory& inventory) {
  std::string text = inventory.hash + " " + inventory.name + "\n";
  for (const FetchedFile& file : inventory.files)
    text += std::to_string(file.bytes) + " " + file.name + "\n";
  return text;
}

/// Nothing outside of where it is copied to.
bool stays_below(const fs::path& name) {
  return !name.is_absolute() && std::ranges::find(name, fs::path("..")) == name.end();
}

Inventory inventory_of(const std::string& text) {
  std::istringstream in(text);
  Inventory inventory;
  const auto read_name = [&](std::string& name) {
    in.ignore(1);
    std::getline(in, name);
    require(stays_below(name), "the first process offers \"", name,
            "\", which is no name of a file below it");
  };
  in >> inventory.hash;
  read_name(inventory.name);
  FetchedFile file;
  while (in >> file.bytes) {
    read_name(file.name);
    inventory.files.push_back(file);
  }
  return inventory;
}

/// Some of a file's bytes.
struct FilePart {
  const FetchedFile* file = nullptr;
  std::int64_t at = 0;
  std::int64_t bytes = 0;
};

/// What travels at once: files one after the other, however many. A message for each would take
/// longer than the bytes of small ones.
std::vector<std::vector<FilePart>> chunks_of(const Inventory& inventory) {
  std::vector<std::vector<FilePart>> chunks;
  std::int64_t room = 0;
  for (const FetchedFile& file : inventory.files) {
    for (std::int64_t at = 0; at == 0 || at < file.bytes;) {
      if (room == 0) {
        chunks.emplace_back();
        room = kChunk;
      }
      const std::int64_t bytes = std::min(room, file.bytes - at);
      chunks.back().push_back({&file, at, bytes});
      room -= bytes;
      at += bytes;
      if (file.bytes == 0) break;
    }
  }
  return chunks;
}

/// Calls visit(part, its bytes) on the parts of a chunk; how many bytes that were.
template <class Visit>
std::int64_t for_each_part(const std::vector<FilePart>& parts, std::span<std::byte> chunk,
                           Visit&& visit) {
  std::int64_t at = 0;
  for (const FilePart& part : parts) {
    visit(part, chunk.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(part.bytes)));
    at += part.bytes;
  }
  return at;
}

/// Everything, from the first process to a draft that becomes the copy when all of it is there.
/// Whoever has it already only passes it on.
void transfer(comm::Communicator& processes, const Inventory& inventory, const fs::path& base,
              const fs::path& copy) {
  const bool first = processes.rank() == 0;
  const bool writes = !first && !fs::exists(copy);
  const fs::path draft = copy.string() + "." + std::to_string(::getpid());
  std::vector<std::byte> chunk(kChunk);
  for (const std::vector<FilePart>& parts : chunks_of(inventory)) {
    const std::int64_t bytes =
        for_each_part(parts, chunk, [&](const FilePart& part, std::span<std::byte> into) {
          if (!first) return;
          File::open(base / part.file->name).read(into, part.at);
        });
    processes.broadcast(std::span(chunk).first(static_cast<std::size_t>(bytes)), 0).wait();
    for_each_part(parts, chunk, [&](const FilePart& part, std::span<std::byte> from) {
      if (!writes) return;
      const fs::path target = draft / part.file->name;
      if (part.at == 0) fs::create_directories(target.parent_path());
      File::open_or_create(target).write(from, part.at);
    });
  }
  if (!writes) return;
  std::error_code exists;  // another process of this machine may have been quicker
  fs::rename(draft, copy, exists);
  if (exists) fs::remove_all(draft);
}

/// Drafts of the copy that stays are another process's, which has not finished it yet.
void remove_all_but(const fs::path& directory, const std::string& name) {
  std::error_code ignored;
  std::vector<fs::path> others;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored))
    if (!entry.path().filename().string().starts_with(name)) others.push_back(entry.path());
  for (const fs::path& path : others) fs::remove_all(path, ignored);
}

std::string name_of_host() {
  std::array<char, 256> name = {};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

std::string fetch(comm::Communicator& processes, const std::string& path, const fs::path& cache) {
  const bool first = processes.rank() == 0;
  data::ReadFiles here;
  std::string text;
  comm::together(processes, [&] {
    if (!first) return;
    here = data::files_read_at(path);
    text = to_text(take_inventory(here));
  });
  comm::broadcast(processes, text);
  const Inventory inventory = inventory_of(text);
  const fs::path copy = cache / inventory.hash;
  std::array<double, 1> missing = {!first && !fs::exists(copy) ? 1.0 : 0.0};
  processes.combine(missing, comm::Combine::Max);
  if (missing[0] > 0) transfer(processes, inventory, here.base, copy);
  if (first) return path;
  return (inventory.name.empty() ? copy : copy / inventory.name).string();
}

std::string fetch_checkpoint(comm::Communicator& processes, const std::string& path,
                             const fs::path& cache) {
  std::string run;
  comm::together(processes, [&] {
    if (processes.rank() > 0) return;
    Hasher hasher;
    hasher.add(name_of_host() + "\n" + fs::absolute(path).parent_path().string());
    run = to_hex(hasher.digest());
  });
  comm::broadcast(processes, run);
  const fs::path copies = cache / "runs" / run;
  const std::string here = fetch(processes, path, copies);
  if (processes.rank() > 0) remove_all_but(copies, fs::path(here).filename().string());
  return here;
}

fs::path fetch_cache() {
  const std::optional<fs::path> cache = cache_directory();
  require(cache.has_value(),
          "neither HOME nor XDG_CACHE_HOME says where files of the run can be kept; set one");
  return *cache / "files";
}

}  // namespace cleave::train
