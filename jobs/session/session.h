// Everything that a job needs, opened in the right order: device, space, cache and compiler. The one place
// where a request becomes the objects of the lower rooms.
//
// Owns all it holds; belongs to one thread; must outlive what it lent. Errors: BadField and BadInput for the
// request, BrokenEnvironment for the machine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "jobs/session/device_choice.h"
#include "jobs/session/stores.h"
#include "jobs/session/subject.h"
#include "search/space.h"
#include "tuner/ceilings.h"
#include "tuner/tune.h"

namespace moetune {

enum class Purpose { tuning, recording };  // a recording's trials are kept apart (keys/key.h)

struct SessionOptions {
  CacheChoice cache;
  bool no_compile = false;    // recordings only: do not compile what is replayed
  std::uint64_t threads = 0;  // of the compiler; 0: all cores
  Purpose purpose = Purpose::tuning;
  Timing timing = Timing::overlapped;  // of a GPU; a recording has times of overlapping launches
  std::stop_token stop = {};           // what ends the wait for a configuration that is compiled
  WorkerWaits waits = {};              // for the compiler too
};

// A candidate, or why there is none that runs: compile_failed, or pruned for one that the device cannot
// launch.
struct Attempt {
  Candidate candidate;
  Outcome outcome = Outcome::ok;
  std::string message;
};

class Session {
 public:
  // Emits DeviceChosen, and warnings.
  Session(DeviceChoice choice, const SessionOptions& options, Events events);
  Session(const Session&) = delete;  // the device builds its programs through it
  Session& operator=(const Session&) = delete;

  const Kernel* kernel() const { return choice_.what.kernel; }  // null: a recording of a foreign kernel
  const std::string& kernel_name() const { return choice_.what.problem.kernel; }
  const Problem& problem() const { return choice_.what.problem; }
  std::string problem_text() const;  // as it is keyed: of a foreign kernel, what its recording says
  const Recording* recording() const { return choice_.recording.get(); }
  Device& device() { return *choice_.device; }
  const DeviceInfo& info() const { return choice_.device->info(); }
  const Space* space_file() const { return space_file_ ? &*space_file_ : nullptr; }  // null where foreign
  const LegalSpace& space() const { return choice_.recording ? choice_.recording->space : *legal_; }
  const std::optional<Config>& default_config() const { return default_config_; }
  Cache* cache() { return cache_.get(); }                                // null with --no-cache
  CompilePool* compiler() { return compiler_ ? pool_.get() : nullptr; }  // null where nothing is compiled
  const WorkloadKey& key() const { return key_; }
  Assignment environment() const;  // for expressions in the space; needs a kernel

  // A request with this session's kernel, problem, space and default.
  TuneRequest request(const TuneSettings& settings) const;
  // Goes to another problem of the kernel, on the device that is open: its space, default and key. Throws BadInput
  // if no configuration is legal there, or no recording is of it.
  void move_to(const Problem& problem);
  // The problems that a recorded device serves; empty for a GPU, which serves all.
  std::vector<Problem> recorded_problems() const;

  // Gives the device on, still open, to a session that it builds through next; this one is of no use afterwards.
  DeviceChoice release_device();

  // Enters the workload into the cache, as one that this session searches until it ends, and runs one search.
  TuneResult tune(const TuneRequest& request, std::stop_token stop);

  // The same without a search: the workload is entered, and what store_winner() needs is at hand.
  std::int64_t enter_workload();
  // Stores the winner of a search whose request had no store_winner.
  void store_winner(const TuneRequest& request, const TuneResult& result);

  // `a=1,b=tma` over the default configuration. Throws BadField.
  Config parse_config(const std::string& text) const;

  // Compiles one configuration, or another plan. Throws BadField for a configuration that cannot run here, Stopped
  // after a stop request; guesses at speed are a search's alone.
  Attempt try_compile(const Config& config);
  Attempt try_compile(Plan plan, const Config& config);
  // The same, but throws BrokenEnvironment if it does not compile, BadField if it cannot be launched.
  Candidate compile(const Config& config);

  // The number of the device's own programs, its references and harness, that were compiled and not in the cache.
  std::size_t programs_compiled() const { return programs_compiled_; }

  // The device's, or the recording's.
  Ceilings ceilings() const;
  Cost cost() const;  // 0 for a kernel that is not moetune's
  std::optional<Floor> floor(Launches launches) const;
  // No launch of the problem takes less (tuner/plausibility.h); 0 if nothing is known of that.
  double least_us() const;
  Subject subject() const;

 private:
  void open_space();
  // A device's own programs, at once: in the pool they would wait behind the candidates.
  std::vector<BuildPtr> build_now(const std::vector<CompileUnit>& units);
  void keep_recorded_ceilings();
  Launches launches() const;
  void open_compiler(const SessionOptions& options);
  void make_key();
  TuneTools tools(std::int64_t workload);  // that enter_workload() returned
  void warn(WarningKind kind, const std::string& text) const;

  DeviceChoice choice_;
  Events events_;
  std::optional<Space> space_file_;
  std::optional<LegalSpace> legal_;
  std::stop_token stop_;
  Purpose purpose_ = Purpose::tuning;
  Timing timing_ = Timing::overlapped;
  std::optional<Config> default_config_;
  std::unique_ptr<Cache> cache_;
  std::string source_digest_;  // of the kernel's files, read once
  WorkloadKey key_;
  std::unique_ptr<Compiler> compiler_;
  std::size_t programs_compiled_ = 0;
  std::unique_ptr<CompilePool> pool_;  // last: it uses the compiler and the cache until it is gone
};

}  // namespace moetune
