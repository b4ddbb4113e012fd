// Attention that is trained on the device. A sequence holds items, each a key and a value side by side in one
// row, in random order. Each query is the key of one item, and the answer is that item's value. Three
// projections are learned: what to ask with (Q), what to be found by (K) and what to give (V). A step is a
// command buffer for the forward pass and one for the gradients; the host computes the loss and runs the
// optimizer (Adam, arXiv:1412.6980). Every step has new sequences, so that the model learns to look items up,
// not the items.
#include <vkattn/backward.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/runtime.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr std::int64_t kBatch = 32, kItems = 16;  // kItems is also the number of queries
constexpr std::int64_t kKey = 8, kValue = 8;      // numbers of an item's key and value
constexpr std::int64_t kHeadDim = 16;
constexpr std::int64_t kRows = kBatch * kItems;
constexpr int kSteps = 100;

// Ends the program if a call failed. The error says what failed and why.
template <class T>
T checked(vkattn::Result<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(1);
}

void checked(const vkattn::Result<void>& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::exit(1);
}

// float32 numbers on the device; the host can write and read them.
class Array {
 public:
  Array(const vkattn::Runtime& runtime, std::int64_t count)
      : runtime_(&runtime),
        count_(static_cast<std::size_t>(count)),
        buffer_(checked(runtime.create_buffer(count_ * sizeof(float)))) {}
  void write(const std::vector<float>& values) const {
    checked(runtime_->write(buffer_, 0, std::as_bytes(std::span(values))));
  }
  [[nodiscard]] std::vector<float> read() const {
    std::vector<float> values(count_);
    checked(runtime_->read(buffer_, 0, std::as_writable_bytes(std::span(values))));
    return values;
  }
  [[nodiscard]] vkattn::BufferRange range() const { return buffer_.range(); }

 private:
  const vkattn::Runtime* runtime_;
  std::size_t count_;
  vkattn::Buffer buffer_;
};

// A plan with its workspace and bindings, to be recorded any number of times.
template <class Plan>
struct Pass {
  template <class Tensors>
  Pass(const vkattn::Runtime& runtime, Plan made, const Tensors& tensors)
      : plan(std::move(made)),
        workspace(checked(runtime.create_workspace(plan))),
        bindings(checked(plan.make_bindings(tensors, workspace.range()))) {}
  // Records it behind earlier commands, whose results it may read.
  void record(VkCommandBuffer commands) const { plan.record(commands, bindings, {.wait_for_earlier = true}); }
  Plan plan;
  vkattn::Buffer workspace;
  vkattn::Bindings bindings;
};

// A projection Y = X W, and the training of W.
class Projection {
 public:
  Projection(const vkattn::Runtime& runtime, const Array& x, std::int64_t from, std::int64_t to,
             std::mt19937& random)
      : output(runtime, kRows * to),
        grad_output(runtime, kRows * to),
        weight_(runtime, from * to),
        grad_weight_(runtime, from * to),
        values_(static_cast<std::size_t>(from * to)),
        mean_(values_.size()),
        square_(values_.size()),
        forward_(runtime,
                 checked(runtime.make_plan(vkattn::MatmulDesc{.rows = kRows, .columns = to, .inner = from})),
                 vkattn::MatmulTensors{.a = x.range(), .b = weight_.range(), .output = output.range()}),
        backward_(
            runtime, checked(runtime.make_plan(weight_gradient(from, to))),
            vkattn::MatmulTensors{.a = x.range(), .b = grad_output.range(), .output = grad_weight_.range()}) {
    // Glorot and Bengio 2010: activations keep their size.
    const float bound = std::sqrt(6.0F / static_cast<float>(from + to));
    std::uniform_real_distribution<float> weights(-bound, bound);
    for (float& value : values_) value = weights(random);
    weight_.write(values_);
  }
  void record_forward(VkCommandBuffer commands) const { forward_.record(commands); }
  void record_backward(VkCommandBuffer commands) const { backward_.record(commands); }

