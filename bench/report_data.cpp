// The JSON and CSV forms of a report.
#include <locale>
#include <sstream>

#include "json.hpp"
#include "report.hpp"

namespace vkattn::bench {
namespace {

double to_ms(double nanoseconds) {
  return nanoseconds * 1e-6;
}

Json peaks_json(const Peaks& peaks) {
  if (!peaks.measured()) return {};
  Json matrix = Json::array();
  for (const MatrixPeak& entry : peaks.matrix) {
    Json item{{"operand", entry.operand}, {"accumulator", entry.accumulator}};
    if (entry.missing.empty()) {
      item["flops_per_second"] = entry.peak.rate;
      item["variant"] = entry.peak.variant;
    } else {
      item["missing"] = entry.missing;
    }
    matrix.push_back(std::move(item));
  }
  Json memory = Json::array();
  for (const MemoryPoint& point : peaks.memory) {
    memory.push_back(Json{{"working_set_bytes", point.working_set_bytes},
                          {"copy_bytes_per_second", point.copy_rate},
                          {"read_bytes_per_second", point.read_rate}});
  }
  const auto bytes_peak = [](const Peak& peak) {
    return Json{{"bytes_per_second", peak.rate}, {"variant", peak.variant}};
  };
  return Json{{"multiply_add_f32",
               Json{{"flops_per_second", peaks.multiply_add.rate}, {"variant", peaks.multiply_add.variant}}},
              {"matrix", std::move(matrix)},
              {"copy", bytes_peak(peaks.copy)},
              {"read", bytes_peak(peaks.read)},
              {"memory_by_working_set", std::move(memory)}};
}

Json row_json(const Row& row, const Peaks& peaks) {
  const auto of_work = [&](double number) { return row.work_known ? Json(number) : Json(); };
  const auto of_peak = [&](double share, bool is_known) {
    return peaks.measured() && is_known ? of_work(share) : Json();
  };
  Json json{{"name", row.name},
            {"problem", row.problem},
            {"outcome", name(row.outcome)},
            {"message", row.message},
            {"kernel", row.kernel},
            {"arithmetic", vkattn::name(row.arithmetic_type)},
            {"flops", of_work(row.work.flops)},
            {"bytes", of_work(row.work.bytes)}};
  if (row.predicted_ns > 0) json["predicted_ms"] = to_ms(row.predicted_ns);
  if (row.plan_ns > 0) json["plan_ms"] = to_ms(row.plan_ns);
  if (row.first_run_ns > 0) json["first_run_ms"] = to_ms(row.first_run_ns);
  if (row.check.rows_checked > 0) json["check"] = check_json(row.check);
  if (row.outcome != Outcome::kMeasured) return json;
  json.update(Json{{"runs", row.time_ns.count},
                   {"median_ms", to_ms(row.time_ns.median)},
                   {"p5_ms", to_ms(row.time_ns.p5)},
                   {"p95_ms", to_ms(row.time_ns.p95)},
                   {"min_ms", to_ms(row.time_ns.minimum)},
                   {"max_ms", to_ms(row.time_ns.maximum)},
                   {"record_ns", row.record.median_ns},
                   {"record_allocations", row.record.allocations ? Json(*row.record.allocations) : Json()},
                   {"gflops_per_second", of_work(row.flops_per_second() * 1e-9)},
                   {"share_of_compute_peak", of_peak(row.compute_share, row.has_compute_peak())},
                   {"gbytes_per_second", of_work(row.bytes_per_second() * 1e-9)},
                   {"share_of_memory_peak", of_peak(row.memory_share, true)},
                   {"above_peak", row.above_peak()},
                   {"tensor_bytes", row.tensor_bytes},
                   {"host_before_bytes", row.host_before_bytes},
                   {"host_peak_bytes", row.host_peak_bytes}});
  if (row.forward_ns > 0) {
    json.update(Json{{"forward_kernel", row.forward_kernel},
                     {"forward_median_ms", to_ms(row.forward_ns)},
                     {"times_forward", row.times_forward()}});
  }
  return json;
}

/// Puts a field in quotes if it needs them (RFC 4180).
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_number(double value) {
  std::ostringstream stream;
  stream.imbue(std::locale::classic());
  stream.precision(9);
  stream << value;
  return stream.str();
}

}  // namespace

std::string to_json(const Report& report) {
  Json rows = Json::array();
  for (const Row& row : report.rows) rows.push_back(row_json(row, report.peaks));
  const Json json{{"version", report.version},
                  {"command", report.command},
                  {"suite", report.suite},
                  {"date", report.date},
                  {"device", device_json(report.device)},
                  {"timing", report.device_timestamps ? "device timestamps" : "host clock"},
                  {"options", Json{{"kernels", report.kernels},
                                   {"repeat", report.options.repeat},
                                   {"max_seconds", report.options.max_seconds},
                                   {"check_rows", report.options.check_rows}}},
                  // Memory of the check is not counted. "process" means since the start, if the system cannot
                  // reset the peak.
                  {"host_peak_scope", report.host_peak_per_problem ? "problem" : "process"},
                  {"peaks", peaks_json(report.peaks)},
                  {"results", std::move(rows)}};
  return dump_json(json);
}

std::string to_csv(const Report& report) {
  std::string text =
      "name,problem,outcome,message,kernel,arithmetic,runs,median_ms,p5_ms,p95_ms,min_ms,max_ms,record_ns,"
      "record_allocations,gflops_per_second,share_of_compute_peak,gbytes_per_second,share_of_memory_peak,"
      "predicted_ms,plan_ms,first_run_ms,check_rows,"
      "check_share_of_tolerance,forward_median_ms,tensor_bytes,host_peak_bytes,device\n";
  for (const Row& row : report.rows) {
    for (const std::string& field : {row.name, row.problem, std::string(name(row.outcome)), row.message,
                                     row.kernel, std::string(vkattn::name(row.arithmetic_type))}) {
      text += csv_field(field) + ",";
    }
    const bool measured = row.outcome == Outcome::kMeasured;
    const auto add = [&](bool known, double number) { text += (known ? csv_number(number) : "") + ","; };
    add(measured, static_cast<double>(row.time_ns.count));
    for (const double time :
         {row.time_ns.median, row.time_ns.p5, row.time_ns.p95, row.time_ns.minimum, row.time_ns.maximum}) {
      add(measured, to_ms(time));
    }
    add(measured, row.record.median_ns);
    add(measured && row.record.allocations, static_cast<double>(row.record.allocations.value_or(0)));
    const bool has_work = measured && row.work_known, has_peaks = has_work && report.peaks.measured();
    add(has_work, row.flops_per_second() * 1e-9);
    add(has_peaks && row.has_compute_peak(), row.compute_share);
    add(has_work, row.bytes_per_second() * 1e-9);
    add(has_peaks, row.memory_share);
    for (const double time : {row.predicted_ns, row.plan_ns, row.first_run_ns}) add(time > 0, to_ms(time));
    text += std::to_string(row.check.rows_checked) + "," + csv_number(row.check.largest_share) + ",";
    add(row.forward_ns > 0, to_ms(row.forward_ns));
    text += std::to_string(row.tensor_bytes) + "," + std::to_string(row.host_peak_bytes) + "," +
            csv_field(report.device.device_name) + "\n";
  }
  return text;
}

}  // namespace vkattn::bench
