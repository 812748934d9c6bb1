// Everything that a search, a recording or a benchmark needs, opened in the right order: device, space, cache
// and compiler. The one place where options become the objects of the lower rooms.
//
// Owns all it holds; single-threaded; must outlive any tune() that uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/device_choice.h"
#include "cli/options.h"
#include "cli/output.h"
#include "search/space.h"
#include "tuner/ceilings.h"
#include "tuner/tune.h"

namespace moetune {

class Session {
 public:
  enum class Purpose { tuning, recording };  // a recording's trials are kept apart (cache/key.h)

  // Prints what was chosen as notes. Throws BadInput and BrokenEnvironment.
  Session(DeviceChoice choice, const CacheChoice& cache, const CompileOptions& compile, const Output& output,
          Purpose purpose = Purpose::tuning);
  Session(const Session&) = delete;  // the device builds its programs through it
  Session& operator=(const Session&) = delete;

  const Kernel* kernel() const { return choice_.kernel; }  // null: a recording of a foreign kernel
  const std::string& kernel_name() const { return choice_.kernel_name; }
  const Problem& problem() const { return choice_.problem; }
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

  // A request with this session's kernel, problem, space and default, and its tools for tune(): asking for
  // the tools enters the workload into the cache, as one that this session searches until it ends.
  TuneRequest request() const;
  TuneTools tools(TuneObserver* observer);

  // `a=1,b=tma` over the default configuration. Throws BadInput.
  Config parse_config(const std::string& text) const;

  // A configuration ready to run, compiled. Throws BadInput where it is illegal, BrokenEnvironment where it
  // does not compile.
  Candidate compile(const Config& config);
  Candidate compile(Plan plan, const Config& config, const std::string& what);

  // Of the device's own programs, its references and harness, how many were compiled and not in the cache.
  std::size_t programs_compiled() const { return programs_compiled_; }

  // The device's, or the recording's.
  Ceilings ceilings() const;
  // The least time that they allow; nullopt where the device was never calibrated.
  std::optional<double> floor_us() const;
  double bytes() const;  // the least that must move; 0 where foreign

 private:
  void open_space();
  // A device's own programs, at once: in the pool they would wait behind the candidates.
  std::vector<BuildPtr> build_now(const std::vector<CompileUnit>& units);
  void keep_recorded_ceilings();
  void open_compiler(const CompileOptions& options, const Output& output);

  DeviceChoice choice_;
  std::optional<Space> space_file_;
  std::optional<LegalSpace> legal_;
  std::optional<Config> default_config_;
  std::unique_ptr<Cache> cache_;
  WorkloadKey key_;
  std::unique_ptr<Compiler> compiler_;
  std::size_t programs_compiled_ = 0;
  std::unique_ptr<CompilePool> pool_;  // last: it uses the compiler and the cache until it is gone
};

// The stored winner of the session's workload on this very hardware, its cubin as stored. Notes where it was
// tuned with other sources or another compiler. Throws BadInput where nothing is tuned yet.
Candidate stored_candidate(Session& session, const Output& output);

// spaces/NAME.json.
Space load_space(const std::string& kernel);

// A digest of the templates that a kernel's candidates compile from, with all they include. The reference is
// left out, and so is the space: a trial is keyed by its whole configuration, which an edited constraint or
// doc string does not change.
std::string kernel_source_digest(const std::string& kernel);

}  // namespace moetune
