// Measures multiply-add and memory rates.
#include "peaks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>

#include "compute_pass.hpp"
#include "shared/peak_constants.h"
#include "vkattn_bench_shaders.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn::bench {
namespace {

constexpr double kShortestRunSeconds = 0.020;
constexpr std::array<std::uint32_t, 3> kWorkgroupSizes = {8, 64, 256};

struct MultiplyAddParameters {
  float scale = 0.5F;
  float shift = 0.75F;
  std::uint32_t iterations = 0;
};

struct CopyParameters {
  std::uint32_t vector_count = 0;
  std::uint32_t never =
      0x5a5a5a5aU;  // random sums seldom equal it; if they do, one harmless vector is stored
  std::uint32_t stores = 0;
  std::uint32_t unused = 0;
  std::uint64_t source_address = 0;  // set by the program, for VKATTN_PEAK_READ_VECTORS
};

Result<detail::ShaderCode> shader_code(std::string_view name) {
  const detail::ShaderBinary* const binary = detail::find_shader(shader_binaries(), name);
  if (binary == nullptr || !binary->is_built()) {
    return Error{ErrorCode::kUnsupported, {}, "this build has no shader " + std::string(name)};
  }
  return binary->code();
}

void keep_best(Peak& best, double rate, const std::string& variant) {
  if (rate > best.rate) best = Peak{rate, variant};
}

std::uint32_t workgroups_for(const Capabilities& capabilities, std::uint64_t wanted) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, capabilities.max_workgroup_count[0]));
}

bool workgroup_fits(const Capabilities& capabilities, std::uint32_t size) {
  return size <= capabilities.max_workgroup_invocations && size <= capabilities.max_workgroup_size[0];
}

/// Operations per second of one variant of the multiply-add kernel.
Result<double> multiply_add_rate(const Runtime& runtime, const detail::ShaderCode& code,
                                 std::uint32_t workgroup_size, std::uint32_t vectors) {
  const Capabilities& capabilities = runtime.device().capabilities();
  // Fills every lane of a large GPU several times. A CPU needs some dozens of workgroups for each core.
  const std::uint64_t lanes = capabilities.is_cpu() ? 16384 : 1U << 20U;
  const std::uint32_t groups = workgroups_for(capabilities, lanes / workgroup_size);
  const Result<Buffer> results =
      runtime.create_buffer(std::uint64_t{groups} * workgroup_size * sizeof(float));
  if (!results.ok()) return results.error();
  const std::array<detail::SpecializationValue, 2> specialization = {
      {{VKATTN_PEAK_WORKGROUP_SIZE_ID, workgroup_size}, {VKATTN_PEAK_VECTORS_ID, vectors}}};
  const std::array<BufferRange, 1> buffers = {results->range()};
  const Result<ComputePass> pass =
      ComputePass::create(runtime, code, specialization, buffers, sizeof(MultiplyAddParameters));
  if (!pass.ok()) return pass.error();
  const auto record = [&](VkCommandBuffer commands, std::uint64_t iterations) {
    MultiplyAddParameters parameters;
    parameters.iterations = static_cast<std::uint32_t>(iterations);
    pass->record(commands, std::as_bytes(std::span(&parameters, 1)), groups);
  };
  const Result<double> seconds = time_unit_of_work(runtime, 16, 1ULL << 30U, record);
  if (!seconds.ok()) return seconds.error();
  const double per_iteration = 2.0 * 4.0 * vectors * VKATTN_PEAK_MULTIPLY_ADD_STEPS * workgroup_size * groups;
  return per_iteration / *seconds;
}

