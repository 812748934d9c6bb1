#include "tuner/worker/tensors.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <limits>

#include "base/error.h"
#include "base/integers.h"
#include "tuner/worker/host_compare.h"

namespace moetune {
namespace {

// The cost of rounding every intermediate to the input type; bf16 scores of attention alone give 7e-5.
constexpr double kBaselineDissimilarity = 1e-3;

constexpr std::int64_t kColdBytes = 400'000'000;
constexpr std::int64_t kMaxCopies = 512;
constexpr std::int64_t kContentsBytes = 512 << 20;

std::string gibibytes(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

std::int64_t arena_bytes(std::int64_t bytes) { return ArenaLayout::of(bytes, 1).total(); }

std::int64_t exact_bytes(const Buffer& buffer) { return buffer.elements * dtype_bytes(exact_dtype(buffer.dtype)); }

// Whether unwritten elements show only in a second run with another poison: integers have no NaN.
bool needs_two_runs(const Buffer& buffer) { return buffer.role == Role::output && is_integer(buffer.dtype); }

bool has_orders(const Buffer& buffer) { return buffer.sequences > 1; }

}  // namespace

std::int64_t copies_for(std::int64_t rotating_bytes, std::int64_t fixed_bytes, std::int64_t l2_bytes,
                        std::int64_t memory) {
  // The rest is left to candidates' scratch and to the driver.
  const std::int64_t usable = memory / 10 * 9 - fixed_bytes;
  if (usable < rotating_bytes) return 0;
  if (rotating_bytes == 0) return 1;
  const std::int64_t target = std::max(kColdBytes, 4 * l2_bytes);
  const std::int64_t wanted = std::clamp<std::int64_t>((target + rotating_bytes - 1) / rotating_bytes, 2, kMaxCopies);
  return std::min(wanted, usable / rotating_bytes);
}

std::int64_t turns_for(std::int64_t copies, std::int64_t orders) { return ceil_div(orders, copies) * copies; }

Tensors::Tensors(TensorsSpec spec, const CompiledReference& exact, const CompiledReference& baseline,
                 const DeviceLimits& limits, std::int64_t free_memory, Harness& harness, const cuda::Stream& stream)
    : spec_(std::move(spec)), exact_(exact), harness_(harness), stream_(stream) {
  check_buffers(spec_.buffers);
  fillings_[0].seed = spec_.seed;
  fillings_[1].seed = spec_.other_seed;
  fillings_[1].guard = kOtherPoisonByte;
  try {
    allocate(limits, free_memory);
    fillings_[1].turn = static_cast<std::int64_t>(spec_.other_seed % static_cast<std::uint64_t>(turns()));
    fill_inputs(filling().seed);
    find_answers();
    run_baseline(baseline);
  } catch (const cuda::CudaError& error) {
    if (error.kind != cuda::CudaError::Kind::memory) throw;
    throw TooLittleMemory("the GPU has too little free memory for this problem: " + std::string(error.what()) +
                          "; use a smaller problem or end what else runs on the GPU");
  }
}

void Tensors::allocate(const DeviceLimits& limits, std::int64_t free_memory) {
  const bool is_measured = spec_.copies == 0;
  if (is_measured && std::ranges::any_of(spec_.buffers, has_orders)) orders_ = kSequenceOrders;
  std::int64_t rotating = 0, fixed = 0;
  for (const Buffer& buffer : spec_.buffers) {
    const std::int64_t orders = has_orders(buffer) ? orders_ : 1;
    (buffer.rotates ? rotating : fixed) += orders * arena_bytes(buffer.bytes());
    if (buffer.is_written())
      fixed += static_cast<std::int64_t>(std::size(fillings_)) * arena_bytes(exact_bytes(buffer));
    if (needs_two_runs(buffer)) fixed += arena_bytes(buffer.bytes());
  }
  const std::int64_t possible = copies_for(rotating, fixed, limits.l2_bytes, free_memory);
  if (possible == 0) {
    throw TooLittleMemory("the problem needs " + gibibytes(rotating + fixed) + " of GPU memory and " +
                          gibibytes(free_memory) + " are free; use a smaller problem or end what else runs on the GPU");
  }
  copies_ = spec_.copies > 0 ? std::min(spec_.copies, possible) : possible;
  for (std::size_t i = 0; i < spec_.buffers.size(); ++i) {
    const Buffer& buffer = spec_.buffers[i];
    arenas_.emplace_back(buffer.name, buffer.bytes(), copies_of(buffer), stream_);
    if (!buffer.is_written()) continue;
    Output& output = outputs_.emplace_back(Output{.position = i});
    if (!needs_two_runs(buffer)) continue;
    output.earlier.emplace(buffer.name, buffer.bytes(), 1, stream_);
    runs_ = 2;
  }
}

std::int64_t Tensors::copies_of(const Buffer& buffer) const {
  return has_orders(buffer) ? orders_ : buffer.rotates ? copies_ : 1;
}

bool Tensors::accumulates() const {
  return std::ranges::any_of(spec_.buffers, [](const Buffer& buffer) { return buffer.role == Role::in_out; });
}

void Tensors::fill_copies(std::size_t position, std::uint64_t seed) {
  const Buffer& buffer = spec_.buffers[position];
  std::optional<Buffer> ordered;
  if (has_orders(buffer)) ordered = buffer;
  for (std::int64_t copy = 0; copy < copies_of(buffer); ++copy) {
    if (copy > 0 && buffer.fill.kind == Fill::Kind::arrays) {
      cuda::copy_on_device(arenas_[position].address(copy), arenas_[position].address(0), buffer.bytes(), stream_);
      continue;
    }
    if (ordered) ordered->fill.integers = integers_in_order(buffer, copy);
    harness_.fill(arenas_[position].address(copy), ordered ? *ordered : buffer, seed,
                  fill_stream(position, static_cast<std::size_t>(copy)));
  }
}

// Reading all of it for the checksums last also brings what was written out of the cache.
void Tensors::fill_inputs(std::uint64_t seed) {
  Filling& now = filling();
  now.checksums.assign(arenas_.size(), 0);
  for (std::size_t i = 0; i < arenas_.size(); ++i) {
    const Buffer& buffer = spec_.buffers[i];
    if (!buffer.is_read()) continue;
    const Arena& arena = arenas_[i];
    if (!buffer.is_written()) cuda::set_bytes(arena.base(), now.guard, arena.layout().total(), stream_);
    fill_copies(i, seed);
  }
  for (std::size_t i = 0; i < arenas_.size(); ++i) {
    const Arena& arena = arenas_[i];
    if (spec_.buffers[i].is_read()) now.checksums[i] = harness_.checksum(arena.base(), arena.layout().total());
  }
}

void Tensors::use(InputSet set) {
  if (set == in_use_) return;
  in_use_ = set;
  fill_inputs(filling().seed);
  try {
    if (!filling().answers.empty()) return;
    if (turns() == 1 && !accumulates()) keep_contents();
    find_answers();
  } catch (const cuda::CudaError& error) {
    filling().answers.clear();
    if (error.kind != cuda::CudaError::Kind::memory) throw;
    throw TooLittleMemory("the GPU has too little free memory to prove candidates of this problem: " +
                          std::string(error.what()) + "; use a smaller problem or end what else runs on the GPU");
  }
}

void Tensors::stir(std::uint64_t number) { fill_inputs(filling().seed + number); }

void Tensors::keep_contents() {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < arenas_.size(); ++i)
    bytes += spec_.buffers[i].is_read() ? arenas_[i].layout().total() : 0;
  const int count =
      static_cast<int>(std::clamp<std::int64_t>(kContentsBytes / std::max<std::int64_t>(bytes, 1), 2, 16));
  contents_bytes_ = bytes;
  kept_ = cuda::allocate(2 * count * bytes);
  contents_ = count;
  for (int number = 0; number < count; ++number) {
    stir(static_cast<std::uint64_t>(count - 1 - number));  // 0 is what the answers are of
    copy_contents(number, true);
  }
  // Copying one and the same would be faster, out of the cache.
  for (int number = count; number < 2 * count; ++number) copy_contents(number, true);
}

void Tensors::put_contents(std::int64_t number) { copy_contents(number, false); }

void Tensors::copy_contents(std::int64_t number, bool keeps) {
  cuda::Address kept = kept_.get() + static_cast<cuda::Address>(number * contents_bytes_);
  for (std::size_t i = 0; i < arenas_.size(); ++i) {
    if (!spec_.buffers[i].is_read()) continue;
    const cuda::Address input = arenas_[i].base();
    const std::int64_t bytes = arenas_[i].layout().total();
    cuda::copy_on_device(keeps ? kept : input, keeps ? input : kept, bytes, stream_);
    kept += static_cast<cuda::Address>(bytes);
  }
}

std::vector<std::vector<FreshPart>> Tensors::fresh_parts() const {
  constexpr std::int64_t kWord = 16;
  std::vector<std::vector<FreshPart>> by_turn(static_cast<std::size_t>(turns()));
  for (std::size_t turn = 0; turn < by_turn.size(); ++turn) {
    std::int64_t left = Producer::kMostBytes / kWord;
    for (const Buffer& buffer : spec_.buffers) {
      if (!buffer.fresh || left == 0) continue;
      const std::int64_t words = std::min(left, (buffer.bytes() + kWord - 1) / kWord);
      by_turn[turn].push_back(
          {address(buffer.name, static_cast<std::int64_t>(turn)), static_cast<std::uint64_t>(words)});
      left -= words;
    }
  }
  return by_turn;
}

cuda::Address Tensors::address(std::string_view name, std::int64_t turn) const {
  for (std::size_t i = 0; i < arenas_.size(); ++i) {
    if (arenas_[i].name() == name) return arenas_[i].address(turn % copies_of(spec_.buffers[i]));
  }
  return 0;
}

cuda::Address Tensors::reference_address(std::string_view name) const {
  for (const Answer& answer : filling().answers) {
    if (answer.exact.name() == name) return answer.exact.address(0);
  }
  return address(name, judged_turn());
}

cuda::Address Tensors::written_address(const Output& output) const {
  const std::int64_t copies = copies_of(spec_.buffers[output.position]);
  return arenas_[output.position].address(judged_turn() % copies);
}

// Runs the exact reference on the inputs in use and keeps its outputs.
void Tensors::find_answers() {
  std::vector<Answer>& answers = filling().answers;
  for (const Output& output : outputs_) {
    const Buffer& buffer = spec_.buffers[output.position];
    Answer& answer = answers.emplace_back(Answer{.exact = Arena(buffer.name, exact_bytes(buffer), 1, stream_)});
    if (buffer.role != Role::in_out) continue;
    const cuda::Address from = address(buffer.name, judged_turn()), to = answer.exact.address(0);
    if (exact_dtype(buffer.dtype) == buffer.dtype) {
      cuda::copy_on_device(to, from, buffer.bytes(), stream_);
    } else {
      harness_.widen(from, buffer.dtype, to, buffer.elements);
    }
  }
  const auto to_exact = [this](std::string_view name, std::int64_t) { return reference_address(name); };
  LoadedPlan plan(exact_.plan, exact_.cubin, to_exact, stream_);
  plan.enqueue(0);
  cuda::synchronize(stream_);
  for (Answer& answer : answers)
    answer.checksum = harness_.checksum(answer.exact.base(), answer.exact.layout().total());
  for (std::size_t i = 0; i < outputs_.size(); ++i) find_segments(i);
}

void Tensors::run_baseline(const CompiledReference& baseline) {
  LoadedPlan plan = load(baseline.plan, baseline.cubin);
  const Validation validation = judge_runs(plan, false, Judged::baseline);
  if (validation.damaged) throw BrokenEnvironment("the kernel's own reference is broken: it " + validation.reason);
  if (!validation.right)
    throw BrokenEnvironment("the kernel's two references contradict each other: " + validation.reason);
}

void Tensors::find_segments(std::size_t output) {
  const Buffer& buffer = spec_.buffers[outputs_[output].position];
  Answer& answer = filling().answers[output];
  const OutputCheck& check = buffer.check;
  if (check.kind != OutputCheck::Kind::set_per_segment) return;
  if (check.segments.empty()) {
    answer.segments.ends = segment_ends(check.segment_length, buffer.elements);
    return;
  }
  const auto named = std::ranges::find(spec_.buffers, check.segments, &Buffer::name);
  std::vector<std::int32_t> offsets(static_cast<std::size_t>(named->elements));
  answer.segments.offsets = reference_address(check.segments);
  cuda::copy_to_host({reinterpret_cast<std::uint8_t*>(offsets.data()), offsets.size() * sizeof offsets[0]},
                     answer.segments.offsets, stream_);
  answer.segments.ends = segment_ends(offsets, buffer.elements);
}

LoadedPlan Tensors::load(const Plan& plan, std::span<const std::uint8_t> cubin) const {
  return LoadedPlan(
      plan, cubin, [this](std::string_view name, std::int64_t turn) { return address(name, turn); }, stream_);
}

void Tensors::poison_outputs(int run) {
  for (const Output& output : outputs_) {
    const Buffer& buffer = spec_.buffers[output.position];
    const Arena& arena = arenas_[output.position];
    if (buffer.role != Role::output) continue;
    if (run == 0) {
      cuda::set_bytes(arena.base(), kPoisonByte, arena.layout().total(), stream_);
      continue;
    }
    // The guard bands stay as the first run left them, so that what it wrote there is still seen.
    const std::uint8_t poison = is_integer(buffer.dtype) ? kOtherPoisonByte : kPoisonByte;
    for (std::int64_t copy = 0; copy < copies_of(buffer); ++copy)
      cuda::set_bytes(arena.address(copy), poison, buffer.bytes(), stream_);
  }
}

void Tensors::refill_in_outs() {
  for (const Output& output : outputs_) {
    if (spec_.buffers[output.position].role == Role::in_out) fill_copies(output.position, filling().seed);
  }
}

OutputVerdict Tensors::judge_errors(std::size_t which, Judged as, Validation& validation) {
  Output& output = outputs_[which];
  const Buffer& buffer = spec_.buffers[output.position];
  const ErrorFigures figures = harness_.compare(written_address(output), buffer.dtype,
                                                filling().answers[which].exact.address(0), buffer.elements);
  validation.max_error = std::max(validation.max_error, figures.max_error);
  validation.dissimilarity = std::max(validation.dissimilarity, figures.dissimilarity());
  if (buffer.check.kind == OutputCheck::Kind::exact) return judge_exact(buffer.name, figures);
  if (as == Judged::candidate) return judge(buffer.name, figures, output.baseline_error, buffer.check.tolerance);
  // The baseline sets the max-error limit and rounds more than a candidate may: here it need only be the same
  // function.
  output.baseline_error = figures.max_error;
  Tolerance coarse = buffer.check.tolerance;
  coarse.dissimilarity = std::max(coarse.dissimilarity, kBaselineDissimilarity);
  return judge(buffer.name, figures, std::numeric_limits<double>::infinity(), coarse);
}

// `run` is the one of a validation that is judged; beyond the first it knows what that one left unwritten.
OutputVerdict Tensors::judge_integers(std::size_t which, int run) {
  const Output& output = outputs_[which];
  const Answer& answer = filling().answers[which];
  const Buffer& buffer = spec_.buffers[output.position];
  const cuda::Address actual = written_address(output), exact = answer.exact.address(0);
  const cuda::Address earlier = output.earlier && run > 0 ? output.earlier->address(0) : 0;
  const IntegerFigures figures = harness_.compare_integers(actual, exact, buffer.dtype, buffer.elements, earlier);
  if (output.earlier && run == 0) cuda::copy_on_device(output.earlier->address(0), actual, buffer.bytes(), stream_);
  if (buffer.check.kind == OutputCheck::Kind::exact) return judge_exact(buffer.name, figures);
  // Equal in every place is equal as sets.
  if (figures.mismatches == 0) return judge_sets(buffer.name, figures, {});
  return judge_sets(buffer.name, figures, harness_.compare_segments(actual, exact, buffer.dtype, answer.segments));
}

// The first output that is wrong gives the reason; a later run knows more than an earlier one.
void Tensors::judge_outputs(int run, Judged as, Validation& validation) {
  std::string wrong;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const bool counts = is_integer(spec_.buffers[outputs_[i].position].dtype);
    const OutputVerdict verdict = counts ? judge_integers(i, run) : judge_errors(i, as, validation);
    validation.error_share = std::max(validation.error_share, verdict.error_share);
    if (!verdict.right && wrong.empty()) wrong = verdict.reason;
  }
  if (!wrong.empty()) validation.reason = wrong;
}

