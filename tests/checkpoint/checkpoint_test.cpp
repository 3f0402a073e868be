#include <algorithm>
#include <chrono>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>

#include "support/errors.h"
#include "support/random.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleave/base/tensor_sum.h"
#include "cleave/checkpoint/directory.h"
#include "cleave/checkpoint/inspect.h"
#include "cleave/checkpoint/manifest.h"
#include "cleave/checkpoint/reader.h"
#include "cleave/checkpoint/writer.h"

namespace cleave::checkpoint {
namespace {

namespace fs = std::filesystem;
using cleave::testing::random_values;
using cleave::testing::TemporaryDirectory;
using cleave::testing::user_error;

// As Muon has them: what is no matrix keeps more beside it.
const std::vector<Parameter> kParameters = {{"wte.weight", {7, 5}, {"m", "v"}},
                                            {"h.0.weight", {64, 33}, {"momentum"}},
                                            {"h.0.frozen", {3}},
                                            {"ln_f.bias", {5}, {"m", "v"}}};

std::vector<Part> parts_of(const Parameter& parameter) {
  std::vector<Part> parts = {Part::Weight};
  for (std::size_t i = 0; i < parameter.slots.size(); ++i) parts.push_back(static_cast<Part>(i));
  return parts;
}

std::vector<float> values(Part part, std::size_t parameter, std::int64_t step) {
  const auto seed = static_cast<std::uint32_t>(step * 100 + 3 * parameter + static_cast<int>(part));
  return random_values(kParameters[parameter].shape.elements(), seed);
}

CheckpointState state_at(std::int64_t step) {
  return {.step = step,
          .data_position = step,
          .seed = 7,
          .config = "[train]\nout = \"é\"\n",
          .version = "1.2.3"};
}

/// Writer `index` of `writers` writes every writers-th slice of `slice` elements.
void write_slices(const fs::path& root, std::int64_t step, const CheckpointLayout& layout,
                  int index, int writers, std::int64_t slice) {
  CheckpointWriter writer(root, step, layout, index);
  for (std::size_t p = 0; p < kParameters.size(); ++p) {
    for (Part part : parts_of(kParameters[p])) {
      const auto all = values(part, p, step);
      for (std::int64_t first = index * slice; first < std::ssize(all); first += writers * slice) {
        const std::int64_t count = std::min(slice, std::ssize(all) - first);
        writer.write(part, p, first, std::span(all).subspan(first, count));
      }
    }
  }
  writer.finish();
}

void save(const fs::path& root, std::int64_t step, std::int64_t keep = 2) {
  const CheckpointLayout layout(kParameters);
  prepare_checkpoint(root, step, layout);
  write_slices(root, step, layout, 0, 1, 1 << 20);
  commit_checkpoint(root, layout, state_at(step), 1, keep);
}

void expect_content(const fs::path& directory, std::int64_t step) {
  EXPECT_EQ(verify_checkpoint(directory), std::vector<std::string>());
  const CheckpointReader reader(directory);
  EXPECT_EQ(reader.state(), state_at(step));
  for (std::size_t p = 0; p < kParameters.size(); ++p) {
    for (Part part : parts_of(kParameters[p])) {
      std::vector<float> read(kParameters[p].shape.elements());
      const Parameter& parameter = kParameters[p];
      if (part == Part::Weight) {
        reader.read_weight(parameter.name, 0, read);
      } else {
        reader.read_slot(parameter.name, parameter.slots[static_cast<std::size_t>(part)], 0, read);
      }
      EXPECT_EQ(read, values(part, p, step)) << kParameters[p].name;
    }
  }
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

void flip_bit(const fs::path& file, std::int64_t byte) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(byte);
  const char old = static_cast<char>(stream.get());
  stream.seekp(byte);
  stream.put(static_cast<char>(old ^ 4));
}

TEST(TensorSum, OfSlicesAddsUpToTheSumOfTheWhole) {
  const auto all = random_values(1000, 1);
  const auto bytes = std::as_bytes(std::span(all));
  std::uint64_t sum = 0;
  for (std::int64_t first : {700, 0, 3}) {
    const std::int64_t end = first == 700 ? 1000 : first == 0 ? 3 : 700;
    sum += tensor_sum(bytes.subspan(4 * first, 4 * (end - first)), first);
  }
  EXPECT_EQ(sum, tensor_sum(bytes, 0));
}

TEST(TensorSum, NoticesEveryFlippedBitAndEveryExchange) {
  std::vector<std::uint32_t> all = {0, 1, 0, 0x80000000, 7};
  const auto sum = [&] { return tensor_sum(std::as_bytes(std::span(all)), 0); };
  const std::uint64_t before = sum();
  for (std::uint32_t& element : all) {
    for (int bit = 0; bit < 32; ++bit) {
      element ^= 1u << bit;
      EXPECT_NE(sum(), before);
      element ^= 1u << bit;
    }
  }
  std::swap(all[1], all[2]);
  EXPECT_NE(sum(), before);
}

TEST(Checkpoint, GivesBackWhatOneWriterSaved) {
  const TemporaryDirectory dir;
  save(dir.path(), 100);

  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{"latest", "step-00000100"}));
  EXPECT_EQ(names_in(dir.path() / "latest"),
            (std::vector<std::string>{"manifest.json", "model.safetensors", "optimizer.safetensors",
                                      "state.json"}));
  expect_content(dir.path() / "latest", 100);
}