Result<Peak> measure_multiply_add(const Runtime& runtime, const PeakProgress& progress) {
  const Result<detail::ShaderCode> code = shader_code("peak_multiply_add");
  if (!code.ok()) return code.error();
  Peak best;
  double share = 0;
  for (const std::uint32_t vectors : {3U, 6U}) {
    for (const std::uint32_t size : kWorkgroupSizes) {
      if (progress) progress(share, "multiply-add peak");
      share += 1.0 / (2 * kWorkgroupSizes.size());
      if (!workgroup_fits(runtime.device().capabilities(), size)) continue;
      const Result<double> rate = multiply_add_rate(runtime, *code, size, vectors);
      if (!rate.ok()) return rate.error();
      keep_best(best, *rate, std::to_string(vectors * 4) + " chains, workgroups of " + std::to_string(size));
    }
  }
  return best;
}

constexpr std::uint64_t kMebibyte = 1ULL << 20U;
constexpr std::uint32_t kVectorLanes = 8;  // of peak_read_vectors.comp

/// One way of moving bytes: a variant of the copy kernel.
struct CopyVariant {
  std::uint32_t mode = VKATTN_PEAK_COPY;
  std::uint32_t workgroup_size = 64;
  std::uint32_t vectors = 1;

  [[nodiscard]] std::string name() const {
    const char* const how = mode == VKATTN_PEAK_READ_UNIFORM   ? " at one address a workgroup"
                            : mode == VKATTN_PEAK_READ_VECTORS ? ", as vectors at an address"
                                                               : "";
    return std::to_string(vectors) + " x 16 bytes a lane, workgroups of " + std::to_string(workgroup_size) +
           how;
  }
  [[nodiscard]] std::uint64_t group_bytes() const { return std::uint64_t{16} * workgroup_size * vectors; }
};

/// The variants of a mode that suit the device.
std::vector<CopyVariant> variants_of(std::uint32_t mode, const Capabilities& capabilities) {
  if (mode == VKATTN_PEAK_READ_VECTORS) {
    const bool has_vectors =
        capabilities.is_cpu() && capabilities.buffer_addresses && capabilities.shader_int64 &&
        capabilities.subgroup_shuffle && capabilities.storage_buffer_16bit && capabilities.shader_float16 &&
        capabilities.subgroup_size == kVectorLanes && shader_code("peak_read_vectors").ok();
    if (!has_vectors) return {};
    return {{mode, kVectorLanes, 16}, {mode, kVectorLanes, 256}};
  }
  std::vector<CopyVariant> variants;
  for (const std::uint32_t size : kWorkgroupSizes) {
    if (!workgroup_fits(capabilities, size)) continue;
    // Reading one address in a whole workgroup is fast only if a workgroup is one vector of a CPU.
    if (mode == VKATTN_PEAK_READ_UNIFORM && (!capabilities.is_cpu() || size != kWorkgroupSizes.front()))
      continue;
    for (const std::uint32_t vectors : {1U, 8U}) variants.push_back({mode, size, vectors});
  }
  return variants;
}

/// The source and destination buffers of all memory rates.
struct CopyBuffers {
  Buffer source;
  Buffer destination;
  std::uint64_t bytes = 0;         ///< the size of each buffer, in whole MiB
  std::uint32_t mebibyte_sum = 0;  ///< of the words of each MiB of the source, modulo 2^32
};

std::uint32_t sum_of(const std::vector<std::uint32_t>& words) {
  return std::accumulate(words.begin(), words.end(), 0U);
}

