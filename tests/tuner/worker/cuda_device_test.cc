// The real worker process over a scripted stand-in for libcuda: every way a candidate can end, and that the
// next one is fine.
#include "tuner/worker/cuda_device.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "tests/kernels/answers/host_values.h"
#include "tests/tuner/doubling_kernel.h"
#include "tests/within_a_while.h"

namespace moetune {
namespace {

constexpr std::int64_t kElements = OpenFake::kElements;

MeasurePolicy quick_policy() {
  MeasurePolicy policy;
  policy.time_limit_s = 5;
  return policy;
}

// An entry that is refused, and a part of why.
struct Refused {
  const char* entry;
  const char* reason;
};

void check_refused(OpenFake& fake, const Refused& wrong, const MeasurePolicy& policy, const char* right) {
  CAPTURE(std::string(wrong.entry));
  const TrialResult result = fake.run(wrong.entry, policy);
  CHECK(result.outcome == Outcome::wrong_result);
  CHECK_MESSAGE(result.message.find(wrong.reason) != std::string::npos, result.message);
  CHECK(fake.run(right, policy).outcome == Outcome::ok);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Runs or is a zombie that nobody has reaped yet: only the first counts as alive.
bool runs(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(stat, line)) return false;
  const char state = line[line.rfind(')') + 2];
  return state != 'Z' && state != 'X';
}

bool ends(pid_t pid) {
  return testing::within_a_while([pid] { return !runs(pid); });
}

}  // namespace

TEST_CASE("a right candidate is validated and measured, and the parent never maps the driver") {
  OpenFake fake;
  const TrialResult result = fake.run("double__us50");
  REQUIRE(result.message == "");
  CHECK(result.outcome == Outcome::ok);
  CHECK(result.measurement.median_us == doctest::Approx(50));
  CHECK(result.measurement.samples_us.size() == 7);
  CHECK(result.max_error == 0);
  CHECK(std::abs(result.dissimilarity) < 1e-12);
  CHECK(result.validate_s > 0);
  CHECK(result.measure_s > 0);
  CHECK(fake.device.restarts() == 0);

  std::ifstream maps("/proc/self/maps");
  const std::string text((std::istreambuf_iterator<char>(maps)), {});
  CHECK_FALSE(contains(text, "libfakecuda"));
  CHECK_FALSE(contains(text, "libcuda.so"));
  std::ifstream worker_maps("/proc/" + std::to_string(fake.device.worker_pid()) + "/maps");
  const std::string worker_text((std::istreambuf_iterator<char>(worker_maps)), {});
  CHECK(contains(worker_text, "libfakecuda"));
}

TEST_CASE("a noisy candidate is sampled to the limit, and its interval says so") {
  OpenFake fake;
  MeasurePolicy policy = quick_policy();
  policy.max_samples = 15;
  // 500 us and 1000 us in turn, one launch a sample.
  const Measurement measured = fake.run("double__noisy__us500", policy).measurement;
  CHECK(measured.samples_us.size() == 15);
  CHECK(measured.high_us > measured.low_us * 1.2);
}

TEST_CASE("samples whose stream could not be held until all was enqueued are taken again") {
  // Once is bad luck; a driver that runs each launch to its end is measured as it is, without a hold.
  for (const char* script : {"impatient=1", "impatient=2", "impatient=1000"}) {
    CAPTURE(script);
    OpenFake fake(script);
    const TrialResult result = fake.run("double__us50");
    REQUIRE_MESSAGE(result.outcome == Outcome::ok, result.message);
    CHECK(result.measurement.samples_us.size() == 7);
    for (const double sample : result.measurement.samples_us) CHECK(sample == doctest::Approx(50));
  }
}

TEST_CASE("a finalist that lacks memory in the duel says so by its outcome") {
  OpenFake fake;
  const std::vector<TrialResult> results = fake.device.duel(
      {doubling_candidate("double__us40", kElements), doubling_candidate("double__oom", kElements)}, {.rounds = 5});
  CHECK(results[0].outcome == Outcome::ok);
  CHECK(results[1].outcome == Outcome::out_of_memory);
}

TEST_CASE("a candidate that is clearly slower is dropped after a quick look") {
  OpenFake fake;
  MeasurePolicy policy = quick_policy();
  policy.drop_above_us = 100;
  const TrialResult slower = fake.run("double__us150", policy);
  CHECK(slower.outcome == Outcome::too_slow);
  CHECK(slower.measurement.samples_us.size() == 2);
  CHECK(slower.measurement.median_us == doctest::Approx(150));
  CHECK(contains(slower.message, "dropped above 100 us"));
  const TrialResult hopeless = fake.run("double__us5000", policy);
  CHECK(hopeless.outcome == Outcome::too_slow);
  CHECK(hopeless.measurement.samples_us.size() == 1);
  CHECK(fake.run("double__us99", policy).outcome == Outcome::ok);
}

TEST_CASE("wrong answers are wrong results that say what is wrong") {
  OpenFake fake;
  const Refused cases[] = {
      {"double__wrong", "off by 1"},
      {"double__swap", "off by"},
      {"double__zero", "zero everywhere"},
      {"double__nan", "NaN or infinite where the reference is not, or the reverse, in 1 elements, first at 500"},
      {"double__unwritten", "first at 999"},
      {"double__wears", "(as the timed launches left it)"},
      {"double__past", "wrote outside 'y': 0 bytes past its end"},
      {"double__before", "wrote outside 'y': 4 bytes before its start"},
      {"double__input", "changed its input 'x'"},
  };
  for (const Refused& wrong : cases) check_refused(fake, wrong, quick_policy(), "double");
  CHECK(fake.device.restarts() == 0);
}

TEST_CASE("a candidate that would lead by what it remembers is refused, and so is a finalist") {
  OpenFake fake;
  // As each is caught when it would lead; in the finals that can be earlier.
  const Refused cases[] = {
      {"double__byaddress__us3", "(on other inputs at the same addresses)"},
      {"double__bycontent__us3", "it remembers results"},
      {"double__skips", "(as the timed launches left it)"},
      {"double__everyother", ""},
      {"double__ingraphs", "(as the timed launches left it)"},
  };
  MeasurePolicy leads = quick_policy();
  leads.prove_below_us = 1e9;
  for (const Refused& cheat : cases) {
    check_refused(fake, cheat, leads, "double__us300");
    const std::vector<TrialResult> finalists =
        fake.device.duel({doubling_candidate(cheat.entry, kElements), doubling_candidate("double__us300", kElements)},
                         {.rounds = 5, .proves = true});
    CHECK(finalists[0].outcome == Outcome::wrong_result);
    CHECK(finalists[1].outcome == Outcome::ok);
  }
  // One that does not lead is not asked for a proof.
  leads.prove_below_us = 0.5;
  CHECK(fake.run("double__byaddress__us300", leads).outcome == Outcome::ok);
  CHECK(fake.device.restarts() == 0);
}

TEST_CASE("a sticky error is a failed launch, and the worker is started again") {
  OpenFake fake;
  const TrialResult result = fake.run("double__sticky719");
  CHECK(result.outcome == Outcome::launch_failed);
  CHECK(contains(result.message, "CUDA_ERROR_LAUNCH_FAILED"));
  CHECK(fake.run("double").outcome == Outcome::ok);
  CHECK(fake.device.restarts() == 1);
}

TEST_CASE("an error after so many launches ends that candidate only") {
  OpenFake fake("fail_at=3000,code=700");
  // A run makes about a thousand launches; each worker counts its own.
  std::vector<Outcome> outcomes;
  for (int i = 0; i < 9; ++i) outcomes.push_back(fake.run("double").outcome);
  const auto failures = std::count(outcomes.begin(), outcomes.end(), Outcome::launch_failed);
  CHECK(failures >= 2);
  CHECK(std::count(outcomes.begin(), outcomes.end(), Outcome::ok) == 9 - failures);
  CHECK(outcomes.front() == Outcome::ok);
  CHECK(fake.device.restarts() == failures - (outcomes.back() == Outcome::launch_failed ? 1 : 0));
}

TEST_CASE("a refused launch, a missing entry and too little memory leave the worker alive") {
  OpenFake fake;
  CHECK(contains(fake.run("double__refuse1").message, "CUDA_ERROR_INVALID_VALUE"));
  const TrialResult launch = fake.run("double__oom");
  CHECK(launch.outcome == Outcome::out_of_memory);
  CHECK(contains(launch.message, "CUDA_ERROR_OUT_OF_MEMORY"));
  CHECK(contains(fake.run("triple").message, "cuModuleGetFunction(triple)"));

  Candidate greedy = doubling_candidate("double", kElements);
  greedy.plan.scratch.push_back({"huge", std::int64_t{1} << 40, true});
  const TrialResult scratch = fake.device.run(greedy, quick_policy());
  CHECK(scratch.outcome == Outcome::out_of_memory);
  CHECK(contains(scratch.message, "cuMemAlloc of"));

  Candidate lost = doubling_candidate("double", kElements);
  lost.plan.launches[0].arguments[0].value = Pointer{"z"};
  CHECK(contains(fake.device.run(lost, quick_policy()).message, "no buffer or scratch 'z'"));

  CHECK(fake.run("double").outcome == Outcome::ok);
  CHECK(fake.device.restarts() == 0);
}

TEST_CASE("a hang is timed out at the candidate's limit and the next candidate is fine") {
  OpenFake fake;
  MeasurePolicy policy = quick_policy();
  policy.time_limit_s = 0.2;
  const pid_t hung = fake.device.worker_pid();
  const TrialResult result = fake.run("double__hang", policy);
  CHECK(result.outcome == Outcome::timed_out);
  CHECK(contains(result.message, "0.2 s"));
  CHECK(ends(hung));
  CHECK(fake.run("double").outcome == Outcome::ok);
  CHECK(fake.device.restarts() == 1);
}

TEST_CASE("a stop request ends a hanging candidate at once") {
  OpenFake fake;
  std::stop_source stop;
  fake.device.set_stop(stop.get_token());
  const pid_t hung = fake.device.worker_pid();
  std::chrono::steady_clock::time_point asked;
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    asked = std::chrono::steady_clock::now();
    stop.request_stop();
  });
  MeasurePolicy patient;
  patient.time_limit_s = 300;
  CHECK_THROWS_AS(fake.run("double__hang", patient), Stopped);
  later.join();
  CHECK(std::chrono::steady_clock::now() - asked < std::chrono::seconds(30));
  CHECK_FALSE(runs(hung));
}

