// Runs mixed work for a given time: scripts/soak. A round has a repeated problem, a decode loop, random
// problems, plans that are made and dropped, tuning and caches. Repeated results must have the same bits, and
// all others must be right. After the first rounds memory must not grow.
//
//   vkattn_soak MINUTES [SEED]
#include <vkattn/kernels.hpp>
#include <vkattn/runtime.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/checksum.hpp"
#include "common/message.hpp"
#include "harness/problem_run.hpp"
#include "host_memory.hpp"
#include "problem/problem.hpp"
#include "runtime/files.hpp"
#include "runtime/tuning_file.hpp"
#include "soak/checked.hpp"
#include "soak/decode_loop.hpp"
#include "soak/memory.hpp"
#include "support/random_problem.hpp"

namespace {

using namespace vkattn;
using soak::checked, soak::fail;

constexpr const char* kRepeating = "b2 hq4 hkv2 17x150 d64 f16 causal align=bottom-right lse";
constexpr const char* kRepeatingDecode = "b2 hq4 hkv2 q1 kv700 d64 f16 lse";
constexpr int kRepeats = 250;
/// The number of random problems, which are repeated. With ever new ones a driver's cache would grow.
constexpr std::uint64_t kDistinct = 24;
constexpr std::uint64_t kProblemsOfRound = 3;
/// After this many rounds every problem has run once, and the driver has cached what it keeps.
constexpr std::uint64_t kWarmRounds = kDistinct / kProblemsOfRound;

bench::Problem parsed(const std::string& text) {
  return checked(bench::parse_problem(text), text);
}

std::uint64_t bits_of(const Runtime& runtime, const harness::ProblemRun& run) {
  std::vector<std::byte> all;
  for (const harness::TensorBuffer* tensor : {&run.output(), &run.lse()}) {
    if (tensor->buffer.size() == 0) continue;
    std::vector<std::byte> bytes(tensor->buffer.size());
    checked(runtime.read(tensor->buffer, 0, bytes), "reading an output");
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return detail::checksum(all);
}

class Soak {
 public:
  Soak(const Runtime& runtime, std::filesystem::path folder, std::uint64_t seed)
      : runtime_(runtime), folder_(std::move(folder)), seed_(seed) {}

  /// Runs the same problem again and again on every kernel of the device.
  void repeat_kernels();
  void round();

  std::uint64_t rounds = 0, executions = 0, random_problems = 0, plans = 0;

 private:
  void same_bits(const std::string& what, std::uint64_t bits);
  void repeat(const std::string& problem, const std::string& kernel, int times);
  void random_problem();
  void drop_plans();
  void tune();
  void use_caches();

  const Runtime& runtime_;
  std::filesystem::path folder_;
  std::uint64_t seed_;
  std::map<std::string, std::uint64_t> bits_;  ///< bits of repeated results, from the first time
};

void Soak::same_bits(const std::string& what, std::uint64_t bits) {
  const auto [first, is_new] = bits_.try_emplace(what, bits);
  if (first->second != bits) fail(what + " gave other bits than at first");
}

void Soak::repeat(const std::string& problem, const std::string& kernel, int times) {
  const bench::Problem parsed_problem = parsed(problem);
  harness::ProblemRun run = checked(harness::ProblemRun::create(runtime_, parsed_problem), problem);
  checked(run.fill_inputs(), problem);
  const harness::Runnable plan =
      checked(harness::Runnable::create(runtime_, parsed_problem.desc, {.kernel = kernel}), problem);
  for (int i = 0; i < times; ++i) {
    checked(run.poison_outputs(), problem);
    (void)checked(run.execute(plan), problem);
    same_bits(kernel + ": " + problem, bits_of(runtime_, run));
    ++executions;
  }
  const harness::CheckReport report = checked(run.check({64, 1}), problem);
  if (!report.passed()) fail(kernel + ": " + problem + ": " + report.to_string());
}

void Soak::repeat_kernels() {
  for (const KernelSupport& each :
       kernel_support(parsed(kRepeatingDecode).desc, runtime_.device().capabilities())) {
    if (!each.reason.empty()) continue;
    const std::string kernel(each.kernel);
    repeat(kernel == "decode" ? kRepeatingDecode : kRepeating, kernel, kRepeats);
    std::printf("%d executions on %s had the same bits\n", kRepeats, kernel.c_str());
  }
}

void Soak::random_problem() {
  const std::string text = tests::random_problem(seed_ + random_problems % kDistinct, false);
  const bench::Problem problem = parsed(text);
  harness::ProblemRun run = checked(harness::ProblemRun::create(runtime_, problem), text);
  checked(run.fill_inputs(), text);
  checked(run.poison_outputs(), text);
  const harness::Runnable plan = checked(harness::Runnable::create(runtime_, problem.desc, {}), text);
  (void)checked(run.execute(plan), text);
  const harness::CheckReport report = checked(run.check({64, 1}), text);
  if (!report.passed()) fail(text + ": " + report.to_string());
  ++random_problems;
  ++executions;
}

/// Makes plans that are never compiled, and their bindings.
void Soak::drop_plans() {
  for (int i = 0; i < 20; ++i) {
    const std::string text = tests::random_problem(seed_ + plans % kDistinct * 7919, false);
    PlanOptions options;
    options.deferred_compilation = true;
    const auto plan = AttentionPlan::create(runtime_.device(), parsed(text).desc, options);
    if (plan.ok() && plan->describe().empty()) fail("a plan has no description");
    ++plans;
  }
}

/// Works like `vkattn tune`: times some candidates, and adds the best to a file that the next runtime reads.
void Soak::tune() {
  const std::string text = "h2 40x96 d32";
  const bench::Problem problem = parsed(text);
  const Capabilities& device = runtime_.device().capabilities();
  std::vector<KernelTile> candidates = tuning_candidates(problem.desc, device);
  candidates.resize(std::min<std::size_t>(candidates.size(), 2));
  harness::ProblemRun run = checked(harness::ProblemRun::create(runtime_, problem), text);
  checked(run.fill_inputs(), text);
  std::optional<detail::TuningResult> best;
  for (const KernelTile& candidate : candidates) {
    PlanOptions options;
    options.kernel = candidate.kernel;
    options.tile = candidate.tile;
    const double ns =
        checked(run.execute(checked(harness::Runnable::create(runtime_, problem.desc, options), text)), text);
    ++executions;
    if (!best || ns < best->median_ns)
      best = {TunedProblem{text, problem.desc, candidate, 0, {}}, ns, "lane", ns};
  }
  const std::filesystem::path path = folder_ / "tuning.json";
  const auto write = [&](std::string_view whole) { return detail::replace_file(path, std::span(&whole, 1)); };
  checked(detail::update_tuning(path, device, {*best}, write), "merging a tuning file");
}

/// Makes another runtime in the same process. It reads the caches and the tuning of the round before.
void Soak::use_caches() {
  RuntimeOptions options;
  options.cache_dir = folder_;
  options.tuning_file = folder_ / "tuning.json";
  const Runtime other = checked(Runtime::create(options), "a second runtime");
  if (other.tuning() == nullptr || !other.tuning()->warning.empty()) fail("the tuning file is not read");
  const AttentionPlan plan = checked(other.make_plan(parsed("h2 40x96 d32").desc), "a plan with caches");
  ++plans;
}

void Soak::round() {
  repeat(kRepeating, "lane", 2);
  repeat(kRepeatingDecode, "decode", 2);
  same_bits("the decode loop", detail::checksum(soak::decode_loop(runtime_)));
  executions += 80;
  for (std::uint64_t i = 0; i < kProblemsOfRound; ++i) random_problem();
  drop_plans();
  tune();
  use_caches();
  ++rounds;
}

struct Held {
  std::uint64_t rounds = 0;  ///< rounds so far
  std::uint64_t resident = 0;
  std::int64_t allocations = 0;
  soak::DeviceMemory device;
};

Held held(const Soak& soak) {
  return {soak.rounds, bench::resident_memory_bytes(), soak::live_allocations(), soak::device_memory()};
}

void print(const Soak& soak, const Held& now, double seconds) {
  std::printf(
      "%6.0f s %6llu rounds %8llu executions %6llu random problems %7llu plans | resident %6.1f MiB, "
      "%8lld allocations, device %.1f MiB in %llu pieces\n",
      seconds, static_cast<unsigned long long>(soak.rounds), static_cast<unsigned long long>(soak.executions),
      static_cast<unsigned long long>(soak.random_problems), static_cast<unsigned long long>(soak.plans),
      static_cast<double>(now.resident) / 1048576.0, static_cast<long long>(now.allocations),
      static_cast<double>(now.device.bytes) / 1048576.0, static_cast<unsigned long long>(now.device.pieces));
  std::fflush(stdout);
}

/// The device memory of buffers is the same after every round, because a round destroys all of them.
void expect_same_device_memory(const Held& warm, const Held& now) {
  if (now.device == warm.device) return;
  fail(detail::message("device memory is ", now.device.bytes, " bytes in ", now.device.pieces,
                       " pieces after round ", now.rounds, ", and was ", warm.device.bytes, " in ",
                       warm.device.pieces, " after round ", warm.rounds));
}

/// Compares memory over the last two thirds. Allocations of the validation layer itself may grow.
void expect_no_growth(const Held& warm, const Held& last, bool is_validated) {
  const double growth = (static_cast<double>(last.resident) - static_cast<double>(warm.resident)) / 1048576.0;
  const std::int64_t allocations = last.allocations - warm.allocations;
  const std::uint64_t rounds = last.rounds - warm.rounds;
  std::printf(
      "resident memory changed by %.1f MiB and allocations by %lld in the last two thirds, %llu rounds\n",
      growth, static_cast<long long>(allocations), static_cast<unsigned long long>(rounds));
  constexpr double kMostMiB = 32;  // a driver may keep what it compiled
  if (growth > kMostMiB)
    fail(detail::message("resident memory grows by ", growth, " MiB; ", kMostMiB, " may be a driver's"));
  // A leak occurs at least once in kWarmRounds, because all work of a round comes again.
  const auto most = static_cast<std::int64_t>(rounds / kWarmRounds) - 1;
  if (!is_validated && allocations > most)
    fail(detail::message("live allocations grow by ", allocations, " in ", rounds, " rounds; ", most,
                         " may be chance"));
}

}  // namespace

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  const double minutes = argc > 1 ? std::atof(argv[1]) : 1;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() /
      ("vkattn-soak-" + std::to_string(Clock::now().time_since_epoch().count()));
  std::filesystem::create_directories(folder);
  {
    RuntimeOptions options;
    options.kept_buffers = 0;  // memory is then a sum of what is held
    options.pipeline_cache = false;
    const char* const validation = std::getenv("VKATTN_VALIDATION");
    options.validation = validation != nullptr && *validation == '1';
    const Runtime runtime = checked(Runtime::create(options), "a runtime");
    soak::count_device_memory(runtime);
    std::printf("%s",
                runtime.device().describe().substr(0, runtime.device().describe().find('\n') + 1).c_str());
    Soak soak(runtime, folder, seed);
    soak.repeat_kernels();
    const auto begin = Clock::now();
    const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
    const double seconds = minutes * 60;
    std::optional<Held> warm;  // after a third, when the caches of driver and malloc no longer grow
    double next_line = 0;
    while (soak.rounds < 3 * kWarmRounds || elapsed() < seconds) {
      soak.round();
      const Held now = held(soak);
      if (!warm && soak.rounds >= kWarmRounds && elapsed() >= seconds / 3) warm = now;
      if (warm) expect_same_device_memory(*warm, now);
      if (!runtime.validation_messages().empty()) fail(runtime.validation_messages().front());
      if (elapsed() < next_line) continue;
      print(soak, now, elapsed());
      next_line = elapsed() + seconds / 20;
    }
    const Held last = held(soak);
    print(soak, last, elapsed());
    expect_no_growth(*warm, last, options.validation);
  }
  std::filesystem::remove_all(folder);
  std::printf("ok\n");
}