Result<CopyBuffers> make_copy_buffers(const Runtime& runtime) {
  const Capabilities& capabilities = runtime.device().capabilities();
  CopyBuffers buffers;
  buffers.bytes = capabilities.is_cpu() ? 128 * kMebibyte : 512 * kMebibyte;
  buffers.bytes = std::min({buffers.bytes, capabilities.max_storage_buffer_range,
                            capabilities.max_buffer_size, capabilities.max_memory_allocation_bytes});
  buffers.bytes -= buffers.bytes % kMebibyte;
  for (Buffer* const buffer : {&buffers.source, &buffers.destination}) {
    Result<Buffer> made = runtime.create_buffer(buffers.bytes);
    if (!made.ok()) return made.error();
    *buffer = std::move(*made);
  }
  // A driver may back memory that was never written by one page of zeros. So the buffers are filled.
  std::vector<std::uint32_t> piece(kMebibyte / sizeof(std::uint32_t));
  std::uint32_t state = 0x9e3779b9U;
  for (std::uint32_t& word : piece) word = state = state * 1664525U + 1013904223U;
  buffers.mebibyte_sum = sum_of(piece);
  for (std::uint64_t at = 0; at < buffers.bytes; at += kMebibyte) {
    for (const Buffer* const buffer : {&buffers.source, &buffers.destination}) {
      const Result<void> status = runtime.write(*buffer, at, std::as_bytes(std::span(piece)));
      if (!status.ok()) return status.error();
    }
  }
  return buffers;
}

Result<ComputePass> make_copy_pass(const Runtime& runtime, const CopyBuffers& buffers,
                                   const CopyVariant& variant) {
  const bool by_vectors = variant.mode == VKATTN_PEAK_READ_VECTORS;
  const Result<detail::ShaderCode> code = shader_code(by_vectors ? "peak_read_vectors" : "peak_copy");
  if (!code.ok()) return code.error();
  std::vector<detail::SpecializationValue> specialization = {
      {VKATTN_PEAK_WORKGROUP_SIZE_ID, variant.workgroup_size}, {VKATTN_PEAK_VECTORS_ID, variant.vectors}};
  std::vector<detail::AddressWord> addresses;
  if (by_vectors) {
    addresses.push_back({0, offsetof(CopyParameters, source_address)});
  } else {
    specialization.push_back({VKATTN_PEAK_COPY_MODE_ID, variant.mode});
  }
  const std::array<BufferRange, 2> ranges = {buffers.source.range(), buffers.destination.range()};
  return ComputePass::create(runtime, *code, specialization, ranges, sizeof(CopyParameters), addresses);
}

/// Records that a variant moves `bytes` so many times, and returns the bytes that it does move.
std::uint64_t record_copies(const ComputePass& pass, const Capabilities& capabilities,
                            const CopyVariant& variant, std::uint64_t bytes, bool stores,
                            VkCommandBuffer commands, std::uint64_t times) {
  // Sets and workgroups are powers of two, or whole MiB.
  const std::uint32_t groups = workgroups_for(capabilities, bytes / variant.group_bytes());
  const std::uint64_t moved = groups * variant.group_bytes();
  CopyParameters parameters;
  parameters.vector_count = static_cast<std::uint32_t>(moved / 16);
  parameters.stores = stores ? 1 : 0;
  for (std::uint64_t i = 0; i < times; ++i) {
    pass.record(commands, std::as_bytes(std::span(&parameters, 1)), groups);
  }
  return moved;
}

/// Copies the source's first MiB, or stores the sums of what is read there: either way, what is stored has
/// the sum of that MiB.
Result<void> check_copy(const Runtime& runtime, const CopyBuffers& buffers, const CopyVariant& variant,
                        const ComputePass& pass) {
  std::vector<std::uint32_t> words(kMebibyte / sizeof(std::uint32_t));
  Result<void> moved = runtime.write(buffers.destination, 0, std::as_bytes(std::span(words)));
  if (!moved.ok()) return moved;
  const auto record = [&](VkCommandBuffer commands) {
    record_copies(pass, runtime.device().capabilities(), variant, kMebibyte, true, commands, 1);
  };
  const auto time = runtime.execute(record);
  if (!time.ok()) return time.error();
  moved = runtime.read(buffers.destination, 0, std::as_writable_bytes(std::span(words)));
  if (!moved.ok()) return moved;
  if (sum_of(words) == buffers.mebibyte_sum) return {};
  return Error{ErrorCode::kVulkan,
               {},
               "the peak of memory has no rate: moving 1 MiB (" + variant.name() +
                   ") gave words with the sum " + std::to_string(sum_of(words)) + " in place of " +
                   std::to_string(buffers.mebibyte_sum) +
                   ", so the driver computes it wrongly; measure with --no-peaks"};
}