TEST_CASE("a crash carries the signal and the worker's last words") {
  OpenFake fake;
  const TrialResult fault = fake.run("double__segv");
  CHECK(fault.outcome == Outcome::crashed);
  CHECK(contains(fault.message, "signal 11"));
  const TrialResult abort = fake.run("double__abort");
  CHECK(abort.outcome == Outcome::crashed);
  CHECK(contains(abort.message, "the driver gives up"));
  CHECK(fake.run("double").outcome == Outcome::ok);
  CHECK(fake.device.restarts() == 2);
}

TEST_CASE("a worker that is killed while idle costs no candidate") {
  OpenFake fake;
  const pid_t first = fake.device.worker_pid();
  kill(first, SIGKILL);
  REQUIRE(ends(first));
  CHECK(fake.run("double").outcome == Outcome::ok);
  CHECK(fake.device.restarts() == 1);
}

TEST_CASE("a candidate that did not compile is not run") {
  OpenFake fake;
  Candidate candidate = doubling_candidate("double__segv", kElements);
  auto build = std::make_shared<Build>();
  build->message = "line 3: no";
  candidate.build = build;
  const TrialResult result = fake.device.run(candidate, quick_policy());
  CHECK(result.outcome == Outcome::compile_failed);
  CHECK(result.message == "line 3: no");
  CHECK(fake.device.restarts() == 0);
}

