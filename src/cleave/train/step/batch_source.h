#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cleave/data/dataset.h"
#include "cleave/engine/run/microbatch_source.h"
#include "cleave/spec/graph.h"
#include "cleave/train/step/client_data.h"
#include "cleave/train/step/dealing.h"

namespace cleave::train {

/// Reads samples of a dataset into tensors, row by row. What it needs to work in it has from the
/// start, so that a step allocates nothing.
///
/// Where samples have texts and images, "patches" has the images of all samples one after another,
/// then zeros, and "places" counts their rows in that order.
class SampleReader {
 public:
  /// `microbatch` samples make a tensor of each input.
  SampleReader(const data::Dataset& data, const Graph& model, std::int64_t microbatch);

  /// A window, and the epoch in which something is learned from it.
  struct Window {
    std::int64_t number = 0;
    std::int64_t epoch = data::kAsItIs;
  };

  /// Fills `tensor` with the input `input` of the windows window(0), window(1), …
  template <class WindowOf>
  void read(std::string_view input, View tensor, WindowOf window) {
    std::int64_t images = 0;  // of the rows before
    for (std::int64_t row = 0; row < microbatch_; ++row) {
      const Window sample = window(row);
      read_row(input, tensor, row, {sample, images});
      images += images_of(sample.number);
    }
    if (is_packed(input)) fill_row(input, tensor, images_after(input, tensor, images));
  }

  /// How many images the windows window(0), window(1), … have together.
  template <class WindowOf>
  std::int64_t images(WindowOf window) const {
    std::int64_t count = 0;
    for (std::int64_t row = 0; row < microbatch_; ++row) count += images_of(window(row).number);
    return count;
  }

 private:
  std::int64_t images_of(std::int64_t window) const;

  struct Row {
    std::size_t first;  // element of the tensor
    std::size_t length;
  };

  struct Sample {
    Window window;
    std::int64_t images_before;
  };

  void read_row(std::string_view input, View tensor, std::int64_t row, const Sample& sample);
  void read_elements(std::string_view input, View tensor, Row row, const Sample& sample);

  /// Whether images of all samples follow each other in it, or what a tower gives for them.
  bool is_packed(std::string_view input) const;
  /// What is left after so many images.
  Row images_after(std::string_view input, View tensor, std::int64_t images) const;

  /// For a row after the last window: nothing, and nothing to predict.
  static void fill_row(std::string_view input, View tensor, Row row);

  const data::Dataset* data_;
  std::int64_t microbatch_;
  bool packs_images_;
  std::vector<std::uint8_t> room_;
  std::vector<float> values_;  // of a row that is rounded to bf16
};

/// The microbatches of one replica: the samples [first, …) of each batch, in order, or what is
/// dealt to its shards of those that have images, and then of the others.
class BatchSource : public engine::MicrobatchSource {
 public:
  struct Share {
    std::int64_t first = 0;       ///< sample of the batch that this replica begins with
    std::int64_t microbatch = 1;  ///< samples
    Dealing dealing = {};
  };

  BatchSource(const data::Dataset& data, const Graph& model, Share share)
      : data_(&data), share_(share), reader_(data, model, share.microbatch) {
    if (share.dealing.by_content()) order_.resize(static_cast<std::size_t>(data.batch()));
  }

  /// The sequences of every batch are dealt to clients in blocks of `rows`, the first to the first
  /// one, each from its own data.
  void deal_to(const ClientData& clients, std::int64_t rows) {
    clients_ = &clients;
    rows_ = rows;
  }

  void begin_step(std::int64_t step);

  /// How many microbatches of the step, over all replicas, have images; -1: it is not known.
  std::int64_t with_images() const { return with_images_; }

  /// A batch of one client's alone, which begins with its sequence `number`.
  void begin_batch_of(const ClientData& clients, int client, std::int64_t number) {
    clients_ = &clients;
    client_ = client;
    number_ = number;
  }

  /// How many tokens or labels the whole batch has to predict; the same on every replica.
  std::int64_t step_targets() const;

  /// What the loss of one of them counts for; a batch that happens to have none has loss 0.
  float loss_scale() const;

  void load(int index, std::string_view input, View tensor) override;
  std::int64_t items(int index) const override;

 private:
  SampleReader::Window window_at(int index, std::int64_t row) const;
  std::int64_t window(std::int64_t sample) const;
  std::int64_t epoch(std::int64_t sample) const;
  /// The sample of the batch that is row `row` of a microbatch of this replica.
  std::int64_t sample(int index, std::int64_t row) const;

  const data::Dataset* data_;
  Share share_;
  SampleReader reader_;
  const ClientData* clients_ = nullptr;  ///< null: data is nobody's in particular
  std::int64_t rows_ = 1;
  std::int64_t step_ = 0;
  std::vector<std::int64_t> order_;  ///< of the samples, where they are dealt by content
  std::int64_t with_images_ = -1;
  int client_ = -1;  ///< whose batch it is; -1: dealt to all of them
  std::int64_t number_ = 0;
};

/// Held-out samples in microbatches of consecutive windows. Where the data ends inside of one, the
/// rest of its rows have nothing to predict.
class ValidationSource : public engine::MicrobatchSource {
 public:
  /// Microbatches that follow each other.
  struct Run {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };

  /// `begins` [microbatch]: its first window. `order`: the windows that are read in place of
  /// windows 0, 1, …; empty: these themselves.
  ValidationSource(const data::Dataset& data, const Graph& model, std::int64_t microbatch,
                   std::vector<std::int64_t> begins, std::vector<std::int64_t> order = {})
      : reader_(data, model, microbatch),
        begins_(std::move(begins)),
        order_(std::move(order)),
        past_(data.windows()) {}

  /// Microbatch 0 of the next calls is the one with `number` in `run`, whose last comes again where
  /// it ends; in a run of none, and past the end of windows in an order of their own, rows have
  /// nothing to predict.
  void begin_at(std::int64_t number, Run run) {
    number_ = number;
    run_ = run;
  }
  void load(int index, std::string_view input, View tensor) override;
  std::int64_t items(int index) const override;

 private:
  SampleReader::Window window_at(int index, std::int64_t row) const;

  SampleReader reader_;
  std::vector<std::int64_t> begins_;
  std::vector<std::int64_t> order_;
  std::int64_t past_;  ///< a window after the last
  std::int64_t number_ = 0;
  Run run_;
};

}  // namespace cleave::train
