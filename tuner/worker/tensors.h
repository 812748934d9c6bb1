// One problem's tensors on the device: rotating copies of the inputs, outputs, the exact reference outputs,
// and the checks that a candidate wrote the right values and nothing else. The inputs can be changed where they lie, so
// that a candidate which kept what it found there is caught.
//
// Lives in the worker; not thread-safe. Owns all its device memory. Errors: BrokenEnvironment where the
// device cannot hold the problem or the references contradict each other; cuda::CudaError otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "launch/driver.h"
#include "tuner/worker/harness.h"
#include "tuner/worker/loaded_plan.h"
#include "tuner/worker/producer.h"

namespace moetune {

struct TensorsSpec {
  std::vector<Buffer> buffers;
  std::uint64_t seed = 0;
  std::uint64_t other_seed = 0;  // of InputSet::other
  std::int64_t copies = 0;       // of rotating buffers; 0: as many as keep the caches cold
};

// The contents of the inputs: drawn by the first seed or by the other one. Lists, such as lengths and page tables,
// are the same in both, so that both take equally long.
enum class InputSet { usual, other };

struct CompiledReference {
  Plan plan;
  std::vector<std::uint8_t> cubin;
};

struct Validation {
  bool right = false;
  bool damaged = false;  // something but the outputs was written: the problem must be opened again
  std::string reason;
  double max_error = 0, dissimilarity = 0;  // of the worst floating-point output
  double error_share = 0;                   // OutputVerdict::error_share of the worst
  double run_us = 0;                        // device time of the run that was judged
};

// Copies of the rotating buffers so that a whole turn exceeds L2 several times, at least two, as `memory`
// allows; one where nothing rotates; 0 where not even one fits.
std::int64_t copies_for(std::int64_t rotating_bytes, std::int64_t fixed_bytes, std::int64_t l2_bytes,
                        std::int64_t memory);

// Turns after which a measurement begins again, so that a copy comes back only when all others were used since: as many
// as there are orders, in whole rounds of the copies.
std::int64_t turns_for(std::int64_t copies, std::int64_t orders);

class Tensors {
 public:
  Tensors(TensorsSpec spec, const CompiledReference& exact, const CompiledReference& baseline,
          const DeviceLimits& limits, std::int64_t free_memory, Harness& harness, const cuda::Stream& stream);
  Tensors(const Tensors&) = delete;  // loaded plans point into it
  Tensors& operator=(const Tensors&) = delete;

  std::int64_t copies() const { return copies_; }
  // After so many launches in sequence, each over the next copies and the next order of the sequences, all have been
  // used (Buffer::rotates, Buffer::sequences). Checks are of turn 0.
  std::int64_t turns() const { return turns_for(copies_, orders_); }
  LoadedPlan load(const Plan& plan, std::span<const std::uint8_t> cubin) const;

  // The memory that a producer writes in front of each turn's launch: the fresh inputs, at most Producer::kMostBytes.
  std::vector<std::vector<FreshPart>> fresh_parts() const;

  // Runs the plan over the judged turn and judges every output by its check. Outputs are poisoned first and in_out
  // buffers filled again. If some output holds integers, which have no NaN, it runs twice, with two poisons.
  // `after_previous_run`: right behind a run over the last turn, which may have left something in the scratch.
  Validation validate(LoadedPlan& plan, bool after_previous_run);

  // Poisons the outputs, so that what launches leave there from now on is theirs.
  void poison_outputs() { poison_outputs(0); }

  // The turn that is judged with the inputs in use: 0 with the usual ones.
  std::int64_t judged_turn() const { return filling().turn; }

  // Judges what a launch over that turn has just written, without another launch. Not for kernels with in_out buffers,
  // which hold whatever the launches before left (accumulates()).
  Validation judge_written();
  bool accumulates() const;

