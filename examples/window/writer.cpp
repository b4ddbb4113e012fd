#include "window/writer.hpp"

#include "console.hpp"
#include "window/checks.hpp"

namespace window {

namespace {

using example::checked;

// A dispatch is estimated to take at most this, so that a slice of 2 ms has several.
constexpr std::uint64_t kDispatchNs = 250'000;
constexpr auto kCompute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
constexpr auto kTransfer = VK_PIPELINE_STAGE_TRANSFER_BIT;
constexpr auto kReaders = VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT | kTransfer;
constexpr auto kUsed = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;

decoder::GraphOptions options_of(const LanguageModel& from) {
  decoder::GraphOptions options;
  options.cache = vkattn::DataType::kFloat32;
  options.context = options.chunk = from.context();
  options.max_dispatch_ns = kDispatchNs;
  options.shows_all = true;
  return options;
}

}  // namespace

vkattn::Result<LanguageModel> LanguageModel::open(const std::filesystem::path& folder) {
  auto model = generate::read_model(folder);
  if (!model) return model.error();
  auto tokenizer = generate::Tokenizer::open(folder / "tokenizer.json");
  if (!tokenizer) return tokenizer.error();
  auto checkpoint = vkattn::SafetensorsFile::open_folder(folder);
  if (!checkpoint) return checkpoint.error();
  const auto weights = generate::Weights::find(*model, *checkpoint, std::nullopt);
  if (!weights) return weights.error();
  return LanguageModel{*std::move(model), *std::move(tokenizer), *std::move(checkpoint)};
}

Writer::Writer(const Place& place, LanguageModel& from)
    : screen_(place.screen),
      from_(from),
      runtime_(checked(vkattn::Runtime::borrow(place.gpu.attention(), place.queue, place.family))),
      weights_(checked(generate::Weights::find(from.model, from.checkpoint, std::nullopt))) {
  example::before_refusal = vkattn::console::ProgressBar::clear;
  const decoder::Room room = decoder::Room::of(runtime_, "a smaller model needs less");
  const decoder::GraphOptions options = options_of(from);
  const auto check_room = [&](std::uint64_t workspaces) {
    checked(generate::check_room(room, from.model, weights_, options, workspaces));
  };
  check_room(0);
  weights_.allocate(runtime_);
  graph_.emplace(runtime_, from.model, weights_, options);
  graph_->plans().on_workspace = check_room;
  // A prompt has fewer tokens than the context, so no pass is as long as that.
  for (const Pass pass : {Pass::kStep, Pass::kFew}) {
    decoder::Steps steps = graph_->pass(pass);
    steps.insert(steps.end(), graph_->choice().begin(), graph_->choice().end());
    vkattn::FrameBudget budget(dispatches_of(steps));
    passes_.emplace(pass, Steps{std::move(steps), std::move(budget)});
  }
  graph_->plans().on_workspace = {};
  graph_->plans().compile();
  std::printf("uploading %s of weights\n",
              vkattn::console::bytes(static_cast<double>(weights_.bytes())).c_str());
  weights_.upload(runtime_, [](double) {});
  for (example::Buffer& each : chosen_)
    each = example::Buffer(place.gpu, sizeof(std::uint32_t), VK_BUFFER_USAGE_TRANSFER_DST_BIT);
}

void Writer::restart() {
  screen_.wait();
  recorded_.fill(std::nullopt);
  read_ = rows_ = 0;
  is_recording_ = is_waiting_ = false;
}

std::optional<std::uint32_t> Writer::take(const Frame& frame, std::size_t tokens) {
  std::optional<Recorded>& recorded = recorded_[frame.slot];
  if (!recorded || !std::exchange(recorded->ends, false)) return std::nullopt;
  is_waiting_ = false;
  read_ += rows_;
  if (read_ < tokens) return std::nullopt;
  return chosen_[frame.slot].values<std::uint32_t>()[0];
}

// No pass is pending now, so weights may go to other rows.
void Writer::begin_pass(VkCommandBuffer commands, const std::vector<std::uint32_t>& tokens,
                        const decoder::Sampling& sampling) {
  const std::size_t left = tokens.size() - read_;
  pass_ = left == 1 ? Pass::kStep : Pass::kFew;
  rows_ = std::min(left, static_cast<std::size_t>(graph_->rows_of(pass_)));
  const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(read_);
  const auto count = static_cast<std::int64_t>(rows_), position = static_cast<std::int64_t>(read_);
  const std::vector<std::uint32_t> words =
      graph_->words({{first, first + count}, {count}, {position}}, sampling);
  graph_->place_weights(position);
  const vkattn::BufferRange inputs = graph_->inputs_range();
  example::barrier(commands, kCompute, 0, kTransfer, VK_ACCESS_TRANSFER_WRITE_BIT);
  vkCmdUpdateBuffer(commands, inputs.buffer, inputs.offset, words.size() * sizeof(words[0]), words.data());
  example::barrier(commands, kTransfer, VK_ACCESS_TRANSFER_WRITE_BIT, kCompute, VK_ACCESS_SHADER_READ_BIT);
  passes_.at(pass_).budget.restart();
  is_recording_ = true;
}

void Writer::record(const Frame& frame, const std::vector<std::uint32_t>& tokens,
                    const decoder::Sampling& sampling, double budget_ns, Timer& timer) {
  recorded_[frame.slot].reset();
  if (is_waiting_ || (!is_recording_ && read_ == tokens.size())) return;
  const VkCommandBuffer commands = frame.commands;
  if (!is_recording_) begin_pass(commands, tokens, sampling);
  Steps& pass = passes_.at(pass_);
  const vkattn::RecordOptions slice = pass.budget.next(budget_ns);
  // The last frames' shaders and copies have read the weights.
  example::barrier(commands, kReaders | kCompute, VK_ACCESS_SHADER_WRITE_BIT, kCompute, kUsed);
  timer.begin(frame);
  record_counted([&] { decoder::record_all(commands, pass.steps, slice); });
  timer.end(frame);
  example::barrier(commands, kCompute, VK_ACCESS_SHADER_WRITE_BIT, kReaders,
                   VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT);
  recorded_[frame.slot] = Recorded{slice, pass_, pass.budget.is_done()};
  if (!pass.budget.is_done()) return;
  is_recording_ = false;
  is_waiting_ = true;
  const vkattn::BufferRange from = graph_->chosen_range();
  const VkBufferCopy copy{from.offset, 0, sizeof(std::uint32_t)};
  vkCmdCopyBuffer(commands, from.buffer, chosen_[frame.slot].handle(), 1, &copy);
  example::barrier(commands, kTransfer, VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_HOST_BIT,
                   VK_ACCESS_HOST_READ_BIT);
}

void Writer::measured(const Frame& frame, double ns) {
  const std::optional<Recorded>& recorded = recorded_[frame.slot];
  if (recorded) passes_.at(recorded->pass).budget.measured(recorded->slice, ns);
}

Maps Writer::maps(std::int64_t layer) const {
  const auto context = static_cast<std::uint32_t>(from_.context());
  const auto heads = static_cast<std::uint32_t>(from_.model.heads);
  const std::int64_t window = from_.model.windows[static_cast<std::size_t>(layer)];
  Maps maps;
  maps.heads = static_cast<int>(heads);
  maps.first = static_cast<std::uint32_t>(layer) * heads * context * context;
  maps.head_stride = context * context;
  maps.row_stride = context;
  maps.left = window > 0 ? static_cast<int>(window) - 1 : -1;
  return maps;
}

double Writer::difference(const std::vector<std::uint32_t>& tokens) const {
  if (read_ == 0) return 0;
  const auto count = static_cast<std::int64_t>(read_);
  const std::vector<float> shown = graph_->shown();
  double largest = 0;
  for (std::int64_t layer = 0; layer < from_.model.layers; ++layer) {
    decoder::GraphOptions options;
    options.cache = vkattn::DataType::kFloat32;
    options.context = options.chunk = count;
    options.shown_layer = layer;
    decoder::Graph whole(runtime_, from_.model, weights_, options);
    decoder::Tokens read(tokens.begin(), tokens.begin() + count);
    read.push_back(0);  // is left, so that no token is chosen
    decoder::Texts text({read});
    decoder::Sampling sampling;
    whole.read(text, sampling);
    const std::vector<float> expected = whole.shown();
    const Maps maps = this->maps(layer);
    for (int head = 0; head < maps.heads; ++head) {
      for (std::size_t row = 0; row < read_; ++row) {
        const std::size_t first = maps.row(head, static_cast<int>(row));
        for (std::size_t key = 0; key < read_; ++key) {
          const std::size_t at = (static_cast<std::size_t>(head) * read_ + row) * read_ + key;
          const double off = std::abs(static_cast<double>(shown[first + key] - expected[at]));
          if (!(off <= largest)) largest = off;  // a NaN stays
        }
      }
    }
  }
  return largest;
}

}  // namespace window