std::string Tensors::damage(const LoadedPlan& plan) {
  for (std::size_t i = 0; i < arenas_.size(); ++i) {
    const Arena& arena = arenas_[i];
    const bool input = !spec_.buffers[i].is_written();
    // One pass over an input sees its values and its guard bands alike; where they are is looked up only when
    // needed.
    if (input && harness_.checksum(arena.base(), arena.layout().total()) == filling().checksums[i]) continue;
    if (std::string text = arena.damage(harness_, input ? filling().guard : kPoisonByte); !text.empty()) return text;
    if (input) return "changed its input '" + arena.name() + "'";
  }
  for (const Filling& filling : fillings_) {
    for (const Answer& answer : filling.answers) {
      if (harness_.checksum(answer.exact.base(), answer.exact.layout().total()) != answer.checksum)
        return "changed the reference's copy of '" + answer.exact.name() + "'";
    }
  }
  return plan.scratch_damage(harness_);
}

Validation Tensors::judge_runs(LoadedPlan& plan, bool after_previous_run, Judged as) {
  Validation validation;
  const cuda::Event begin = cuda::make_event(), end = cuda::make_event();
  for (int run = 0; run < runs_; ++run) {
    poison_outputs(run);
    if (after_previous_run) plan.enqueue(turns() - 1);
    refill_in_outs();
    cuda::record(begin, stream_);
    plan.enqueue(judged_turn());
    cuda::record(end, stream_);
    cuda::synchronize(stream_);
    judge_outputs(run, as, validation);
  }
  validation.run_us = cuda::elapsed_us(begin, end);
  if (std::string text = damage(plan); !text.empty()) {
    validation.damaged = true;
    validation.reason = text;
  }
  validation.right = validation.reason.empty();
  return validation;
}

Validation Tensors::validate(LoadedPlan& plan, bool after_previous_run) {
  return judge_runs(plan, after_previous_run, Judged::candidate);
}

Validation Tensors::judge_written() {
  Validation validation;
  judge_outputs(0, Judged::candidate, validation);
  validation.right = validation.reason.empty();
  return validation;
}

std::vector<std::uint8_t> Tensors::fetch(const std::string& name, std::int64_t copy, bool exact) const {
  for (const Answer& answer : filling().answers) {
    if (!exact || answer.exact.name() != name) continue;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(answer.exact.layout().bytes));
    cuda::copy_to_host(bytes, answer.exact.address(0), stream_);
    return bytes;
  }
  for (const Arena& arena : arenas_) {
    if (exact || arena.name() != name || copy < 0 || copy >= arena.layout().copies) continue;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(arena.layout().bytes));
    cuda::copy_to_host(bytes, arena.address(copy), stream_);
    return bytes;
  }
  throw BadInput("the problem has no copy " + std::to_string(copy) + " of a tensor '" + name + "'");
}

}  // namespace moetune