TEST(Checkpoint, HasTheSameBytesHoweverManyWrite) {
  const TemporaryDirectory one, four;
  save(one.path(), 5);

  const CheckpointLayout layout(kParameters);
  prepare_checkpoint(four.path(), 5, layout);
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&, i] { write_slices(four.path(), 5, layout, i, 4, 3); });
  }
  for (std::thread& writer : writers) writer.join();
  commit_checkpoint(four.path(), layout, state_at(5), 4, 2);

  expect_content(four.path() / "latest", 5);
  for (const std::string& name : names_in(one.path() / "latest")) {
    EXPECT_EQ(read_text(one.path() / "latest" / name), read_text(four.path() / "latest" / name))
        << name;
  }
}

TEST(Checkpoint, ReadsAnySlice) {
  const TemporaryDirectory dir;
  save(dir.path(), 1);
  std::vector<float> slice(10);
  CheckpointReader(dir.path() / "latest").read_slot("h.0.weight", "momentum", 1000, slice);

  const auto all = values(static_cast<Part>(0), 1, 1);
  EXPECT_EQ(slice, std::vector<float>(all.begin() + 1000, all.begin() + 1010));
}

TEST(Checkpoint, WillNotCommitWhatIsIncomplete) {
  const TemporaryDirectory dir;
  save(dir.path(), 1);
  const CheckpointLayout layout(kParameters);
  prepare_checkpoint(dir.path(), 2, layout);
  write_slices(dir.path(), 2, layout, 0, 2, 4);  // writer 1 of 2 never comes
  CheckpointWriter(dir.path(), 2, layout, 1).finish();

  EXPECT_THROW(commit_checkpoint(dir.path(), layout, state_at(2), 2, 2), InternalError);

  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{"latest", "step-00000001"}));
  expect_content(dir.path() / "latest", 1);
}

TEST(Checkpoint, KeepsTheNewest) {
  const TemporaryDirectory dir;
  for (std::int64_t step : {10, 20, 30}) save(dir.path(), step);
  EXPECT_EQ(list_checkpoints(dir.path()), (std::vector<std::int64_t>{20, 30}));

  save(dir.path(), 40, 1);
  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{"latest", "step-00000040"}));
}

TEST(Checkpoint, ReplacesTheSameStep) {
  const TemporaryDirectory dir;
  save(dir.path(), 10);
  flip_bit(dir.path() / "latest" / kStateFile, 5);
  save(dir.path(), 10);

  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{"latest", "step-00000010"}));
  expect_content(dir.path() / "latest", 10);
}

