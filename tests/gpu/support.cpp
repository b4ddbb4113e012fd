// The shared Runtime, and running one problem on it.
#include "gpu/support.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <regex>
#include <span>

#include "common/message.hpp"
#include "harness/score_problem.hpp"
#include "kernels/row_layout.hpp"
#include "runtime/probed_rows.hpp"
#include "support/cache_reference.hpp"
#include "vulkan/device_state.hpp"
#include "vulkan/shared_pipelines.hpp"
#ifdef VKATTN_HAVE_SCORE_FUNCTIONS
#include <vkattn/score_function.hpp>
#endif

namespace vkattn::tests {
namespace {

/// Of the form kRowsInLanes: for lavapipe, which takes a small tile for wide heads, and for GPUs.
constexpr TileSizes kLanesTiles[] = {{0, 2, 1, 16, 16, 0}, {0, 1, 1, 8, 8, 0}, {0, 4, 1, 32, 32, 0}};

constexpr const char* kWithoutForce = "a comparison without force: an output of zeros would have passed";

using bench::parse_problem;
using bench::ScoreKind;

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0' && std::string_view(value) != "0";
}

/// It is made at first use and destroyed before main() ends: a driver may be gone when static destructors
/// run.
struct SharedRuntime : testing::Environment {
  std::unique_ptr<Runtime> runtime;
  std::string error;
  bool tried = false;

  /// Pipelines of plans that were made with UnrolledLoops; while one lives, those of all other plans.
  detail::SharedPipelines other_pipelines;

  void TearDown() override {
    UnrolledLoops::on_change = nullptr;
    other_pipelines.keep(0);
    if (runtime) pipelines().keep(0);
    runtime.reset();
  }

  void create() {
    if (tried) return;
    tried = true;
    RuntimeOptions options;
    const char* const validation = std::getenv("VKATTN_VALIDATION");
    options.validation = is_set("VKATTN_VALIDATION");
    options.gpu_assisted_validation = options.validation && std::string_view(validation) == "gpu";
    options.pipeline_cache = false;  // tests neither leave nor find cache files
    Result<Runtime> made = Runtime::create(options);
    if (made.ok()) {
      runtime = std::make_unique<Runtime>(std::move(made).value());
      for (detail::SharedPipelines* all : {&pipelines(), &other_pipelines})
        all->keep(64);  // many tests run several problems with the same pipeline
      UnrolledLoops::on_change = [this] { pipelines().swap(other_pipelines); };
      testing::Test::RecordProperty("device", capabilities().device_name);
    } else {
      error = made.error().message;
    }
  }

  [[nodiscard]] const Capabilities& capabilities() const { return runtime->device().capabilities(); }
  [[nodiscard]] detail::SharedPipelines& pipelines() const { return *runtime->device().state().pipelines; }
};

SharedRuntime& shared() {
  // GoogleTest owns environments. This one registers itself before main().
  static auto* const environment =
      static_cast<SharedRuntime*>(testing::AddGlobalTestEnvironment(new SharedRuntime));
  return *environment;
}

[[maybe_unused]] const SharedRuntime& registered = shared();

/// The rows to compare: all rows of a small problem, otherwise as many as the reference computes in some
/// milliseconds.
harness::RowSelection rows_to_check(const Problem& problem) {
  const AttentionDesc& desc = problem.desc;
  const std::int64_t row_work = std::max<std::int64_t>(1, desc.kv_length) * (desc.head_dim + desc.value_dim);
  constexpr std::int64_t kMostWork = 10'000'000;
  return {std::max<std::int64_t>(64, kMostWork / row_work), problem.seed};
}

/// Uploads each table into a buffer of its own.
std::vector<Buffer> upload_tables(const Runtime& runtime, const ScoreSetup& score) {
  std::vector<Buffer> buffers;
  for (const std::vector<std::uint32_t>& table : score.tables)
    buffers.push_back(filled_buffer(runtime, table));
  return buffers;
}

#ifdef VKATTN_HAVE_SCORE_FUNCTIONS
Result<ScoreSetup> compiled_score(const Problem& problem) {
  const harness::ScoreText score = harness::score_text(problem);
  auto function = ScoreFunction::create({score.source, score.name, score.buffers});
  if (!function.ok()) return function.error();
  return ScoreSetup{*std::move(function), {}, {}};
}
#else
Result<ScoreSetup> compiled_score(const Problem&) {
  return Error{ErrorCode::kUnsupported, VK_SUCCESS, "this build compiles no score functions"};
}
#endif

testing::AssertionResult failure(const Problem& problem, const RunOptions& options, const std::string& what) {
  return testing::AssertionFailure()
         << what << "\nproblem: " << to_string(problem)
         << (options.score && options.score->hook ? ", with a score function of the test's own" : "")
         << (options.family.empty()
                 ? ""
                 : detail::message(", as on ", options.family, ", which only the test repeats"))
         << "\nrepeat:  vkattn bench \"" << to_string(problem) << "\" --kernel "
         << (options.kernel == kRowsInLanes ? "matrix2 with columns in --tile" : options.kernel)
         << (options.arithmetic_type == DataType::kFloat16 ? " --arithmetic f16" : "");
}

}  // namespace

