// Draws random problems: see random_problem.hpp.
#include "support/random_problem.hpp"

#include <vkattn/attention.hpp>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace vkattn::tests {
namespace {

/// Draws the words of one problem.
class Draw {
 public:
  Draw(std::uint64_t seed, bool with_score_functions)
      : random_(seed), with_score_functions_(with_score_functions) {}

  std::string problem(std::uint64_t variant) {
    sizes();
    storage();
    positions();
    lengths();
    scores();
    add("seed=" + std::to_string(below(1000) + 1));
    // Draws that were added later come from here on, so that each seed keeps its earlier words.
    rare_sizes();
    rare_memory();
    rare_scores();
    score_function();
    packed_queries();
    append();
    many_keys();
    mask_heads();
    if (variant > 0) other_lengths(variant);
    add_lasting();
    return text_;
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  bool with_chance(std::uint64_t percent) { return below(100) < percent; }
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[below(values.size())];
  }
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(most - least + 1)));
  }
  void add(const std::string& word) { text_ += (text_.empty() ? "" : " ") + word; }

  void sizes() {
    batch_ = between(1, 3);
    kv_heads_ = between(1, 3);
    group_ = one_of<std::int64_t>({1, 1, 2, 3, 4});
    // Half of the problems have few rows, so that every kernel takes them.
    query_length_ = with_chance(50) ? between(1, 4) : between(1, 150);
    kv_length_ = with_chance(10) ? between(0, 8) : between(1, 300);
    quantised_ = with_chance(20);
    blocks_ = quantised_ && with_chance(70);
    head_dim_ = blocks_ ? one_of<std::int64_t>({32, 64, 96}) : between(1, 80);
    value_dim_ = blocks_ ? head_dim_ : with_chance(60) ? head_dim_ : between(1, 80);
  }

  void storage() {
    const std::vector<std::string> types{"f32", "f16", "bf16"};
    type_ = with_chance(40) ? "f16" : one_of(types);
    if (with_chance(15)) output_ = one_of(types);
    if (quantised_) {
      const std::vector<std::string> kinds =
          blocks_ ? std::vector<std::string>{"q8_0", "q4_0", "e4m3"} : std::vector<std::string>{"e4m3"};
      add("key=" + one_of(kinds));
      add("value=" + one_of(kinds));
    }
    if (with_chance(40)) layout_ = "bshd";
    if (!blocks_ && with_chance(20)) add("pad=" + std::to_string(between(1, 9)));
    if (!quantised_ && with_chance(20)) shift_ = between(1, 9);
  }

  void positions() {
    bool aligned = false;
    if (with_chance(40)) {
      add("causal");
      aligned = true;
    }
    if (with_chance(25)) {
      const std::int64_t left = with_chance(25) ? -1 : between(0, 60);
      const std::int64_t right =
          left >= 0 && with_chance(25) ? -1 : between(0, 60);  // at least one side is limited
      add("window=" + std::to_string(left) + "," + std::to_string(right));
      aligned = true;
    }
    if (with_chance(20)) {
      add(with_chance(50) ? "alibi" : "alibi=given");
      aligned = has_alibi_ = true;
    }
    if (aligned && with_chance(70)) {
      add(with_chance(60) ? "align=bottom-right" : "align=" + std::to_string(between(-80, 120)));
    }
  }

  /// One length for each batch entry.
  std::string list(std::int64_t most) {
    std::string text;
    for (std::int64_t b = 0; b < batch_; ++b) text += (b == 0 ? "" : ",") + std::to_string(between(0, most));
    return text;
  }

  void lengths() {
    if (with_chance(12)) {
      sequences_ = true;
      query_lengths_ = list(query_length_);
      kv_lengths_ = list(kv_length_);
      return;
    }
    if (with_chance(25)) query_lengths_ = list(query_length_);
    if (with_chance(35)) kv_lengths_ = list(kv_length_);
    if (with_chance(12)) {
      add("ring=" + std::to_string(between(1, 200)));
      contiguous_ = false;
    } else if (with_chance(20)) {
      add("page=" + std::to_string(one_of<std::int64_t>({1, 7, 16, 32, 64})));
      contiguous_ = false;
    }
  }

  void scores() {
    if (with_chance(20)) add("softcap=" + one_of<std::string>({"0.7", "5", "50"}));
    if (with_chance(30)) {
      // Two statements, because a compiler might evaluate the draws of one expression in either order.
      mask_dims_ = one_of<std::string>({"", ":bhqk", ":hqk", ":bqk", ":bk", ":k"});
      mask_ = one_of<std::string>({"f32", "f16", "bytes", "bits"});
      if (with_chance(50)) add("hidden=" + one_of<std::string>({"0", "0.5", "0.9", "1"}));
      if (with_chance(50) && mask_.starts_with('f')) add("zeros=" + one_of<std::string>({"0.5", "1"}));
      if (with_chance(50)) add("block=" + std::to_string(one_of<std::int64_t>({8, 32, 50})));
    }
    if (with_chance(20)) add("sinks");
    if (with_chance(12)) {
      has_dropout_ = true;
      add("dropout=" + one_of<std::string>({"0.1", "0.5", "0.9"}));
      add("dropout_seed=" + std::to_string(below(100000)));
    }
    if (with_chance(12)) {
      add("weights=" + one_of<std::string>({"scores", "softcap", "masked", "probabilities"}));
    }
    if (with_chance(40)) add("lse");
    if (with_chance(20)) scale_ = one_of<std::string>({"-0.2", "0.5", "0.01"});
    if (with_chance(20)) data_ = one_of<std::string>({"uniform", "dominant", "equal"});
    if (with_chance(10)) magnitude_ = one_of<std::string>({"0.001", "10"});
  }

  /// The number of multiplications. Unusual sizes must keep it below kMostWork, which takes a CPU about a
  /// second.
  [[nodiscard]] std::int64_t work() const {
    return batch_ * kv_heads_ * group_ * query_length_ * kv_length_ * (head_dim_ + value_dim_);
  }
  /// Changes a size if the work then stays small enough.
  void enlarge(std::int64_t& size, std::int64_t larger) {
    constexpr std::int64_t kMostWork = 50'000'000;
    const std::int64_t before = std::exchange(size, larger);
    if (work() > kMostWork) size = before;
  }

  std::int64_t large_dim() {
    if (with_chance(50) || blocks_) return one_of<std::int64_t>({96, 128, 192, 256, 320, 512, 576});
    return between(81, kMaxHeadDim);
  }

  void rare_sizes() {
    if (with_chance(10)) {
      enlarge(head_dim_, large_dim());
      enlarge(value_dim_, with_chance(60) ? head_dim_ : large_dim());
    }
    if (with_chance(10)) enlarge(group_, one_of<std::int64_t>({5, 7, 8, 12, 16}));
    if (!with_chance(10)) return;
    const std::int64_t before = kv_length_;
    enlarge(kv_length_, between(301, 3000));
    if (kv_lengths_.empty()) return;
    const std::string larger = list(kv_length_);
    if (kv_length_ != before) kv_lengths_ = larger;
  }

  void rare_memory() {
    if (with_chance(10) && contiguous_ && !quantised_) {
      // A packed tensor needs equal lengths, dims and types.
      layout_ = "packed";
      value_dim_ = head_dim_;
      query_length_ = kv_length_ = std::max(query_length_, std::min<std::int64_t>(kv_length_, 100));
      if (sequences_) query_lengths_ = kv_lengths_ = list(query_length_);
    }
    if (!with_chance(10)) return;
    const std::int64_t alignment = one_of<std::int64_t>({0, 4, 8, 16, 64});
    constexpr std::int64_t kLeastBytes = 2;  // the least size of an element that may be shifted
    if (alignment == 0 || shift_ * kLeastBytes % alignment == 0) add("aligned=" + std::to_string(alignment));
  }

  void rare_scores() {
    if (with_chance(15) && !mask_.empty() && mask_ != "bits") {
      mask_dims_ = one_of<std::string>({":q", ":hq", ":bhq", ":bq", ":b", ":h"});
    }
    if (with_chance(30) && has_dropout_) {
      add("dropout_offset=" + one_of<std::string>({"1", "77", "4294967295"}));
    }
    // With steep scores float32 leaves too little to compare. float16 and the scales of blocks would be
    // subnormal.
    const bool steep = !scale_.empty() || data_ == "dominant";
    const bool may_be_tiny = type_ != "f16" && output_ != "f16" && !quantised_;
    if (!with_chance(10) || !magnitude_.empty() || steep) return;
    magnitude_ = one_of<std::string>({"1e-06", "1e-05", "100", "1000"});
    if (magnitude_[1] == 'e' && !may_be_tiny) magnitude_ = "100";
  }

  /// Draws even if the build cannot compile score functions, so that later draws stay the same.
  void score_function() {
    if (!with_chance(10)) return;
    const std::string kind = one_of<std::string>({"alibi", "prefix", "documents", "bias"});
    if (with_score_functions_) add("score=" + kind);
  }

  void packed_queries() {
    if (!with_chance(12) || sequences_ || layout_ == "packed") return;
    packed_queries_ = true;
    if (query_lengths_.empty()) query_lengths_ = list(query_length_);
  }

  /// Keys that the device appends. They are turned with the queries if there are as many of both.
  void append() {
    if (!with_chance(8) || sequences_ || kv_length_ == 0) return;
    const bool may_turn = head_dim_ % 2 == 0 && query_length_ <= kv_length_;
    const bool turns = with_chance(40) && may_turn;
    const std::int64_t few = std::min<std::int64_t>(between(1, 20), kv_length_);
    const std::int64_t some = one_of<std::int64_t>({1, few, kv_length_});
    appends_ = true;
    add("append=" + std::to_string(turns ? query_length_ : some));
    if (turns) add("rotary=" + one_of<std::string>({"half-split", "interleaved"}));
  }

  /// Many keys, as in a decode step in a long context.
  void many_keys() {
    if (!with_chance(4) || layout_ == "packed" || !kv_lengths_.empty()) return;
    enlarge(kv_length_, between(3001, 60'000));
  }

  /// Heads of the mask in turn, and slopes that multiply it.
  void mask_heads() {
    const std::int64_t heads = kv_heads_ * group_;
    const std::size_t letter = mask_dims_.find('h');
    if (with_chance(50) && letter != std::string::npos) {
      const std::int64_t part = one_of<std::int64_t>({2, 3});
      if (heads % part == 0) mask_dims_.insert(letter + 1, std::to_string(heads / part));
    }
    if (with_chance(40) && mask_.starts_with('f') && !has_alibi_) add("alibi=times-mask");
  }

  /// A length from the last quarter, so that usually the same blocks suit it.
  std::int64_t shortened(std::int64_t length) { return length - between(0, length / 4); }

  /// Draws after all others, so that variants differ in lengths alone. If keys are appended, no length
  /// changes.
  void other_lengths(std::uint64_t variant) {
    random_.discard(variant);
    if (appends_) return;
    query_length_ = shortened(query_length_);
    kv_length_ = shortened(kv_length_);
    if (layout_ == "packed") query_length_ = kv_length_ = std::max(query_length_, kv_length_);
    if (!query_lengths_.empty()) query_lengths_ = list(query_length_);
    if (!kv_lengths_.empty())
      kv_lengths_ = sequences_ && layout_ == "packed" ? query_lengths_ : list(kv_length_);
  }

  void add_given(const char* word, const std::string& value) {
    if (!value.empty()) add(word + value);
  }

  /// Adds the words whose values later draws may have changed.
  void add_lasting() {
    add("b" + std::to_string(batch_) + " hq" + std::to_string(kv_heads_ * group_) + " hkv" +
        std::to_string(kv_heads_));
    add(std::to_string(query_length_) + "x" + std::to_string(kv_length_));
    add("d" + std::to_string(head_dim_) + " dv" + std::to_string(value_dim_));
    add(type_);
    add_given("output=", output_);
    add_given("layout=", layout_);
    if (shift_ != 0) add("shift=" + std::to_string(shift_));
    if (sequences_) add("sequences");
    if (packed_queries_) add("sequences=queries");
    add_given("query_lengths=", query_lengths_);
    add_given("kv_lengths=", kv_lengths_);
    if (!mask_.empty()) add("mask=" + mask_ + mask_dims_);
    add_given("scale=", scale_);
    add_given("data=", data_);
    add_given("magnitude=", magnitude_);
  }

  std::mt19937_64 random_;
  bool with_score_functions_;
  std::string text_;
  std::int64_t batch_ = 1, kv_heads_ = 1, group_ = 1, query_length_ = 1, kv_length_ = 1;
  std::int64_t head_dim_ = 1, value_dim_ = 1, shift_ = 0;
  bool quantised_ = false, blocks_ = false, sequences_ = false, packed_queries_ = false, contiguous_ = true;
  bool has_dropout_ = false, has_alibi_ = false, appends_ = false;
  /// The values of words. Empty if the problem does not have the word.
  std::string type_, output_, layout_, query_lengths_, kv_lengths_, mask_, mask_dims_, scale_, data_,
      magnitude_;
};

}  // namespace

std::string random_problem(std::uint64_t seed, bool with_score_functions, std::uint64_t variant) {
  return Draw(seed, with_score_functions).problem(variant);
}

}  // namespace vkattn::tests
