// Transfers: see run_transfer.hpp.
#include "run_transfer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <utility>

#include "error.hpp"
#include "harness/quantise.hpp"
#include "harness/share.hpp"

namespace vkattn::cli {
namespace {

constexpr std::size_t kPieceElements = std::size_t{1} << 19U;  // at most 4 MiB of float64

/// Writes a tensor's memory from its first byte onward.
class DeviceWriter {
 public:
  DeviceWriter(const Runtime& runtime, const harness::ProblemRun::Tensor& tensor)
      : runtime_(runtime), tensor_(tensor) {}

  void append(std::span<const std::byte> bytes) {
    pending_.insert(pending_.end(), bytes.begin(), bytes.end());
    if (pending_.size() >= kPieceBytes) flush();
  }

  void flush() {
    if (pending_.empty()) return;
    require(runtime_.write(tensor_.buffer, tensor_.offset + written_, pending_));
    written_ += pending_.size();
    pending_.clear();
  }

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 22U;
  const Runtime& runtime_;
  const harness::ProblemRun::Tensor& tensor_;
  VkDeviceSize written_ = 0;
  std::vector<std::byte> pending_;
};

/// Calls visit(elements as stored) for the next `count` elements of a file, piece by piece.
template <class Visit>
void read_pieces(npy::Reader& reader, std::int64_t count, std::vector<std::byte>& raw, Visit visit) {
  const std::size_t size = npy::element_bytes(reader.header().type);
  for (auto left = static_cast<std::size_t>(count); left > 0;) {
    const std::size_t now = std::min(kPieceElements, left);
    raw.resize(now * size);
    require(reader.read(raw));
    visit(std::span<const std::byte>(raw));
    left -= now;
  }
}

/// Keys or values in the order of the device's memory. Those of a past come before the new ones.
class Source {
 public:
  Source(InputFile& now, InputFile* past, Layout layout) : now_(now), past_(past), layout_(layout) {}

  /// Calls visit(header, elements as stored).
  template <class Visit>
  void for_each_piece(Visit visit) {
    // Rows of one head lie together; in bshd, rows of all heads do. Without a past everything is one run.
    const std::int64_t heads = layout_ == Layout::kBshd ? 1 : now_.heads;
    const std::int64_t runs = past_ == nullptr ? 1 : now_.batch * heads;
    for (InputFile* file : {past_, &now_}) {
      if (file != nullptr) file->reader.rewind();
    }
    for (std::int64_t run = 0; run < runs; ++run) {
      for (InputFile* file : {past_, &now_}) {
        if (file == nullptr) continue;
        const npy::Header& header = file->reader.header();
        read_pieces(file->reader, header.elements / runs, raw_,
                    [&](std::span<const std::byte> piece) { visit(header, piece); });
      }
    }
  }

  [[nodiscard]] std::int64_t elements() const {
    return now_.reader.header().elements + (past_ == nullptr ? 0 : past_->reader.header().elements);
  }
  /// The head of an element. The element's number counts in the order of the memory.
  [[nodiscard]] std::int64_t head_of(std::int64_t element) const {
    const std::int64_t length = now_.length + (past_ == nullptr ? 0 : past_->length);
    const std::int64_t head_elements = layout_ == Layout::kBshd ? now_.dim : length * now_.dim;
    return element / head_elements % now_.heads;
  }
  [[nodiscard]] const InputFile& file() const { return now_; }

 private:
  InputFile& now_;
  InputFile* past_;
  Layout layout_;
  std::vector<std::byte> raw_;
};

/// Whether a float16 scale was too small for the block's elements. A NaN scale comes from elements that were
/// not finite before.
bool has_infinite_scale(std::span<const std::byte> block) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, block.data(), sizeof(bits));
  return (bits & 0x7fffU) == 0x7c00U;
}

/// Rounds or quantises elements to a tensor's storage type.
class Encoder {
 public:
  Encoder(DataType type, std::vector<float> head_scales) : type_(type), scales_(std::move(head_scales)) {}

  std::span<const std::byte> encode(const npy::Header& header, std::span<const std::byte> raw,
                                    const Source& source) {
    const std::size_t count = raw.size() / npy::element_bytes(header.type);
    const std::size_t blocks = count / block_elements(type_);  // rows are whole blocks
    stored_.resize(blocks * block_bytes(type_));
    if (!is_quantised(type_)) {
      overflowed_ += npy::convert(header, raw, type_, stored_);
    } else {
      values_.resize(count);
      overflowed_ +=
          npy::convert(header, raw, DataType::kFloat32, std::as_writable_bytes(std::span(values_)));
      quantise(source);
    }
    element_ += static_cast<std::int64_t>(count);
    return stored_;
  }

  [[nodiscard]] std::uint64_t overflowed() const { return overflowed_; }