void GpuTest::SetUp() {
  shared().create();
  if (!shared().runtime) {
    if (is_set("VKATTN_TEST_REQUIRE_DEVICE")) FAIL() << "no Vulkan device: " << shared().error;
    GTEST_SKIP() << "no Vulkan device: " << shared().error;
  }
  messages_before_ = runtime().validation_messages().size();
  if (const std::string reason = reason_to_skip(); !reason.empty()) GTEST_SKIP() << reason;
}

void GpuTest::TearDown() {
  if (!shared().runtime) return;
  const std::vector<std::string>& messages = runtime().validation_messages();
  for (std::size_t i = messages_before_; i < messages.size(); ++i)
    ADD_FAILURE() << "validation: " << messages[i];
}

std::string KernelTest::reason_against_kernel() {
  const std::string reason = reason_against(runtime(), kernel(), fitted("64x64 d64 f16"));
  return reason.empty() ? "" : "the kernel " + kernel() + " cannot run here: " + reason;
}

std::string reason_against(const Runtime& runtime, std::string_view kernel, std::string_view problem) {
  if (kernel == kRowsInLanes) return reason_against_lanes(runtime, parsed(problem).desc);
  return reason_against(runtime.device().capabilities(), kernel, parsed(problem).desc);
}

std::vector<std::string> accepting_kernels(const AttentionDesc& desc, const Capabilities& capabilities) {
  std::vector<std::string> kernels;
  for (const KernelSupport& support : kernel_support(desc, capabilities)) {
    if (support.reason.empty()) kernels.emplace_back(support.kernel);
  }
  return kernels;
}

const Runtime& GpuTest::runtime() {
  return *shared().runtime;
}

Device GpuTest::device_with(const std::function<void(Capabilities&)>& change) {
  Capabilities changed = capabilities();
  change(changed);
  return runtime().device().state().seen_through(std::move(changed));
}

void GpuTest::run_part(std::initializer_list<const char*> problems, const RunOptions& options) {
  for (const char* const problem : part_of(problems)) EXPECT_TRUE(runs_right(runtime(), problem, options));
}

harness::ProblemRun ready_run(const Problem& problem, const Runtime& on) {
  auto run = must(harness::ProblemRun::create(on, problem));
  must(run.fill_inputs());
  must(run.poison_outputs());
  return run;
}

GpuTest::Bound GpuTest::bound(const AttentionPlan& plan, const Problem& problem) {
  harness::ProblemRun run = ready_run(problem);
  Buffer workspace = must(runtime().create_workspace(plan));
  Bindings bindings = must(plan.make_bindings(run.tensors(), workspace.range()));
  return {std::move(run), std::move(workspace), std::move(bindings)};
}

