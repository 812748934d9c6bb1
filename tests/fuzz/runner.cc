#include "tests/fuzz/runner.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "tests/sanitized.h"
#include "tests/temporary_folder.h"

namespace moetune::fuzz {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kLongestCase_s = 10;                    // of the processor
constexpr double kLongestWait_s = 12 * kLongestCase_s;   // of one that waits, or on a busy machine
constexpr long kMostKiB = (kSanitized ? 3L : 1L) << 20;  // a sanitizer's own memory is as much again
constexpr std::uint64_t kMostFindings = 20;
constexpr std::size_t kLongestInput = std::size_t{2} << 20;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// What the child says of itself, so that it is known if it dies.
struct Shared {
  std::atomic<std::uint64_t> done;  // cases, the one that is running not among them
  std::atomic<bool> ready;          // the target is made
  std::size_t size;
  char finding[2048];
  char input[kLongestInput];
};

class SharedMemory {
 public:
  SharedMemory() : memory_(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) throw BrokenEnvironment("no shared memory");
  }
  SharedMemory(const SharedMemory&) = delete;
  ~SharedMemory() { ::munmap(memory_, sizeof(Shared)); }
  Shared* operator->() const { return static_cast<Shared*>(memory_); }

 private:
  void* memory_;
};

// "" if the case was handled as it should be.
std::string outcome_of(Target& target, const std::string& input) {
  try {
    target.run(input);
  } catch (const BadInput&) {
  } catch (const BrokenEnvironment&) {
  } catch (const std::exception& error) {
    return error.what()[0] == '\0' ? "an exception without a word" : error.what();
  }
  rusage used = {};
  ::getrusage(RUSAGE_SELF, &used);
  if (used.ru_maxrss > kMostKiB) return "it took " + std::to_string(used.ru_maxrss >> 10) + " MiB of memory";
  return "";
}

void announce(const SharedMemory& shared, const std::string& input) {
  const std::size_t size = std::min(input.size(), kLongestInput);
  std::memcpy(shared->input, input.data(), size);
  shared->size = size;
}

std::uint64_t seed_of(std::uint64_t seed, std::uint64_t number) { return Random(seed * 1'000'003 + number).next(); }

// The child: from case `shared->done` on, until one is found or `end` is reached.
[[noreturn]] void serve(const TargetKind& kind, const fs::path& folder, const SharedMemory& shared, std::uint64_t seed,
                        std::uint64_t end) {
  int code = 0;
  try {
    const std::unique_ptr<Target> target = kind.make(folder);
    shared->ready = true;
    while (shared->done < end && code == 0) {
      Random random(seed_of(seed, shared->done));
      const std::string input = target->make(random);
      announce(shared, input);
      const std::string finding = outcome_of(*target, input);
      if (!finding.empty()) {
        std::snprintf(shared->finding, sizeof shared->finding, "%s", finding.c_str());
        code = 1;
      }
      ++shared->done;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "test_fuzz: %s cannot be set up: %s\n", kind.name, error.what());
    code = 2;
  }
  std::fflush(nullptr);
  ::_exit(code);
}

// What the process has taken of the processor: what others take makes no case hang.
double cpu_seconds(pid_t process) {
  clockid_t clock = 0;
  timespec used = {};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

// Waits for the child, which is killed if a case takes too long. Returns its status.
int wait_for(pid_t child, const SharedMemory& shared, Clock::time_point deadline, bool& hung) {
  constexpr double kSlower = kSanitized ? 3 : 1;
  std::uint64_t last = shared->done;
  Clock::time_point since = Clock::now();
  double before_s = cpu_seconds(child);
  for (;;) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) return status;
    if (const std::uint64_t done = shared->done; done != last || !shared->ready) {
      last = done;
      since = Clock::now();
      before_s = cpu_seconds(child);
    }
    hung = cpu_seconds(child) - before_s > kSlower * kLongestCase_s || seconds_since(since) > kSlower * kLongestWait_s;
    if (hung || Clock::now() > deadline) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return hung ? status : 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

std::string death(int status, bool hung) {
  if (hung) return "it hangs";
  if (WIFSIGNALED(status)) return std::string("it dies of a signal: ") + ::strsignal(WTERMSIG(status));
  return "it ends the process with code " + std::to_string(WEXITSTATUS(status));
}

void report(const TargetKind& kind, const RunOptions& options, std::uint64_t number, const std::string& finding,
            const std::string& input) {
  fs::create_directories(options.save);
  const fs::path file =
      options.save / (std::string(kind.name) + "-" + std::to_string(options.seed) + "-" + std::to_string(number));
  std::ofstream(file, std::ios::binary) << input;
  std::printf("%s: case %llu: %s\n  again: test_fuzz --replay %s %s\n", kind.name,
              static_cast<unsigned long long>(number), finding.c_str(), kind.name, file.c_str());
  std::fflush(stdout);
}

}  // namespace

RunResult run_target(const TargetKind& kind, const RunOptions& options) {
  const Clock::time_point begin = Clock::now();
  const Clock::time_point deadline =
      options.seconds > 0
          ? begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds))
          : Clock::time_point::max();
  const SharedMemory shared;
  RunResult result;
  while (shared->done < options.cases && result.findings < kMostFindings && Clock::now() < deadline) {
    const TemporaryFolder folder;
    shared->ready = false;
    shared->finding[0] = '\0';
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child < 0) throw BrokenEnvironment("cannot fork");
    if (child == 0) serve(kind, folder.path(), shared, options.seed, options.cases);
    bool hung = false;
    const int status = wait_for(child, shared, deadline, hung);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2 && !shared->ready)
      throw BrokenEnvironment(std::string(kind.name) + " cannot be set up");
    if (status == 0) continue;
    const bool said = shared->finding[0] != '\0';
    if (!said) ++shared->done;
    ++result.findings;
    report(kind, options, shared->done - 1, said ? shared->finding : death(status, hung),
           std::string(shared->input, shared->size));
  }
  result.cases = shared->done;
  result.seconds = seconds_since(begin);
  return result;
}

std::string replay_input(const TargetKind& kind, const std::string& input) {
  const TemporaryFolder folder;
  const std::unique_ptr<Target> target = kind.make(folder.path());
  return outcome_of(*target, input);
}

}  // namespace moetune::fuzz