/// Bytes per second of one variant. It moves `bytes` of each buffer that it touches.
Result<double> memory_rate_of(const Runtime& runtime, const CopyBuffers& buffers, const CopyVariant& variant,
                              std::uint64_t bytes) {
  const Result<ComputePass> pass = make_copy_pass(runtime, buffers, variant);
  if (!pass.ok()) return pass.error();
  const Result<void> checked = check_copy(runtime, buffers, variant, *pass);
  if (!checked.ok()) return checked.error();
  std::uint64_t moved = 0;
  const auto record = [&](VkCommandBuffer commands, std::uint64_t times) {
    moved = record_copies(*pass, runtime.device().capabilities(), variant, bytes, false, commands, times);
  };
  const Result<double> seconds = time_unit_of_work(runtime, 1, 1ULL << 14U, record);
  if (!seconds.ok()) return seconds.error();
  const double touched = static_cast<double>(moved) * (variant.mode == VKATTN_PEAK_COPY ? 2.0 : 1.0);
  return touched / *seconds;
}

struct BestVariant {
  CopyVariant variant;
  Peak peak;
};

/// The fastest variant of a mode on the whole buffers. Its rate is 0 if the device has none.
Result<BestVariant> find_best_variant(const Runtime& runtime, const CopyBuffers& buffers,
                                      std::uint32_t mode) {
  BestVariant best;
  for (const CopyVariant& variant : variants_of(mode, runtime.device().capabilities())) {
    const Result<double> rate = memory_rate_of(runtime, buffers, variant, buffers.bytes);
    if (!rate.ok()) return rate.error();
    if (*rate > best.peak.rate) best = BestVariant{variant, Peak{*rate, variant.name()}};
  }
  return best;
}

/// The rates of the best variants with data that fits smaller and faster memories.
Result<MemoryPoint> measure_working_set(const Runtime& runtime, const CopyBuffers& buffers,
                                        std::span<const BestVariant> modes, std::uint64_t bytes) {
  MemoryPoint point;
  point.working_set_bytes = bytes;
  for (const BestVariant& best : modes) {
    if (best.peak.rate == 0) continue;
    const bool copies = best.variant.mode == VKATTN_PEAK_COPY;
    const Result<double> rate = memory_rate_of(runtime, buffers, best.variant, copies ? bytes / 2 : bytes);
    if (!rate.ok()) return rate.error();
    double& highest = copies ? point.copy_rate : point.read_rate;
    highest = std::max(highest, *rate);
  }
  return point;
}

Result<void> measure_memory(const Runtime& runtime, const PeakProgress& progress, Peaks& peaks) {
  const auto report = [&](double share) {
    if (progress) progress(share, "memory peak");
  };
  report(0);
  const Result<CopyBuffers> buffers = make_copy_buffers(runtime);
  if (!buffers.ok()) return buffers.error();
  constexpr std::array<std::uint32_t, 4> kModes = {VKATTN_PEAK_COPY, VKATTN_PEAK_READ,
                                                   VKATTN_PEAK_READ_UNIFORM, VKATTN_PEAK_READ_VECTORS};
  std::vector<BestVariant> modes;
  double share = 0.2;
  for (const std::uint32_t mode : kModes) {
    report(share);
    share += 0.15;
    Result<BestVariant> best = find_best_variant(runtime, *buffers, mode);
    if (!best.ok()) return best.error();
    keep_best(mode == VKATTN_PEAK_COPY ? peaks.copy : peaks.read, best->peak.rate, best->peak.variant);
    modes.push_back(*std::move(best));
  }
  constexpr std::array<std::uint64_t, 4> kWorkingSets = {1ULL << 18U, 1ULL << 20U, 1ULL << 23U, 1ULL << 26U};
  for (const std::uint64_t bytes : kWorkingSets) {
    report(share);
    share += 0.05;
    if (bytes >= buffers->bytes) continue;
    const Result<MemoryPoint> point = measure_working_set(runtime, *buffers, modes, bytes);
    if (!point.ok()) return point.error();
    peaks.memory.push_back(*point);
  }
  peaks.memory.push_back({buffers->bytes, peaks.copy.rate, peaks.read.rate});
  return {};
}

}  // namespace

