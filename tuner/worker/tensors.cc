#include "tuner/worker/tensors.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "base/error.h"

namespace moetune {
namespace {

// What rounding every intermediate to the input type may cost; bf16 scores of attention alone give 7e-5.
constexpr double kBaselineDissimilarity = 1e-3;

constexpr std::int64_t kColdBytes = 400'000'000;
constexpr std::int64_t kMaxCopies = 512;

std::string gibibytes(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

std::int64_t arena_bytes(std::int64_t bytes) { return ArenaLayout::of(bytes, 1).total(); }

std::int64_t exact_bytes(const Buffer& buffer) { return buffer.elements * dtype_bytes(DType::f32); }

}  // namespace

std::int64_t copies_for(std::int64_t rotating_bytes, std::int64_t fixed_bytes, std::int64_t l2_bytes,
                        std::int64_t memory) {
  // The rest is left to candidates' scratch and to the driver.
  const std::int64_t usable = memory / 10 * 9 - fixed_bytes;
  if (usable < rotating_bytes) return 0;
  if (rotating_bytes == 0) return 1;
  const std::int64_t target = std::max(kColdBytes, 4 * l2_bytes);
  const std::int64_t wanted =
      std::clamp<std::int64_t>((target + rotating_bytes - 1) / rotating_bytes, 2, kMaxCopies);
  return std::min(wanted, usable / rotating_bytes);
}

Tensors::Tensors(TensorsSpec spec, const Program& exact, const Program& baseline, const DeviceLimits& limits,
                 std::int64_t free_memory, Harness& harness, const cuda::Stream& stream)
    : spec_(std::move(spec)), harness_(harness), stream_(stream) {
  try {
    allocate(limits, free_memory);
    fill_inputs();
    run_references(exact, baseline);
  } catch (const cuda::CudaError& error) {
    if (error.kind != cuda::CudaError::Kind::memory) throw;
    throw BrokenEnvironment(
        "the GPU has too little free memory for this problem: " + std::string(error.what()) +
        "; use a smaller problem or end what else runs on the GPU");
  }
}

void Tensors::allocate(const DeviceLimits& limits, std::int64_t free_memory) {
  std::int64_t rotating = 0, fixed = 0;
  for (const Buffer& buffer : spec_.buffers) {
    (buffer.rotates ? rotating : fixed) += arena_bytes(buffer.bytes());
    if (buffer.role == Role::output) fixed += arena_bytes(exact_bytes(buffer));
  }
  const std::int64_t possible = copies_for(rotating, fixed, limits.l2_bytes, free_memory);
  if (possible == 0) {
    throw BrokenEnvironment("the problem needs " + gibibytes(rotating + fixed) + " of GPU memory and " +
                            gibibytes(free_memory) +
                            " are free; use a smaller problem or end what else runs on the GPU");
  }
  copies_ = spec_.copies > 0 ? std::min(spec_.copies, possible) : possible;
  for (std::size_t i = 0; i < spec_.buffers.size(); ++i) {
    const Buffer& buffer = spec_.buffers[i];
    tensors_.push_back({Arena(buffer.name, buffer.bytes(), copies_of(buffer), stream_)});
    if (buffer.role == Role::output)
      outputs_.push_back({i, Arena(buffer.name, exact_bytes(buffer), 1, stream_)});
  }
}

void Tensors::fill_inputs() {
  for (std::size_t i = 0; i < spec_.buffers.size(); ++i) {
    const Buffer& buffer = spec_.buffers[i];
    if (buffer.role != Role::input) continue;
    Tensor& tensor = tensors_[i];
    for (std::int64_t copy = 0; copy < copies_of(buffer); ++copy) {
      harness_.fill(tensor.arena.address(copy), buffer, spec_.seed,
                    fill_stream(i, static_cast<std::size_t>(copy)));
    }
    tensor.checksum = harness_.checksum(tensor.arena.base(), tensor.arena.layout().total());
  }
}

cuda::Address Tensors::address(std::string_view name, std::int64_t copy) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].arena.name() == name)
      return tensors_[i].arena.address(spec_.buffers[i].rotates ? copy : 0);
  }
  return 0;
}

cuda::Address Tensors::reference_address(std::string_view name) const {
  for (const Output& output : outputs_) {
    if (output.exact.name() == name) return output.exact.address(0);
  }
  return address(name, 0);
}