void GpuTest::expect_right(const harness::ProblemRun& run) {
  const auto report = must(run.check());
  EXPECT_TRUE(report.passed()) << to_string(run.problem()) << ": " << report.to_string();
}

void KernelTest::execute_on_kernel(harness::ProblemRun& run) {
  const auto plan = must(make_plan(runtime(), run.problem().desc, {kernel()}));
  ASSERT_EQ(plan.kernel_name(), kernel_of(kernel()));
  must(run.execute(plan));
}

std::string KernelTest::fitted(std::string_view problem) {
  constexpr std::int64_t kHeldRows = 16;
  const AttentionDesc desc = parsed(problem).desc;
  if (kernel() != "decode" || desc.is_empty()) return std::string(problem);
  const std::int64_t most = kHeldRows / (desc.query_heads / desc.kv_heads);
  if (desc.query_length <= most) return std::string(problem);
  // Finds the first word that is two lengths: QUERYxKV. Packed tensors have one length.
  static const std::regex lengths("(^| )([0-9]+)x([0-9]+)( |$)");
  const bool packed = problem.find("layout=packed") != std::string_view::npos;
  const std::string query = std::to_string(most);
  return std::regex_replace(std::string(problem), lengths,
                            "$01" + query + "x" + (packed ? query : "$03") + "$04",
                            std::regex_constants::format_first_only);
}

void KernelTest::run_part(std::initializer_list<const char*> problems, const RunOptions& options) {
  for (const char* const problem : part_of(problems))
    EXPECT_TRUE(runs_right(runtime(), fitted(problem), options));
}

void probe_rows_of(const Runtime& runtime, const TileSizes& tile) {
  for (const std::int64_t dims : {8, 16}) {
    AttentionDesc desc = parsed("64x64 d16 f16").desc;
    desc.head_dim = desc.value_dim = dims;
    must(detail::probe_rows(runtime, desc.resolved(), "matrix2", tile));
  }
}

std::vector<TileSizes> tiles_with_rows_in_lanes(const Capabilities& capabilities) {
  std::vector<TileSizes> tiles;
  for (TileSizes tile : kLanesTiles) {
    const auto has_sizes = [&](const RowLayout& layout) {
      return layout.rows == tile.rows && layout.score_columns == tile.keys && detail::is_usable(layout);
    };
    const auto found = std::ranges::find_if(capabilities.row_layouts, has_sizes);
    if (found == capabilities.row_layouts.end()) continue;
    tile.columns = detail::lanes_of_row(*found);
    tiles.push_back(tile);
  }
  return tiles;
}

std::string reason_against_lanes(const Runtime& runtime, const AttentionDesc& desc) {
  const std::string reason = reason_against(runtime.device().capabilities(), "matrix2", desc);
  if (!reason.empty()) return reason;
  for (const TileSizes& tile : kLanesTiles) probe_rows_of(runtime, tile);
  std::string refusal = "its matrices lie in another way";
  for (const TileSizes& tile : tiles_with_rows_in_lanes(runtime.device().capabilities())) {
    PlanOptions options{.kernel = "matrix2", .tile = tile};
    const auto support = AttentionPlan::supported(runtime.device().capabilities(), desc, options);
    if (support.ok()) return "";
    refusal = support.error().message;
  }
  return refusal;
}

namespace {

// The plan in the first of the form's block sizes that the device takes. An odd number of keys has scores
// computed a tile ahead.
Result<AttentionPlan> make_plan_in_lanes(const Runtime& runtime, const AttentionDesc& desc,
                                         const RunOptions& options) {
  if (const std::string reason = reason_against_lanes(runtime, desc); !reason.empty())
    return detail::unsupported(reason);
  RunOptions with_tile = options;
  with_tile.kernel = "matrix2";
  Result<AttentionPlan> plan = Error{ErrorCode::kUnsupported, {}, "matrix2: no rows in lanes"};
  const Device device = options.device.value_or(runtime.device());
  for (TileSizes tile : tiles_with_rows_in_lanes(device.capabilities())) {
    if (desc.kv_length % 2 != 0) tile.dims = static_cast<std::uint32_t>(kMaxHeadDim);
    with_tile.tile = tile;
    plan = make_plan(runtime, desc, with_tile);
    if (plan.ok()) break;
  }
  return plan;
}

}  // namespace

