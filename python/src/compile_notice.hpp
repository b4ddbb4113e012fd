// A line at a terminal if a new problem keeps its caller waiting: drivers compile shaders for seconds.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace vkattn::python {

/// While it lives, a thread waits; if that takes longer than kPatience and standard error is a terminal, it
/// writes one line there. A process writes the line once.
class CompileNotice {
 public:
  static constexpr std::chrono::milliseconds kPatience{2000};

  explicit CompileNotice(std::string device_name);
  ~CompileNotice();
  CompileNotice(const CompileNotice&) = delete;
  CompileNotice& operator=(const CompileNotice&) = delete;

 private:
  void wait();

  std::string device_name_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::thread thread_;  // none if nothing would be written
};

/// For tests: how long the notices of this process wait, in place of kPatience.
void set_patience(std::chrono::milliseconds patience);

}  // namespace vkattn::python
