// In place of sentencepiece where everything is linked in: there is no static library of it.

#include "cleave/base/check.h"
#include "cleave/data/tokenizer/sentencepiece.h"

namespace cleave::data::tokenizer {

std::unique_ptr<const Tokenizer> open_sentencepiece(const std::string& path) {
  throw UserError(
      detail::concat(path,
                     " is a model of sentencepiece, which this program was built without; use the "
                     "tokenizer.json of "
                     "the same model, or tokenize the data elsewhere (cleave data tokenize)"));
}

}  // namespace cleave::data::tokenizer