  void adam(int step) {
    const float rate = 0.05F * (1 - static_cast<float>(step - 1) / kSteps);
    constexpr float kBeta1 = 0.9F, kBeta2 = 0.999F, kEpsilon = 1e-8F;
    const std::vector<float> gradient = grad_weight_.read();
    const float unbias1 = 1 - std::pow(kBeta1, static_cast<float>(step));
    const float unbias2 = 1 - std::pow(kBeta2, static_cast<float>(step));
    for (std::size_t i = 0; i < values_.size(); ++i) {
      mean_[i] += (1 - kBeta1) * (gradient[i] - mean_[i]);
      square_[i] += (1 - kBeta2) * (gradient[i] * gradient[i] - square_[i]);
      values_[i] -= rate * (mean_[i] / unbias1) / (std::sqrt(square_[i] / unbias2) + kEpsilon);
    }
    weight_.write(values_);
  }

  Array output, grad_output;

 private:
  // dW = X^T dY, by exchanged strides of X.
  static vkattn::MatmulDesc weight_gradient(std::int64_t from, std::int64_t to) {
    vkattn::MatmulDesc desc{.rows = from, .columns = to, .inner = kRows};
    desc.a.strides = vkattn::MatrixStrides{.batch = 0, .row = 1, .column = from};
    return desc;
  }
  Array weight_, grad_weight_;
  std::vector<float> values_, mean_, square_;
  Pass<vkattn::MatmulPlan> forward_, backward_;
};

vkattn::AttentionDesc attention_desc() {
  vkattn::AttentionDesc desc;
  desc.batch = kBatch;
  desc.query_heads = desc.kv_heads = 1;
  desc.query_length = desc.kv_length = kItems;
  desc.head_dim = kHeadDim;
  desc.value_dim = kValue;
  desc.has_lse = true;                                  // gradients need it
  desc.weights = vkattn::WeightsStage::kProbabilities;  // only to print them
  return desc;
}

// New sequences and their answers.
struct Sequences {
  explicit Sequences(std::mt19937& random) {
    std::normal_distribution<float> number;
    std::uniform_int_distribution<std::int64_t> any(0, kItems - 1);
    for (std::int64_t row = 0; row < kRows; ++row) {
      std::array<float, kKey + kValue> item{};
      for (float& value : item) value = number(random);
      // All keys get the same length, so that a score is largest where directions agree.
      const std::span key = std::span(item).first(kKey);
      const float length = std::sqrt(std::inner_product(key.begin(), key.end(), key.begin(), 0.0F));
      for (float& value : key) value *= std::sqrt(float{kKey}) / length;
      items.insert(items.end(), item.begin(), item.end());
    }
    for (std::int64_t row = 0; row < kRows; ++row) {
      asked.push_back(any(random));
      const std::int64_t item = row / kItems * kItems + asked.back();
      const auto at = items.begin() + item * (kKey + kValue);
      queries.insert(queries.end(), at, at + kKey);
      answers.insert(answers.end(), at + kKey, at + kKey + kValue);
    }
  }
  std::vector<float> items, queries, answers;
  std::vector<std::int64_t> asked;  // the item in its sequence that each query asks for
};

class Model {
 public:
  Model(const vkattn::Runtime& runtime, std::mt19937& random)
      : runtime_(runtime),
        items_(runtime, kRows * (kKey + kValue)),
        queries_(runtime, kRows * kKey),
        output_(runtime, kRows * kValue),
        lse_(runtime, kRows),
        weights_(runtime, kRows * kItems),
        grad_output_(runtime, kRows * kValue),
        query_(runtime, queries_, kKey, kHeadDim, random),
        key_(runtime, items_, kKey + kValue, kHeadDim, random),
        value_(runtime, items_, kKey + kValue, kValue, random),
        attention_(runtime, checked(runtime.make_plan(attention_desc())), tensors()),
        gradients_(runtime, checked(runtime.make_plan(vkattn::BackwardDesc{.attention = attention_desc()})),
                   vkattn::BackwardTensors{.forward = tensors(),
                                           .grad_output = grad_output_.range(),
                                           .grad_query = query_.grad_output.range(),
                                           .grad_key = key_.grad_output.range(),
                                           .grad_value = value_.grad_output.range()}) {}