Result<AttentionPlan> make_plan(const Runtime& runtime, const AttentionDesc& desc,
                                const RunOptions& options) {
  if (options.kernel == kRowsInLanes) return make_plan_in_lanes(runtime, desc, options);
  PlanOptions plan_options{.kernel = options.kernel,
                           .tile = options.tile,
                           .strict_nonfinite = options.strict_nonfinite,
                           .arithmetic_type = options.arithmetic_type,
                           .pipeline_cache = runtime.pipeline_cache(),
                           .max_dispatch_ns = options.max_dispatch_ns,
                           .kv_splits = options.kv_splits};
  const UnrolledLoops unrolled(are_long(options.kernel == "lane_decode"      ? LoopsOf::kLaneDecode
                                        : options.kernel.starts_with("lane") ? LoopsOf::kLane
                                                                             : LoopsOf::kOthers,
                                        desc));
  AttentionDesc whole = desc;
  if (options.score) whole.score_function = options.score->function;
  return AttentionPlan::create(options.device.value_or(runtime.device()), whole, plan_options);
}

bool can_compile_scores() {
#ifdef VKATTN_HAVE_SCORE_FUNCTIONS
  return true;
#else
  return false;
#endif
}

bool is_compiler_too_old(const Error& error) {
  return error.code == ErrorCode::kUnsupported &&
         error.message.find("that score functions are compiled with does not know GL_") != std::string::npos;
}

bool is_without_force(const testing::AssertionResult& result) {
  return !result && std::string_view(result.message()).find(kWithoutForce) != std::string_view::npos;
}

testing::AssertionResult runs_right(const Runtime& runtime, const Problem& problem,
                                    const RunOptions& options) {
  if (problem.score != ScoreKind::kNone && !options.score) {
    Result<ScoreSetup> score = compiled_score(problem);
    if (!score.ok()) return failure(problem, options, "no score function: " + score.error().message);
    RunOptions with_score = options;
    with_score.score = *std::move(score);
    return runs_right(runtime, problem, with_score);
  }
  const Result<AttentionPlan> plan = make_plan(runtime, problem.desc, options);
  const Device device = options.device.value_or(runtime.device());
  if (!plan.ok() && device.capabilities().max_loop_iterations != 0 &&
      plan.error().message.find("ends the loops of an invocation") != std::string::npos) {
    std::printf("left out on this driver, which would end its loops early: %s with %s\n",
                to_string(problem).c_str(), options.kernel.c_str());
    return testing::AssertionSuccess();
  }
  if (!plan.ok() && is_compiler_too_old(plan.error())) {
    std::printf("left out with this glslang: %s with %s\n", to_string(problem).c_str(),
                options.kernel.c_str());
    return testing::AssertionSuccess();
  }
  if (!plan.ok()) return failure(problem, options, "no plan: " + plan.error().message);
  if (plan.value().kernel_name() != kernel_of(options.kernel)) {
    return failure(problem, options, "the plan took the kernel " + std::string(plan.value().kernel_name()));
  }
  if (options.inspect) options.inspect(plan.value());
  return matches_reference(runtime, problem, plan.value(), options);
}

namespace {

/// What a second look at wrong results says: whether they came late, and whether they come each time.
std::string told_again(harness::ProblemRun& run, const harness::Runnable& plan,
                       const harness::RowSelection& rows) {
  const auto verdict = [&]() -> std::string {
    const Result<harness::CheckReport> report = run.check(rows);
    return !report.ok() ? report.error().message : report.value().passed() ? "right" : "wrong";
  };
  std::string text = "; looked at again: " + verdict();
  if (const Result<void> s = run.poison_outputs(); !s.ok()) return text + "; " + s.error().message;
  if (const Result<double> s = run.execute(plan); !s.ok()) return text + "; " + s.error().message;
  return text + "; executed again: " + verdict();
}

}  // namespace

