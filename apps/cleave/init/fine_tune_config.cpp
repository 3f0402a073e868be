#include <filesystem>

#include "files.h"
#include "init/purposes.h"
#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/data/chat_template.h"
#include "cleave/data/tokenizer/tokenizer.h"

namespace cleave::app {
namespace {

constexpr std::string_view kFineTuneConfig =
    R"(# Goes on with a model that others have trained: small adapters (LoRA) beside its weights learn to answer as
# the conversations do. What it takes: cleave plan run.toml. Every key: cleave reference config
cleave = "0.1"

[model]
from = {model}   # a Hugging Face directory: its weights, shape and tokenizer
# train = ["lm_head"]   # without [lora]: what learns, by modules or patterns of names; left out: everything

[lora]            # leave it out, and the weights themselves learn
rank = 16
alpha = 32        # what adapters add counts alpha / rank times
# targets = ["q_proj", "v_proj"]   # all linear layers of the blocks, unless it says which

[data]
path = {data}   # .jsonl with "messages" or "text" in each line, or text
validation = 0.05   # the last 5 % are held out
{template}
[train]
steps = 100
batch = 16          # conversations are packed into sequences, so many per step
microbatch = 1      # of them, so many at once: more is faster and needs more memory
# sequence = 1024   # tokens; 256, or the model's context if that is shorter
dtype = "bf16"
lr = 2e-4
warmup = 10
eval_every = 25     # steps
out = {out}         # checkpoints; cleave export OUT DIR --merge makes one that from_pretrained opens
)";

constexpr std::string_view kTemplate = R"(
# How turns become text. Its tokenizer has no tokens for turns that cleave knows; of a model that has been
# trained on conversations in another form this has to be that form.
[data.template]
user = "Question: {content}\n"
assistant = "Answer: {content}{end}\n"   # what is before {end} is learned
)";

Filling fill_fine_tune(const Belongings& given) {
  require(!given.model.empty(),
          "fine-tune goes on with a model: give its Hugging Face directory, as in cleave init "
          "fine-tune --model DIR");
  std::error_code ignored;
  require(std::filesystem::exists(std::filesystem::path(given.model) / "config.json", ignored),
          "there is no ", given.model,
          "/config.json; --model takes a Hugging Face directory, such as a checkpoint of cleave");
  const std::filesystem::path file = data::find_tokenizer(given.model);
  const auto tokenizer = file.empty() ? nullptr : data::open_tokenizer(file.string());
  const data::ChatTemplate* known = data::chat_template_of(tokenizer.get());
  const std::string its_own =
      known ? fmt::format("# template = \"{}\"   # of turns, by the tokenizer's tokens\n",
                          known->name)
            : std::string(kTemplate);
  return {{"{model}", path_value(given.model)}, {"{template}", its_own}};
}

/// Questions about sums, and their answers.
void write_conversations(const std::filesystem::path& path) {
  std::string lines;
  const std::string text = sums(2000, 1);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t equals = text.find(" = ", begin);
    const std::size_t end = text.find('\n', begin);
    lines += fmt::format(
        R"({{"messages": [{{"role": "user", "content": "What is {}?"}}, {{"role": "assistant", "content": "{}"}}]}})"
        "\n",
        std::string_view(text).substr(begin, equals - begin),
        std::string_view(text).substr(equals + 3, end - equals - 3));
    begin = end + 1;
  }
  write_file(path.string(), lines);
}

}  // namespace

Purpose fine_tune_purpose() {
  return {.name = "fine-tune",
          .about = "go on with a model from Hugging Face, on your conversations (--model DIR)",
          .run = "cleave train {config}",
          .sample = "questions.jsonl",
          .config = kFineTuneConfig,
          .write_sample = write_conversations,
          .fill = fill_fine_tune};
}

}  // namespace cleave::app