  // Returns the mean square error.
  float forward(const Sequences& sequences) {
    items_.write(sequences.items);
    queries_.write(sequences.queries);
    checked(runtime_.execute([&](VkCommandBuffer commands) {
      for (const Projection* one : {&query_, &key_, &value_}) one->record_forward(commands);
      attention_.record(commands);
    }));
    std::vector<float> difference = output_.read();
    float loss = 0;
    for (std::size_t i = 0; i < difference.size(); ++i) {
      difference[i] -= sequences.answers[i];
      loss += difference[i] * difference[i];
      difference[i] *= 2 / static_cast<float>(kRows * kValue);  // now it is the gradient of the loss
    }
    grad_output_.write(difference);
    return loss / static_cast<float>(kRows * kValue);
  }

  // Called after forward().
  void learn(int step) {
    checked(runtime_.execute([&](VkCommandBuffer commands) {
      gradients_.record(commands);
      for (const Projection* one : {&query_, &key_, &value_}) one->record_backward(commands);
    }));
    for (Projection* one : {&query_, &key_, &value_}) one->adam(step);
  }

  [[nodiscard]] std::vector<float> weights() const { return weights_.read(); }

 private:
  [[nodiscard]] vkattn::AttentionTensors tensors() const {
    vkattn::AttentionTensors tensors;
    tensors.query = query_.output.range();
    tensors.key = key_.output.range();
    tensors.value = value_.output.range();
    tensors.output = output_.range();
    tensors.lse = lse_.range();
    tensors.weights = weights_.range();
    return tensors;
  }
  const vkattn::Runtime& runtime_;
  Array items_, queries_, output_, lse_, weights_, grad_output_;
  Projection query_, key_, value_;
  Pass<vkattn::AttentionPlan> attention_;
  Pass<vkattn::BackwardPlan> gradients_;
};

// Prints weights of the first sequence's first queries in percent, with the item that is asked for in
// brackets.
void print_weights(const Model& model, const Sequences& sequences) {
  const std::vector<float> weights = model.weights();
  for (std::size_t query = 0; query < 6; ++query) {
    std::printf("  query %zu ", query);
    for (std::size_t item = 0; item < kItems; ++item) {
      const bool is_asked = sequences.asked[query] == static_cast<std::int64_t>(item);
      const double weight = static_cast<double>(weights[query * kItems + item]);
      std::printf(is_asked ? "[%3.0f]" : " %3.0f ", 100 * weight);
    }
    std::printf("\n");
  }
}

}  // namespace

int main() {
  const vkattn::Runtime runtime = checked(vkattn::Runtime::create());
  std::mt19937 random(1);
  Model model(runtime, random);
  const Sequences unseen(random);

  const float before = model.forward(unseen);
  std::printf("before: error %.3f; weights in percent, what is asked for in brackets\n",
              static_cast<double>(before));
  print_weights(model, unseen);
  for (int step = 1; step <= kSteps; ++step) {
    const float loss = model.forward(Sequences(random));
    model.learn(step);
    if (step % 20 == 0) std::printf("step %3d: error %.3f\n", step, static_cast<double>(loss));
  }
  const float after = model.forward(unseen);
  std::printf("after: error %.3f on sequences that were not seen\n", static_cast<double>(after));
  print_weights(model, unseen);
  for (const std::string& message : runtime.validation_messages())
    std::fprintf(stderr, "%s\n", message.c_str());
  if (!runtime.validation_messages().empty()) return 1;
  if (!(after < 0.05F * before)) {
    std::fprintf(stderr, "it has not learned to look items up\n");
    return 1;
  }
}