 private:
  void quantise(const Source& source) {
    if (type_ == DataType::kFloat8E4m3) {
      for (std::size_t i = 0; i < values_.size(); ++i) {
        const std::int64_t head = source.head_of(element_ + static_cast<std::int64_t>(i));
        const float scale = scales_[static_cast<std::size_t>(head)];
        stored_[i] = static_cast<std::byte>(harness::quantise_e4m3(values_[i], scale));
      }
      return;
    }
    const std::size_t elements = block_elements(type_), bytes = block_bytes(type_);
    for (std::size_t block = 0; block < values_.size() / elements; ++block) {
      const auto stored = std::span(stored_).subspan(block * bytes, bytes);
      harness::quantise_block(type_, std::span(values_).subspan(block * elements, elements), stored);
      if (has_infinite_scale(stored)) overflowed_ += elements;
    }
  }

  DataType type_;
  std::vector<float> scales_;
  std::vector<float> values_;
  std::vector<std::byte> stored_;
  std::int64_t element_ = 0;
  std::uint64_t overflowed_ = 0;
};

/// Finds the scale of each head in a first walk over the elements.
std::vector<float> find_scales(Source& source, DataType type) {
  if (type != DataType::kFloat8E4m3) return {};
  std::vector<float> largest(static_cast<std::size_t>(source.file().heads), 0.0F);
  std::vector<float> values;
  std::int64_t element = 0;
  source.for_each_piece([&](const npy::Header& header, std::span<const std::byte> raw) {
    values.resize(raw.size() / npy::element_bytes(header.type));
    npy::convert(header, raw, DataType::kFloat32, std::as_writable_bytes(std::span(values)));
    for (const float value : values) {
      float& most = largest[static_cast<std::size_t>(source.head_of(element++))];
      if (std::isfinite(value)) most = std::max(most, std::abs(value));
    }
  });
  for (float& value : largest) value = harness::e4m3_scale(value);
  return largest;
}

/// Writes values to a file. bfloat16 becomes float32, because NumPy does not have bfloat16.
void write_values(OutputFile& output, DataType type, std::span<const std::byte> stored) {
  if (type != DataType::kBfloat16) return require(output.file.write(stored));
  std::vector<float> widened(stored.size() / 2);
  for (std::size_t i = 0; i < widened.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, stored.data() + i * 2, 2);
    widened[i] = bfloat16_to_float(bits);
  }
  require(output.file.write(std::as_bytes(std::span(widened))));
}

void write_numbers(const Transfer& transfer, const harness::ProblemRun::Tensor& tensor,
                   std::span<const std::byte> bytes) {
  if (tensor.bytes != 0) require(transfer.runtime.write(tensor.buffer, tensor.offset, bytes));
}

void warn_of_overflow(const Transfer& transfer, std::uint64_t count, const npy::Reader& reader,
                      DataType type) {
  if (count == 0) return;
  transfer.warnings.push_back(console::count(count, "value") + " of " + reader.path().string() +
                              (count == 1 ? " does" : " do") + " not fit " + std::string(name(type)) +
                              " and became infinite");
}

/// The destination of an array of queries, keys or values.
struct Target {
  DataType type;
  const harness::ProblemRun::Tensor& tensor;
  const harness::ProblemRun::Tensor* scales = nullptr;
  OutputFile* present = nullptr;
  DataType present_type = DataType::kFloat32;
};

void upload_array(const Transfer& transfer, Source source, const Target& target) {
  const InputFile& file = source.file();
  const std::vector<float> scales = find_scales(source, target.type);
  if (target.scales != nullptr) write_numbers(transfer, *target.scales, std::as_bytes(std::span(scales)));
  if (target.present != nullptr) {
    require(target.present->file.write(npy::make_header(target.present->type, target.present->shape)));
  }
  Encoder encoder(target.type, scales);
  Encoder present_encoder(target.present_type, {});
  DeviceWriter writer(transfer.runtime, target.tensor);
  std::size_t done = 0;
  source.for_each_piece([&](const npy::Header& header, std::span<const std::byte> raw) {
    transfer.bar.update(static_cast<double>(done) / static_cast<double>(source.elements()),
                        "reading " + file.role);
    writer.append(encoder.encode(header, raw, source));
    if (target.present != nullptr) {
      write_values(*target.present, target.present_type, present_encoder.encode(header, raw, source));
    }
    done += raw.size() / npy::element_bytes(header.type);
  });
  writer.flush();
  warn_of_overflow(transfer, encoder.overflowed(), file.reader, target.type);
}

