// A GPU behind a worker process: the Device that the tune loop measures on.
//
// This process never opens the CUDA driver; the worker does, and dies for it. After a fault, a hang or a
// crash the next call starts another worker and makes the problem's tensors again. Not thread-safe; use it on
// the thread that made it, or keep that thread alive: a worker dies with the thread that started it. Errors:
// BrokenEnvironment (no driver, no such GPU, a driver too old for the compiler's cubins, too little memory
// for the problem, a GPU that itself fails). A candidate's failure is its outcome.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tuner/device.h"
#include "tuner/process/child_process.h"
#include "tuner/process/protocol.h"
#include "tuner/worker/topology.h"
#include "tuner/worker/worker_messages.h"

namespace moetune {

// How a job waits for its worker.
struct WorkerWaits {
  std::chrono::milliseconds start_limit{60'000};  // for the driver's start
  std::function<void(const std::string&)> slow;   // takes one sentence about a wait of ten seconds; may be empty
};

struct CudaDeviceList {
  std::vector<DeviceInfo> devices;
  std::string why_empty;  // one sentence; empty where there are some
  bool broken = false;    // a driver is there, or half of one, and does not work: no mere lack of a GPU
};

struct CudaTopology {
  CudaDeviceList list;
  Topology topology;  // of these devices
};

// Ask a worker that lives for this call. Throw BrokenEnvironment only where no process can be started.
// `slice`: as CudaDevice::Options.
CudaDeviceList list_cuda_devices(const std::string& slice = "");
CudaTopology read_cuda_topology();

// Compiles units, several at once where it can; the results are in order.
using BuildSource = std::function<std::vector<BuildPtr>(const std::vector<CompileUnit>&)>;

class CudaDevice final : public Device {
 public:
  struct Options {
    int ordinal = 0;
    // Instead of the ordinal: a position in the list of what is there, which is not empty.
    std::function<std::size_t(const std::vector<DeviceInfo>&)> pick;
    // "MIG-...": the worker is shown this slice of a divided GPU, unless CUDA_VISIBLE_DEVICES says what it sees.
    std::string slice;
    WorkerWaits waits;
    BuildSource build;              // for references and harness; required
    std::string worker_executable;  // empty: this one
    std::chrono::milliseconds open_limit{180'000};
  };

  // Throws cuda::NoGpu, a BrokenEnvironment, if there is no driver or no GPU; what `pick` throws goes
  // through.
  explicit CudaDevice(Options options);

  const DeviceInfo& info() const override { return info_; }
  void set_stop(std::stop_token stop) override { stop_ = std::move(stop); }
  void open(const Kernel& kernel, const Problem& problem, std::uint64_t seed) override;
  // Tensors as `call` lays them out; candidates are then plans of that call. Throws BadInput for a call that
  // the kernel cannot run.
  void open(const Kernel& kernel, const Problem& problem, const Call& call, std::uint64_t seed);
  TrialResult run(const Candidate& candidate, const MeasurePolicy& policy) override;
  std::vector<TrialResult> duel(const std::vector<Candidate>& finalists, const DuelPolicy& policy) override;
  TrialResult verify(const Candidate& candidate, std::uint64_t seed, double time_limit_s) override;
  std::optional<CanaryReading> canary() override;
  MachineFigures measure_machine() override;

  // A tensor's bytes on the device: an input's copy, an output as the last run left it, or the exact
  // reference output in its exact_dtype.
  enum class Tensor { actual, exact };
  Bytes fetch(const std::string& name, Tensor which = Tensor::actual, int copy = 0);

  // How many workers were started after the first, and the process of the current one (-1: none).
  int restarts() const { return starts_ - 1; }
  pid_t worker_pid() const { return worker_ ? worker_->pid() : -1; }

 private:
  // The tensors that the worker holds.
  struct Opened {
    std::uint64_t seed = 0;
    int copies = 0;  // 0: as many as measuring wants
    bool operator==(const Opened&) const = default;
  };
  struct Programs;

  ChildProcess& worker();
  // Returns a callback that reports that the worker takes long for `what`.
  std::function<void()> notice(const std::string& what, std::chrono::milliseconds limit) const;
  void ensure_open(const Opened& wanted);
  // Makes the answers that a proof compares with, once for an open problem.
  void ensure_answers();
  TrialResult trial(const Candidate& candidate, const MeasurePolicy& policy, const Opened& on, bool measure);
  void forget_worker();
  void require_sound(const std::string& error);
  ChildProcess::Reply request(const Message& message, std::chrono::milliseconds limit, const std::string& what);

  struct DuelAttempt;
  DuelAttempt attempt_duel(const std::vector<Candidate>& finalists, const std::vector<std::size_t>& standing,
                           const DuelPolicy& policy);

  Options options_;
  DeviceInfo info_;
  std::stop_token stop_;
  std::unique_ptr<ChildProcess> worker_;
  int starts_ = 0;
  std::shared_ptr<const Programs> programs_;  // of the problem that is open; null before open()
  Opened wanted_;                             // what run() and duel() measure on
  std::optional<Opened> opened_;              // what the worker holds now
  bool answered_others_ = false;              // of that
};

}  // namespace moetune