TEST_CASE("a duel measures every finalist in as many rounds") {
  OpenFake fake;
  const std::vector<TrialResult> results = fake.device.duel(
      {doubling_candidate("double__us40", kElements), doubling_candidate("double__us30", kElements)}, {.rounds = 9});
  REQUIRE(results.size() == 2);
  for (const TrialResult& result : results) {
    CHECK(result.outcome == Outcome::ok);
    CHECK(result.measurement.samples_us.size() == 9);
  }
  CHECK(results[0].measurement.median_us == doctest::Approx(40));
  CHECK(results[1].measurement.median_us == doctest::Approx(30));
}

TEST_CASE("a finalist that fails in the duel loses alone") {
  OpenFake fake;
  for (const char* bad : {"double__sticky700", "double__segv", "double__refuse1"}) {
    CAPTURE(bad);
    const std::vector<TrialResult> results =
        fake.device.duel({doubling_candidate("double__us40", kElements), doubling_candidate(bad, kElements),
                          doubling_candidate("double__us30", kElements)},
                         {.rounds = 5});
    CHECK(results[0].outcome == Outcome::ok);
    CHECK((results[1].outcome == Outcome::launch_failed || results[1].outcome == Outcome::crashed));
    CHECK_FALSE(results[1].message.empty());
    CHECK(results[2].outcome == Outcome::ok);
    CHECK(results[2].measurement.samples_us.size() == 5);
  }
}