void Tensors::run_references(const Program& exact, const Program& baseline) {
  {
    const auto to_exact = [this](std::string_view name, std::int64_t) { return reference_address(name); };
    LoadedPlan plan(exact.plan, exact.cubin, to_exact, stream_);
    plan.enqueue(0);
    cuda::synchronize(stream_);
  }
  for (Output& output : outputs_) {
    output.checksum = harness_.checksum(output.exact.base(), output.exact.layout().total());
  }
  LoadedPlan plan = load(baseline.plan, baseline.cubin);
  poison_outputs();
  plan.enqueue(0);
  cuda::synchronize(stream_);
  for (Output& output : outputs_) {
    const Buffer& buffer = spec_.buffers[output.position];
    const ErrorFigures figures = compare(output);
    // The baseline sets the max-error limit and rounds more than a candidate may: here it need only be the
    // same function.
    Tolerance coarse = spec_.tolerance;
    coarse.dissimilarity = std::max(coarse.dissimilarity, kBaselineDissimilarity);
    const Verdict verdict =
        judge(buffer.name, buffer.dtype, figures, std::numeric_limits<double>::infinity(), coarse);
    if (!verdict.right)
      throw BrokenEnvironment("the kernel's two references contradict each other: " + verdict.reason);
    output.baseline_error = figures.max_error;
  }
  if (const std::string text = damage(plan); !text.empty()) {
    throw BrokenEnvironment("the kernel's own reference is broken: it " + text);
  }
}

LoadedPlan Tensors::load(const Plan& plan, std::span<const std::uint8_t> cubin) const {
  return LoadedPlan(
      plan, cubin, [this](std::string_view name, std::int64_t copy) { return address(name, copy); }, stream_);
}

void Tensors::poison_outputs() {
  for (const Output& output : outputs_) {
    const Arena& arena = tensors_[output.position].arena;
    cuda::set_bytes(arena.base(), kPoisonByte, arena.layout().total(), stream_);
  }
}

ErrorFigures Tensors::compare(const Output& output) {
  const Buffer& buffer = spec_.buffers[output.position];
  return harness_.compare(tensors_[output.position].arena.address(0), buffer.dtype, output.exact.address(0),
                          buffer.elements);
}

std::string Tensors::damage(const LoadedPlan& plan) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Arena& arena = tensors_[i].arena;
    const bool input = spec_.buffers[i].role == Role::input;
    // One pass over an input sees its values and its guard bands alike; where they are is looked up only when
    // needed.
    if (input && harness_.checksum(arena.base(), arena.layout().total()) == tensors_[i].checksum) continue;
    if (std::string text = arena.damage(harness_); !text.empty()) return text;
    if (input) return "changed its input '" + arena.name() + "'";
  }
  for (const Output& output : outputs_) {
    if (harness_.checksum(output.exact.base(), output.exact.layout().total()) != output.checksum)
      return "changed the reference's copy of '" + output.exact.name() + "'";
  }
  return plan.scratch_damage(harness_);
}

Validation Tensors::validate(const LoadedPlan& plan) {
  Validation validation;
  if (std::string text = damage(plan); !text.empty()) {
    validation.damaged = true;
    validation.reason = text;
  }
  for (const Output& output : outputs_) {
    const Buffer& buffer = spec_.buffers[output.position];
    const ErrorFigures figures = compare(output);
    validation.max_error = std::max(validation.max_error, figures.max_error);
    validation.dissimilarity = std::max(validation.dissimilarity, figures.dissimilarity());
    const Verdict verdict = judge(buffer.name, buffer.dtype, figures, output.baseline_error, spec_.tolerance);
    if (!verdict.right && validation.reason.empty()) validation.reason = verdict.reason;
  }
  validation.right = validation.reason.empty();
  return validation;
}

std::vector<std::uint8_t> Tensors::fetch(const std::string& name, std::int64_t copy, bool exact) const {
  for (const Output& output : outputs_) {
    if (!exact || output.exact.name() != name) continue;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(output.exact.layout().bytes));
    cuda::copy_to_host(bytes, output.exact.address(0), stream_);
    return bytes;
  }
  for (const Tensor& tensor : tensors_) {
    if (exact || tensor.arena.name() != name || copy < 0 || copy >= tensor.arena.layout().copies) continue;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(tensor.arena.layout().bytes));
    cuda::copy_to_host(bytes, tensor.arena.address(copy), stream_);
    return bytes;
  }
  throw BadInput("the problem has no copy " + std::to_string(copy) + " of a tensor '" + name + "'");
}

}  // namespace moetune