testing::AssertionResult matches_reference(const Runtime& runtime, const Problem& problem,
                                           const harness::Runnable& plan, const RunOptions& options) {
  Result<harness::ProblemRun> run = harness::ProblemRun::create(runtime, problem);
  if (!run.ok()) return failure(problem, options, "no buffers: " + run.error().message);
  std::vector<Buffer> tables;
  if (options.score && options.score->hook) {
    tables = upload_tables(runtime, *options.score);
    std::array<BufferRange, kMaxScoreBuffers> ranges;
    std::transform(tables.begin(), tables.end(), ranges.begin(), [](const Buffer& b) { return b.range(); });
    run->set_score_function(ranges, options.score->hook);
  }
  Result<void> status = run->fill_inputs();
  if (status.ok() && options.prepare) options.prepare(*run);
  if (status.ok()) status = run->poison_outputs();
  if (!status.ok()) return failure(problem, options, "filling: " + status.error().message);
  const Result<double> time = run->execute(plan);
  if (!time.ok()) return failure(problem, options, "running: " + time.error().message);
  const Result<harness::CheckReport> report = run->check(rows_to_check(problem));
  if (!report.ok()) return failure(problem, options, "checking: " + report.error().message);
  if (options.largest_share != nullptr) {
    *options.largest_share = std::max(*options.largest_share, report.value().largest_share);
  }
  if (!report.value().passed()) {
    return failure(problem, options,
                   report.value().to_string() + told_again(*run, plan, rows_to_check(problem)));
  }
  if (report.value().rows_not_zero > 0 && report.value().elements_telling == 0) {
    return failure(problem, options, kWithoutForce);
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult runs_right(const Runtime& runtime, std::string_view problem,
                                    const RunOptions& options) {
  const Result<Problem> parsed_problem = parse_problem(problem);
  if (!parsed_problem.ok()) return testing::AssertionFailure() << parsed_problem.error().message;
  return runs_right(runtime, parsed_problem.value(), options);
}

std::vector<std::byte> read_back(const Runtime& runtime, const harness::ProblemRun::Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.buffer.size()));
  must(runtime.read(tensor.buffer, 0, bytes));
  return bytes;
}

void write_element(const Runtime& runtime, const harness::ProblemRun::Tensor& tensor, const TensorDesc& desc,
                   std::int64_t element, float value) {
  const auto size = element_bytes(desc.type);
  const VkDeviceSize offset = tensor.offset + static_cast<VkDeviceSize>(element) * size;
  const std::uint32_t bits = encoded(desc.type, value);
  must(runtime.write(tensor.buffer, offset, std::as_bytes(std::span(&bits, 1)).first(size)));
}

void write_elements(const Runtime& runtime, const harness::ProblemRun::Tensor& tensor, const TensorDesc& desc,
                    std::int64_t first, std::span<const float> values) {
  for (const float value : values) write_element(runtime, tensor, desc, first++, value);
}

void write_row(const Runtime& runtime, const harness::ProblemRun::Tensor& tensor, const TensorDesc& desc,
               std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t dims, float value) {
  const Strides& s = *desc.strides;
  for (std::int64_t d = 0; d < dims; ++d) {
    const std::int64_t element = batch * s.batch + head * s.head + row * s.row + d * s.dim;
    write_element(runtime, tensor, desc, element, value);
  }
}

float read_element(const Runtime& runtime, const harness::ProblemRun::Tensor& tensor, const TensorDesc& desc,
                   std::int64_t element) {
  const auto size = element_bytes(desc.type);
  const VkDeviceSize offset = tensor.offset + static_cast<VkDeviceSize>(element) * size;
  std::uint32_t bits = 0;
  must(runtime.read(tensor.buffer, offset, std::as_writable_bytes(std::span(&bits, 1)).first(size)));
  return decoded(desc.type, bits);
}

}  // namespace vkattn::tests
