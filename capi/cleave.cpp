#include "cleave.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "child.h"
#include "failure.h"
#include "words.h"

namespace cleave::capi {
namespace {

/// A verb that answers a question and ends.
struct Verb {
  std::string_view name;
  std::string_view argument;  ///< as its help calls it; empty: none
  std::string_view ending;    ///< of the file that "text" stands for; empty: it reads none
};
constexpr std::array kVerbs = {Verb{"plan", "config", ".toml"}, Verb{"schedule", "kind", ".txt"},
                               Verb{"verify", "file", ".txt"},  Verb{"checkpoint", "dir", ""},
                               Verb{"report", "dir", ""},       Verb{"presets", "", ""},
                               Verb{"generate", "dir", ""},     Verb{"evaluate", "dir", ""},
                               Verb{"doctor", "", ""},          Verb{"version", "", ""}};

const Verb& verb_of(std::string_view name) {
  std::string known;
  for (const Verb& verb : kVerbs) {
    if (verb.name == name) return verb;
    known += (known.empty() ? "" : ", ") + std::string(verb.name);
  }
  throw Failure(CLEAVE_BAD_USAGE,
                "cleave_ask has no verb \"" + std::string(name) + "\"; it has " + known);
}

struct Texts {
  std::string answer;
  std::string error;
};

/// What the program complained of: its last message, without its name.
std::string sentence_of(std::string text) {
  constexpr std::string_view kName = "cleave: ";
  while (text.ends_with('\n')) text.pop_back();
  const auto last = text.rfind("\n" + std::string(kName));
  if (last != text.npos) text.erase(0, last + 1);
  if (text.starts_with(kName)) text.erase(0, kName.size());
  return text;
}

cleave_status status_of(const Ended& ended, Texts& texts) {
  if (ended.out.starts_with('{')) texts.answer = ended.out;
  if (ended.status != 0) texts.error = sentence_of(ended.err);
  if (ended.status >= 128)
    texts.error = "the program was ended by signal " + std::to_string(ended.status - 128);
  return static_cast<cleave_status>(ended.status > CLEAVE_DEVICE_LOST ? CLEAVE_FAILED
                                                                      : ended.status);
}

cleave_status ask(std::string_view name, const char* json, Texts& texts) {
  const Verb& verb = verb_of(name);
  Options options = options_of(json, verb.argument);
  std::optional<TemporaryFile> file;
  if (!options.text.empty()) {
    file.emplace(options.text, verb.ending);
    options.words.insert(options.words.begin(), file->path());
  }
  options.words.insert(options.words.begin(), std::string(name));
  options.words.push_back("--json");
  return status_of(run_program(options.words), texts);
}

cleave_status train(const cleave_training& training, Texts& texts) {
  if (training.size < sizeof(cleave_training) || training.config == nullptr)
    throw Failure(CLEAVE_BAD_USAGE,
                  "cleave_training has no config, or its size is not set; set size to "
                  "sizeof(cleave_training) and config to a TOML text");
  const TemporaryFile config(training.config, ".toml");
  std::vector<std::string> words = {"train", config.path(), "--json"};
  for (std::string& word : options_of(training.options, "").words) words.push_back(std::move(word));
  std::optional<TemporaryFile> tokens;
  if (training.tokens != nullptr) {
    tokens.emplace(std::string_view(reinterpret_cast<const char*>(training.tokens),
                                    training.token_count * sizeof(std::int32_t)),
                   ".u32.bin");
    words.push_back("--set=data.path=" + tokens->path());
  }
  OnLine on_line;
  if (training.on_step != nullptr) {
    words.push_back("--lines");
    on_line = [&](const std::string& line) {
      return training.on_step(line.c_str(), training.context) != 0;
    };
  }
  return status_of(run_program(words, on_line), texts);
}

/// A copy for the caller, who may not want it; nothing if the text is empty.
void hand_out(const std::string& text, char** to) {
  if (to != nullptr) *to = text.empty() ? nullptr : ::strdup(text.c_str());
}

/// Runs `work`, which fills in texts; what it throws becomes a code and a text.
template <class Work>
cleave_status guarded(char** answer, char** error, Work&& work) noexcept {
  Texts texts;
  cleave_status status = CLEAVE_FAILED;
  try {
    status = work(texts);
  } catch (const Failure& failure) {
    status = failure.status;
    texts.error = failure.what();
  } catch (const std::exception& thrown) {
    texts.error = thrown.what();
  }
  hand_out(texts.answer, answer);
  hand_out(texts.error, error);
  return status;
}

}  // namespace
}  // namespace cleave::capi

const char* cleave_version(void) {
  return CLEAVE_VERSION;
}

cleave_status cleave_ask(const char* verb, const char* options, char** answer, char** error) {
  return cleave::capi::guarded(answer, error, [&](cleave::capi::Texts& texts) {
    return cleave::capi::ask(verb == nullptr ? "" : verb, options, texts);
  });
}

cleave_status cleave_train(const cleave_training* training, char** answer, char** error) {
  return cleave::capi::guarded(answer, error, [&](cleave::capi::Texts& texts) {
    if (training == nullptr)
      throw cleave::capi::Failure(CLEAVE_BAD_USAGE,
                                  "cleave_train was called without a training; give one");
    return cleave::capi::train(*training, texts);
  });
}

void cleave_free(char* text) {
  std::free(text);
}