TEST(Checkpoint, IsFoundByWhatAUserMayMean) {
  const TemporaryDirectory dir;
  const fs::path root = dir.path() / "checkpoints";
  EXPECT_EQ(
      user_error([&] { find_checkpoint(dir.path()); }),
      "there is no checkpoint in " + dir.path().string() +
          "; give a step-… directory, the out directory of a run, or a Hugging Face directory");
  save(root, 10);
  save(root, 20);

  EXPECT_EQ(find_checkpoint(dir.path()), root / "step-00000020");
  EXPECT_EQ(find_checkpoint(root), root / "step-00000020");
  EXPECT_EQ(find_checkpoint(root / "step-00000010"), root / "step-00000010");
  fs::remove(root / "step-00000010" / kManifestFile);
  EXPECT_EQ(find_checkpoint(root / "step-00000010/"), root / "step-00000010/");
  fs::remove(root / "latest");
  EXPECT_EQ(latest_checkpoint(root), root / "step-00000020");
}

TEST(Checkpoint, DescribesItself) {
  const TemporaryDirectory dir;
  save(dir.path(), 10);
  const CheckpointReader checkpoint(dir.path() / "latest");

  const std::string text = inspect_text(checkpoint);
  EXPECT_NE(text.find("step 10, seed 7, saved by cleave 1.2.3\n2155 parameters in 4 tensors, "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\nh.0.weight                                   [64, 33]"),
            std::string::npos);
  const std::string json = inspect_json(checkpoint);
  EXPECT_NE(json.find(R"("parameters":2155)"), std::string::npos) << json;
  EXPECT_NE(json.find(R"({"name":"wte.weight","shape":[7,5]})"), std::string::npos) << json;
}

TEST(Checkpoint, NamesWhatIsDamaged) {
  const TemporaryDirectory dir;
  const fs::path at = dir.path() / "step-00000003";
  const auto problem_after = [&](auto damage) {
    fs::remove_all(at);
    save(dir.path(), 3);
    damage();
    const auto problems = verify_checkpoint(at);
    return problems.size() == 1 ? problems[0]
                                : "(" + std::to_string(problems.size()) + " problems)";
  };
  const fs::path model = at / kModelFile;
  const fs::path optimizer = at / kOptimizerFile;
  const CheckpointLayout layout(kParameters);

  const std::int64_t inside = layout.entry(1).offset + 4321;
  EXPECT_EQ(problem_after([&] { flip_bit(model, inside); }),
            model.string() + " has tensor \"h.0.weight\" with a wrong checksum");
  EXPECT_EQ(problem_after([&] { flip_bit(optimizer, fs::file_size(optimizer) - 1); }),
            optimizer.string() + " has tensor \"ln_f.bias.v\" with a wrong checksum");
  EXPECT_EQ(problem_after([&] { flip_bit(model, layout.model().text.find("pt\"")); }),
            model.string() + " has a header other than the saved one");
  EXPECT_EQ(problem_after([&] { flip_bit(at / kStateFile, 30); }),
            (at / kStateFile).string() + " has a wrong checksum");
  EXPECT_EQ(problem_after([&] { flip_bit(at / kManifestFile, 200); }),
            (at / kManifestFile).string() +
                " is damaged or from another version of cleave; use an older checkpoint");
  EXPECT_EQ(problem_after([&] { fs::resize_file(optimizer, 5000); }),
            optimizer.string() + " has 5000 bytes instead of " +
                std::to_string(layout.optimizer().file_bytes) + "; use another checkpoint");
  EXPECT_EQ(problem_after([&] { fs::remove(model); }),
            model.string() + " is missing; use another checkpoint");
  EXPECT_EQ(problem_after([&] { fs::remove(at / kManifestFile); }),
            "cannot read " + (at / kManifestFile).string() + ": No such file or directory");
}

TEST(Checkpoint, NoticesEveryFlippedByteOfTheSmallFiles) {
  const TemporaryDirectory dir;
  save(dir.path(), 3);
  for (std::string_view name : {kStateFile, kManifestFile}) {
    const fs::path file = dir.path() / "latest" / name;
    const auto text = read_text(file);
    for (std::size_t byte = 0; byte < text.size(); ++byte) {
      if (text[byte] == ' ' || text[byte] == '\n') continue;  // blanks between JSON's words
      flip_bit(file, static_cast<std::int64_t>(byte));
      EXPECT_FALSE(verify_checkpoint(dir.path() / "latest").empty()) << name << " " << byte;
      flip_bit(file, static_cast<std::int64_t>(byte));
    }
  }
  expect_content(dir.path() / "latest", 3);
}

TEST(Checkpoint, NoticesDamageToFilesThatOtherToolsReadAndDoesWithoutThem) {
  const TemporaryDirectory dir;
  const CheckpointLayout layout(kParameters);
  prepare_checkpoint(dir.path(), 3, layout);
  write_slices(dir.path(), 3, layout, 0, 1, 1 << 20);
  add_file(dir.path(), 3, "config.json", "{\"hidden_size\": 64}\n");
  commit_checkpoint(dir.path(), layout, state_at(3), 1, 2);
  const fs::path file = dir.path() / "latest" / "config.json";
  expect_content(dir.path() / "latest", 3);

  flip_bit(file, 5);
  EXPECT_EQ(verify_checkpoint(dir.path() / "latest"),
            std::vector<std::string>{file.string() + " has a wrong checksum"});
  fs::remove(file);
  EXPECT_EQ(verify_checkpoint(dir.path() / "latest"),
            std::vector<std::string>{file.string() + " is missing"});
  EXPECT_EQ(CheckpointReader(dir.path() / "latest").state(), state_at(3));
}

TEST(Checkpoint, NoticesAManifestThatListsLessThanThereIs) {
  const TemporaryDirectory directory;
  save(directory.path(), 3);
  const fs::path checkpoint = checkpoint_path(directory.path(), 3);
  const Manifest whole = read_manifest(checkpoint / kManifestFile);

  Manifest fewer = whole;
  fewer.files[0].tensors.pop_back();
  std::ofstream(checkpoint / kManifestFile) << to_json(fewer);
  ASSERT_EQ(verify_checkpoint(checkpoint).size(), 1u);
  EXPECT_EQ(verify_checkpoint(checkpoint)[0],
            (checkpoint / kModelFile).string() + " has tensor \"" +
                whole.files[0].tensors.back().name + "\", of which the manifest has no checksum");

  fewer = whole;
  fewer.files[1].tensors.clear();
  std::ofstream(checkpoint / kManifestFile) << to_json(fewer);
  EXPECT_EQ(verify_checkpoint(checkpoint).size(), whole.files[1].tensors.size());

  for (std::size_t file = 0; file < whole.files.size(); ++file) {
    fewer = whole;
    fewer.files.erase(fewer.files.begin() + static_cast<std::ptrdiff_t>(file));
    std::ofstream(checkpoint / kManifestFile) << to_json(fewer);
    EXPECT_EQ(verify_checkpoint(checkpoint),
              std::vector{(checkpoint / kManifestFile).string() + " does not list " +
                          whole.files[file].file + "; use another checkpoint"});
  }
}

TEST(Checkpoint, RefusesJsonThatWouldExhaustTheStack) {
  const TemporaryDirectory directory;
  std::string deep;
  for (int i = 0; i < 120000; ++i) deep += "{\"checksum\":";
  deep += "1" + std::string(120000, '}');
  const fs::path file = directory.write("deep.json", deep);
  EXPECT_EQ(user_error([&] { read_manifest(file); }).substr(0, file.string().size() + 11),
            file.string() + " is damaged");
  EXPECT_EQ(user_error([&] { read_state(file); }),
            file.string() + " is damaged; use an older checkpoint");
  std::string prefix(8, '\0');
  for (int i = 0; i < 8; ++i) prefix[i] = static_cast<char>(deep.size() >> (8 * i) & 0xff);
  const fs::path tensors = directory.write("deep.safetensors", prefix + deep);
  EXPECT_EQ(user_error([&] { const SafetensorsFile opened(tensors); }),
            tensors.string() +
                " is not a sound safetensors file: its header nests deeper than 64 levels");
}

TEST(Checkpoint, RefusesAnotherArchitecture) {
  const TemporaryDirectory dir;
  save(dir.path(), 3);
  const CheckpointReader reader(dir.path() / "latest");
  const std::string model = (dir.path() / "latest" / kModelFile).string();
  EXPECT_NO_THROW(reader.expect(kParameters));

  auto other = kParameters;
  other[1].shape = {33, 64};
  EXPECT_EQ(user_error([&] { reader.expect(other); }),
            model +
                " has tensor \"h.0.weight\" of shape [64, 33], but this model needs [33, 64]; it "
                "was saved from a model of another architecture");
  other = kParameters;
  other.push_back({"h.1.weight", {2}});
  EXPECT_EQ(
      user_error([&] { reader.expect(other); }),
      model + " has no tensor \"h.1.weight\"; it was saved from a model of another architecture");
  other = kParameters;
  other.pop_back();
  EXPECT_EQ(user_error([&] { reader.expect(other); }),
            model +
                " has tensor \"ln_f.bias\", which this model has not; it was saved from a model "
                "of another architecture");
}

/// What `act` says when it throws, run in a process of its own; empty if it does not throw.
template <class Act>
std::string error_in_child(Act act) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    std::string message;
    try {
      act();
    } catch (const IoError& error) {
      message = error.what();
    } catch (const std::exception& error) {
      message = std::string("not an IoError: ") + error.what();
    }
    ::_exit(::write(ends[1], message.data(), message.size()) >= 0 ? 0 : 1);
  }
  ::close(ends[1]);
  std::string message(4096, '\0');
  message.resize(std::max<ssize_t>(::read(ends[0], message.data(), message.size()), 0));
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return message;
}