/// Writes the mask's own elements. After each run of them it writes values that hide the keys which the mask
/// is too short for.
void upload_mask(const Transfer& transfer, MaskFile& mask) {
  const harness::ProblemRun::Tensor& tensor = transfer.run.tensor(&AttentionTensors::mask);
  const MaskType type = transfer.run.problem().desc.mask.type;
  const DataType stored_type = type == MaskType::kFloat16 ? DataType::kFloat16 : DataType::kFloat32;
  const std::size_t size = type == MaskType::kBytes ? 1 : element_bytes(stored_type);
  const std::int64_t whole = mask.run + mask.missing;
  if (tensor.bytes == 0 || whole == 0) return;
  std::vector<std::byte> hidden(
      static_cast<std::size_t>(std::min<std::int64_t>(mask.missing, kPieceElements)) * size);
  const float infinity = -std::numeric_limits<float>::infinity();
  const std::uint16_t half_infinity = float_to_half(infinity);
  for (std::size_t i = 0; i + size <= hidden.size() && size > 1; i += size) {
    std::memcpy(&hidden[i], size == 4 ? static_cast<const void*>(&infinity) : &half_infinity, size);
  }
  DeviceWriter writer(transfer.runtime, tensor);
  const npy::Header& header = mask.reader.header();
  std::vector<std::byte> raw, stored;
  const auto runs = static_cast<std::int64_t>(tensor.bytes / size) / whole;
  for (std::int64_t run = 0; run < runs; ++run) {
    transfer.bar.update(static_cast<double>(run) / static_cast<double>(runs), "reading mask");
    read_pieces(mask.reader, mask.run, raw, [&](std::span<const std::byte> piece) {
      if (size == 1 && npy::element_bytes(header.type) == 1) return writer.append(piece);
      if (size == 1) {
        npy::convert_to_bools(header.type, piece, stored);
      } else {
        stored.resize(piece.size() / npy::element_bytes(header.type) * size);
        npy::convert(header, piece, stored_type, stored, npy::Beyond::kLargest);
      }
      writer.append(stored);
    });
    for (auto left = static_cast<std::size_t>(mask.missing) * size; left > 0;) {
      const std::size_t now = std::min(left, hidden.size());
      writer.append(std::span(hidden).first(now));
      left -= now;
    }
  }
  writer.flush();
}

/// Fills the rows of an output beyond each entry's query length, on their way to the file.
class RowFill {
 public:
  /// A row has `unit` elements. The rows of one batch entry follow each other, and their queries repeat
  /// `repeats` times.
  RowFill(const Problem& problem, DataType type, std::int64_t unit, std::int64_t repeats, float value)
      : type_(type),
        lengths_(problem.query_lengths),
        queries_(problem.desc.query_length),
        unit_(unit),
        repeats_(repeats),
        value_(value) {}

  /// Fills the rows in `stored`, which begins with the element number `first`.
  void operator()(std::int64_t first, std::span<std::byte> stored) const {
    if (lengths_.empty() || unit_ == 0) return;
    const std::size_t size = element_bytes(type_);
    for (std::size_t i = 0; i * size < stored.size(); ++i) {
      const std::int64_t row = (first + static_cast<std::int64_t>(i)) / unit_;
      const std::int64_t batch = row / (queries_ * repeats_);
      if (row % queries_ < lengths_[static_cast<std::size_t>(batch)]) continue;
      // Only float32 is filled with a number other than 0.
      if (size == sizeof(value_)) {
        std::memcpy(&stored[i * size], &value_, size);
      } else {
        std::memset(&stored[i * size], 0, size);
      }
    }
  }

 private:
  DataType type_;
  const std::vector<std::int32_t>& lengths_;
  std::int64_t queries_;
  std::int64_t unit_;
  std::int64_t repeats_;
  float value_;
};

/// Elements of an output that are NaN or infinite.
struct NonfiniteCount {
  DataType type;
  std::uint64_t all = 0, nonfinite = 0;

  void add(std::span<const std::byte> stored) {
    const std::size_t size = element_bytes(type);
    for (std::size_t at = 0; at + size <= stored.size(); at += size) {
      nonfinite += std::isfinite(harness::loaded(&stored[at], type)) ? 0U : 1U;
      ++all;
    }
  }
  /// Reports an overflow of float16 arithmetic, which shows only in the results.
  void warn(const Transfer& transfer) const {
    if (nonfinite == 0) return;
    transfer.warnings.push_back(
        std::to_string(nonfinite) + " of the output's " + console::count(all, "element") +
        (nonfinite == 1 ? " is" : " are") +
        " NaN or infinite: numbers beyond 65504 overflow in --arithmetic f16, unless inputs have such "
        "values; compare with a run without it");
  }
};