  // Names a place that the plan's launches must not write and did: around its tensors, in its inputs, the reference's
  // answers or its scratch. "" if there is none.
  std::string damage(const LoadedPlan& plan);

  // Fills the inputs anew at the same addresses. Outputs keep what they hold. Afterwards no input lies in a cache.
  void use(InputSet set);
  // Fills them with values that nobody has an answer for, until use(); others for each number.
  void stir(std::uint64_t number);

  // Where inputs do not take turns, how many contents of them, each of another seed, are kept beside them since the
  // other set was first used; the last are that set's own, whose answer is known. 0 where they take turns.
  int contents() const { return contents_; }
  // Enqueues copies of these to where the inputs lie; a graph that is being captured takes them in. From contents() on,
  // up to twice as many, all hold what the last one does.
  void put_contents(std::int64_t number);

  // A tensor as it is now; `exact` asks for the reference's output (of exact_dtype) instead. The copies of a tensor
  // with sequences are their orders. Throws BadInput for an unknown name.
  std::vector<std::uint8_t> fetch(const std::string& name, std::int64_t copy, bool exact) const;

 private:
  struct Output {
    std::size_t position = 0;      // in spec_.buffers
    std::optional<Arena> earlier;  // what the first of two runs wrote
    double baseline_error = 0;     // on the usual inputs
  };
  // The right contents of an output.
  struct Answer {
    Arena exact;
    std::uint64_t checksum = 0;
    Harness::Segments segments;  // of a check by sets
  };
  // The state that belongs to one set of inputs.
  struct Filling {
    std::uint64_t seed = 0;
    std::int64_t turn = 0;                 // whose right answer is known: another one for other inputs
    std::uint8_t guard = kPoisonByte;      // around inputs: other garbage around other inputs
    std::vector<std::uint64_t> checksums;  // of inputs, by tensor
    std::vector<Answer> answers;           // by output; none until the set is first used
  };
  // The judged program: the baseline reference may err more than a candidate.
  enum class Judged { candidate, baseline };

  void allocate(const DeviceLimits& limits, std::int64_t free_memory);
  Filling& filling() { return fillings_[static_cast<std::size_t>(in_use_)]; }
  const Filling& filling() const { return fillings_[static_cast<std::size_t>(in_use_)]; }
  void fill_inputs(std::uint64_t seed);
  void find_answers();
  void keep_contents();
  // Between the inputs and the contents of that number, as `to` and `from` of copies on the device.
  void copy_contents(std::int64_t number, bool keeps);
  void run_baseline(const CompiledReference& baseline);
  void find_segments(std::size_t output);
  void fill_copies(std::size_t position, std::uint64_t seed);
  void poison_outputs(int run);
  void refill_in_outs();
  Validation judge_runs(LoadedPlan& plan, bool after_previous_run, Judged as);
  void judge_outputs(int run, Judged as, Validation& validation);
  OutputVerdict judge_errors(std::size_t output, Judged as, Validation& validation);
  OutputVerdict judge_integers(std::size_t output, int run);
  cuda::Address address(std::string_view name, std::int64_t turn) const;
  cuda::Address reference_address(std::string_view name) const;
  // The address at which the judged turn's launch writes an output.
  cuda::Address written_address(const Output& output) const;
  std::int64_t copies_of(const Buffer& buffer) const;

  TensorsSpec spec_;
  CompiledReference exact_;
  Harness& harness_;
  const cuda::Stream& stream_;
  std::int64_t copies_ = 1, orders_ = 1;
  cuda::Memory kept_;  // twice contents_ times the inputs, one behind the other
  int contents_ = 0;
  std::int64_t contents_bytes_ = 0;  // of one
  std::vector<Arena> arenas_;        // as spec_.buffers
  std::vector<Output> outputs_;
  Filling fillings_[2];  // by InputSet
  InputSet in_use_ = InputSet::usual;
  int runs_ = 1;  // of a validation
};

}  // namespace moetune