TEST_CASE("verification uses inputs from another seed, and the search's inputs come back after it") {
  OpenFake fake;
  const Bytes before = fake.device.fetch("x");
  CHECK(fake.device.verify(doubling_candidate("double", kElements), 8, 10).outcome == Outcome::ok);
  CHECK(fake.device.fetch("x") != before);
  CHECK(fake.device.verify(doubling_candidate("double__wrong", kElements), 8, 10).outcome == Outcome::wrong_result);
  CHECK(fake.run("double").outcome == Outcome::ok);
  CHECK(fake.device.fetch("x") == before);
}

TEST_CASE("device tensors are what kernels/buffer.h says they are") {
  OpenFake fake;
  const Buffer x = fake.kernel.buffers(doubling_problem(kElements), 7)[0];
  for (int copy : {0, 1, 5}) {
    const Bytes bytes = fake.device.fetch("x", CudaDevice::Tensor::actual, copy);
    std::vector<float> values(kElements);
    REQUIRE(bytes.size() == values.size() * sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    const std::vector<double> expected = host_values(x, 7, fill_stream(0, static_cast<std::size_t>(copy)));
    CHECK(std::equal(values.begin(), values.end(), expected.begin()));
  }
  CHECK_THROWS_WITH_AS(fake.device.fetch("q"), doctest::Contains("no copy 0 of a tensor 'q'"), std::logic_error);
}

TEST_CASE(
    "a problem larger than the device, contradicting references and a driver older than the compiler are "
    "said") {
  use_fake_cuda("memory=2000000");
  CudaDevice small = fake_device();
  const DoublingKernel kernel;
  CHECK_THROWS_WITH_AS(small.open(kernel, doubling_problem(1'000'000), 1), doctest::Contains("use a smaller problem"),
                       BrokenEnvironment);
  CHECK_NOTHROW(small.open(kernel, doubling_problem(100), 1));

  use_fake_cuda();
  CudaDevice device = fake_device();
  const DoublingKernel zero("double__zero"), stray("double", "double__past"), faulty("double", "double__sticky719");
  CHECK_THROWS_WITH_AS(device.open(zero, doubling_problem(100), 1), doctest::Contains("contradict"), BrokenEnvironment);
  CHECK_THROWS_WITH_AS(device.open(stray, doubling_problem(100), 1), doctest::Contains("reference is broken"),
                       BrokenEnvironment);
  CHECK_THROWS_WITH_AS(device.open(faulty, doubling_problem(100), 1), doctest::Contains("CUDA_ERROR_LAUNCH_FAILED"),
                       BrokenEnvironment);

  use_fake_cuda("bad_image");
  CudaDevice old = fake_device();
  CHECK_THROWS_WITH_AS(old.open(kernel, doubling_problem(100), 1), doctest::Contains("update the driver"),
                       BrokenEnvironment);
  use_fake_cuda("crash_at_open");
  CudaDevice broken = fake_device();
  CHECK_THROWS_WITH_AS(broken.open(kernel, doubling_problem(100), 1), doctest::Contains("nvidia-smi"),
                       BrokenEnvironment);
}

TEST_CASE("a device number that does not exist is refused") {
  use_fake_cuda();
  const BuildSource builds_nothing = [](const std::vector<CompileUnit>&) { return std::vector<BuildPtr>(); };
  CHECK_THROWS_WITH_AS(CudaDevice({.ordinal = 3, .build = builds_nothing}), doctest::Contains("no cuda:3"),
                       BrokenEnvironment);
  CHECK_THROWS_AS(CudaDevice({.ordinal = 0}), std::logic_error);
}

TEST_CASE("no worker outlives a parent that is killed, not even one that hangs") {
  for (const char* entry : {"double", "double__hang"}) {
    CAPTURE(entry);
    use_fake_cuda();
    int pipe_ends[2];
    REQUIRE(pipe(pipe_ends) == 0);
    const pid_t parent = fork();
    REQUIRE(parent >= 0);
    if (parent == 0) {
      OpenFake fake;
      const pid_t worker = fake.device.worker_pid();
      if (write(pipe_ends[1], &worker, sizeof worker) != sizeof worker) _exit(1);
      MeasurePolicy patient;
      patient.time_limit_s = 600;
      while (true) fake.run(entry, patient);
    }
    pid_t worker = -1;
    REQUIRE(read(pipe_ends[0], &worker, sizeof worker) == sizeof worker);
    CHECK(runs(worker));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    kill(parent, SIGKILL);
    waitpid(parent, nullptr, 0);
    CHECK(ends(worker));
    close(pipe_ends[0]);
    close(pipe_ends[1]);
  }
}

}  // namespace moetune