TEST(Checkpoint, LeavesThePreviousOneAndNoDraftWhenTheDiskIsFull) {
  const TemporaryDirectory dir;
  save(dir.path(), 1);

  // A limit on file sizes fails the same calls as a full disk, on any machine.
  const std::string message = error_in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    save(dir.path(), 2);
  });

  EXPECT_EQ(message, "cannot write " + (draft_path(dir.path(), 2) / kModelFile).string() +
                         ": File too large; raise the limit on file sizes (ulimit -f)");
  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{"latest", "step-00000001"}));
  expect_content(dir.path() / "latest", 1);
}

TEST(Checkpoint, SaysWhenItMayNotWrite) {
  const TemporaryDirectory dir;
  const fs::path file = dir.write("file", "");  // a file where a directory should be

  const std::string message = error_in_child([&] { save(file / "checkpoints", 2); });

  EXPECT_EQ(message, "cannot create " + (file / "checkpoints" / ".tmp-step-00000002").string() +
                         ": Not a directory; choose a train.out that you may write to");
}

// A child saves as fast as it can and is killed at a random moment. Whatever `latest` and every
// step-… directory are then, they must be whole, and a new start must find only those.
TEST(Checkpoint, SurvivesBeingKilledAtAnyMoment) {
  const TemporaryDirectory dir;
  std::mt19937 random(1);
  std::int64_t latest = 1;
  const auto start = std::chrono::steady_clock::now();
  save(dir.path(), latest);
  const std::chrono::duration<double, std::micro> one = std::chrono::steady_clock::now() - start;
  const auto longest = static_cast<useconds_t>(2 * one.count() + 1000);
  for (int round = 0; round < 200; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (std::int64_t step = latest + 1;; ++step) save(dir.path(), step);
    }
    ::usleep(std::uniform_int_distribution<useconds_t>(0, longest)(random));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);

    clean_checkpoints(dir.path());
    const std::int64_t found = CheckpointReader(latest_checkpoint(dir.path()).value()).state().step;
    ASSERT_GE(found, latest);
    latest = found;
    for (std::int64_t step : list_checkpoints(dir.path())) {
      expect_content(checkpoint_path(dir.path(), step), step);
    }
    for (const std::string& name : names_in(dir.path())) ASSERT_FALSE(name.starts_with("."));
  }
  EXPECT_GT(latest, 1);
}

}  // namespace
}  // namespace cleave::checkpoint