void Peaks::raise(const Peaks& other) {
  const auto raise_peak = [](Peak& peak, const Peak& found) { keep_best(peak, found.rate, found.variant); };
  raise_peak(multiply_add, other.multiply_add);
  raise_peak(copy, other.copy);
  raise_peak(read, other.read);
  for (std::size_t i = 0; i < std::min(matrix.size(), other.matrix.size()); ++i) {
    raise_peak(matrix[i].peak, other.matrix[i].peak);
  }
  for (std::size_t i = 0; i < std::min(memory.size(), other.memory.size()); ++i) {
    memory[i].copy_rate = std::max(memory[i].copy_rate, other.memory[i].copy_rate);
    memory[i].read_rate = std::max(memory[i].read_rate, other.memory[i].read_rate);
  }
}

double Peaks::memory_rate(double bytes) const {
  double best = 0;
  for (auto point = memory.rbegin(); point != memory.rend(); ++point) {
    best = std::max({best, point->copy_rate, point->read_rate});
    if (static_cast<double>(point->working_set_bytes) <= bytes) break;
  }
  return best;
}

double Peaks::compute_rate(std::string_view kernel, std::string_view type) const {
  double best = multiply_add.rate;
  if (kernel.find("matrix") == std::string_view::npos) return best;
  for (const MatrixPeak& entry : matrix) {
    if (entry.operand == type) best = std::max(best, entry.peak.rate);
  }
  return best;
}

Result<double> time_unit_of_work(const Runtime& runtime, std::uint64_t first_amount,
                                 std::uint64_t largest_amount,
                                 const std::function<void(VkCommandBuffer, std::uint64_t)>& record) {
  std::uint64_t amount = first_amount;
  double best = 0;
  int long_runs = 0;
  while (long_runs < 3) {
    auto record_amount = [&](VkCommandBuffer commands) { record(commands, amount); };
    const Result<std::vector<double>> times = runtime.execute(record_amount, 1);
    if (!times.ok()) return times.error();
    const double seconds = times->front() * 1e-9;
    if (seconds < kShortestRunSeconds && amount < largest_amount && long_runs == 0) {
      // The first runs contain compilation that the driver delayed, so the amount grows by a bounded factor.
      const double factor = std::clamp(1.2 * kShortestRunSeconds / std::max(seconds, 1e-9), 1.3, 16.0);
      amount = std::min(largest_amount,
                        static_cast<std::uint64_t>(std::ceil(static_cast<double>(amount) * factor)));
      continue;
    }
    const double unit = seconds / static_cast<double>(amount);
    best = long_runs == 0 ? unit : std::min(best, unit);
    ++long_runs;
  }
  return std::max(best, 1e-15);
}

Result<Peaks> measure_peaks(const Runtime& runtime, const PeakProgress& progress) {
  Peaks peaks;
  Result<Peak> multiply_add = measure_multiply_add(runtime, progress);
  if (!multiply_add.ok()) return multiply_add.error();
  peaks.multiply_add = std::move(*multiply_add);
  if (progress) progress(0, "matrix peaks");
  Result<std::vector<MatrixPeak>> matrix = measure_matrix_peaks(runtime);
  if (!matrix.ok()) return matrix.error();
  peaks.matrix = std::move(*matrix);
  const Result<void> status = measure_memory(runtime, progress, peaks);
  if (!status.ok()) return status.error();
  return peaks;
}

}  // namespace vkattn::bench