/// Reads a tensor in pieces and calls edit(first element, elements as stored) for each before it is written.
template <class Edit>
void download_tensor(const Transfer& transfer, const harness::ProblemRun::Tensor& tensor, DataType type,
                     const Edit& edit, OutputFile& output) {
  require(output.file.write(npy::make_header(output.type, output.shape)));
  const std::size_t size = element_bytes(type);
  std::vector<std::byte> stored;
  for (VkDeviceSize done = 0; done < tensor.bytes;) {
    stored.resize(
        static_cast<std::size_t>(std::min<VkDeviceSize>(kPieceElements * size, tensor.bytes - done)));
    require(transfer.runtime.read(tensor.buffer, tensor.offset + done, stored));
    edit(static_cast<std::int64_t>(done / size), std::span(stored));
    done += stored.size();
    write_values(output, type, stored);
  }
}

}  // namespace

void upload(const Transfer& transfer, RunInputs& inputs, RunOutputs& outputs) {
  harness::ProblemRun& run = transfer.run;
  const Problem& problem = run.problem();
  const AttentionDesc& desc = problem.desc;
  const auto past = [](std::optional<InputFile>& file) { return file ? &*file : nullptr; };
  const auto present = [](std::optional<OutputFile>& file) { return file ? &*file : nullptr; };
  upload_array(transfer, Source(inputs.query, nullptr, problem.desc.layout), {desc.query.type, run.query()});
  upload_array(transfer, Source(inputs.key, past(inputs.past_key), problem.desc.layout),
               {desc.key.type, run.key(), &run.tensor(&AttentionTensors::key_scales),
                present(outputs.present_key), desc.query.type});
  upload_array(transfer, Source(inputs.value, past(inputs.past_value), problem.desc.layout),
               {desc.value.type, run.value(), &run.tensor(&AttentionTensors::value_scales),
                present(outputs.present_value), desc.query.type});
  if (inputs.mask) upload_mask(transfer, *inputs.mask);
  using Slots = AttentionTensors;
  const std::pair<BufferRange Slots::*, std::span<const std::int32_t>> integers[] = {
      {&Slots::kv_lengths, problem.kv_lengths},
      {&Slots::query_lengths, problem.query_lengths},
      {&Slots::cumulative_query_lengths, inputs.cumulative_query_lengths},
      {&Slots::cumulative_kv_lengths, inputs.cumulative_kv_lengths},
      {&Slots::page_table, inputs.page_table}};
  for (const auto& [tensor, numbers] : integers)
    write_numbers(transfer, run.tensor(tensor), std::as_bytes(numbers));
  for (const PerHeadNumbers& given : inputs.per_head) {
    write_numbers(transfer, run.tensor(given.tensor), std::as_bytes(std::span(given.numbers)));
  }
}

void download(const Transfer& transfer, RunOutputs& outputs) {
  const harness::ProblemRun& run = transfer.run;
  const Problem& problem = run.problem();
  const AttentionDesc& desc = problem.desc;
  const float hidden = -std::numeric_limits<float>::infinity();
  const bool bshd = problem.desc.layout == Layout::kBshd;
  // Every row of packed queries belongs to a sequence, so no row is filled.
  const std::int64_t filled = desc.has_packed_queries() ? 0 : 1;
  if (outputs.output) {
    const RowFill fill(problem, desc.output.type,
                       filled * (bshd ? desc.query_heads * desc.value_dim : desc.value_dim),
                       bshd ? 1 : desc.query_heads, 0);
    NonfiniteCount nonfinite{desc.output.type};
    const auto edit = [&](std::int64_t first, std::span<std::byte> stored) {
      fill(first, stored);
      if (transfer.is_float16_arithmetic) nonfinite.add(stored);
    };
    download_tensor(transfer, run.output(), desc.output.type, edit, *outputs.output);
    if (transfer.is_float16_arithmetic) nonfinite.warn(transfer);
  }
  if (outputs.lse) {
    const RowFill fill(problem, DataType::kFloat32, filled, desc.query_heads, hidden);
    download_tensor(transfer, run.lse(), DataType::kFloat32, fill, *outputs.lse);
  }
  if (outputs.weights) {
    const RowFill fill(problem, DataType::kFloat32, desc.kv_length, desc.query_heads,
                       desc.weights == WeightsStage::kProbabilities ? 0 : hidden);
    download_tensor(transfer, run.tensor(&AttentionTensors::weights), DataType::kFloat32, fill,
                    *outputs.weights);
  }
}

void upload_gradient(const Transfer& transfer, InputFile& file, DataType type,
                     const harness::TensorBuffer& tensor) {
  upload_array(transfer, Source(file, nullptr, Layout::kBhsd), {type, tensor});
}

void download_gradient(const Transfer& transfer, const harness::TensorBuffer& tensor, DataType type,
                       OutputFile& output) {
  download_tensor(
      transfer, tensor, type, [](std::int64_t, std::span<std::byte>) {}, output);
}

}  // namespace vkattn::cli
