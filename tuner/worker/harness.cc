#include "tuner/worker/harness.h"

#include <algorithm>
#include <bit>

namespace moetune {
namespace {

constexpr std::int64_t kGuardBytes = 64 << 10;
constexpr std::int64_t kAlignment = 256;
constexpr std::uint32_t kThreads = 256;
constexpr int kBlocksPerSm = 8;
constexpr std::uint64_t kNone = ~std::uint64_t{0};

// As templates/common/harness.cu lays it out.
struct Partial {
  double max_error, sum_xy, sum_xx, sum_yy;
  std::uint64_t worst_index, mask_mismatches, first_mismatch;
};

template <typename T>
std::span<const std::uint8_t> bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(T)};
}

std::uint64_t code(DType type) { return static_cast<std::uint64_t>(type); }

}  // namespace

const char* const Harness::kSource = "templates/common/harness.cu";

ArenaLayout ArenaLayout::of(std::int64_t bytes, std::int64_t copies) {
  const std::int64_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return {kGuardBytes, padded + kGuardBytes, bytes, copies};
}

Harness::Harness(std::span<const std::uint8_t> cubin, int sm_count, const cuda::Stream& stream)
    : stream_(stream),
      blocks_(static_cast<std::uint32_t>(kBlocksPerSm * sm_count)),
      module_(cuda::load_module(cubin)),
      fill_(cuda::find_function(module_, "moetune_fill")),
      poison_(cuda::find_function(module_, "moetune_poison")),
      compare_(cuda::find_function(module_, "moetune_compare")),
      check_guards_(cuda::find_function(module_, "moetune_check_guards")),
      checksum_(cuda::find_function(module_, "moetune_checksum")),
      delay_(cuda::find_function(module_, "moetune_delay")),
      partials_(cuda::allocate(static_cast<std::int64_t>(blocks_ * sizeof(Partial)))),
      result_(cuda::allocate(sizeof(std::uint64_t))) {}

void Harness::run(cuda::Function function, const char* entry, std::uint32_t blocks, std::uint32_t threads,
                  std::vector<std::uint64_t> parameters) {
  Launch shape;
  shape.entry = entry;
  shape.grid = {blocks, 1, 1};
  shape.block = {threads, 1, 1};
  std::vector<void*> pointers;
  for (std::uint64_t& parameter : parameters) pointers.push_back(&parameter);
  cuda::launch(function, shape, pointers.data(), stream_);
}

std::uint64_t Harness::read_result() {
  std::uint64_t value = 0;
  cuda::copy_to_host({reinterpret_cast<std::uint8_t*>(&value), sizeof value}, result_.get(), stream_);
  return value;
}

void Harness::fill(cuda::Address address, const Buffer& buffer, std::uint64_t seed,
                   std::uint64_t fill_stream) {
  const Fill& fill = buffer.fill;
  if (fill.kind == Fill::Kind::integers) {
    if (buffer.dtype == DType::f32) {
      const std::vector<float> values(fill.integers.begin(), fill.integers.end());
      cuda::copy_to_device(address, bytes_of(values), stream_);
    } else {
      cuda::copy_to_device(address, bytes_of(fill.integers), stream_);
    }
  } else {
    run(fill_, "moetune_fill", blocks_, kThreads,
        {address, code(buffer.dtype), static_cast<std::uint64_t>(fill.kind),
         std::bit_cast<std::uint64_t>(static_cast<double>(fill.scale)), seed, fill_stream,
         static_cast<std::uint64_t>(buffer.elements)});
  }
  poison(address, buffer.dtype, fill.poison);
}

void Harness::poison(cuda::Address address, DType type, const std::vector<Range>& ranges) {
  if (ranges.empty()) return;
  static_assert(sizeof(Range) == 2 * sizeof(std::int64_t));
  const cuda::Memory uploaded = cuda::allocate(static_cast<std::int64_t>(ranges.size() * sizeof(Range)));
  cuda::copy_to_device(uploaded.get(), bytes_of(ranges), stream_);
  run(poison_, "moetune_poison", blocks_, kThreads, {address, code(type), uploaded.get(), ranges.size()});
  cuda::synchronize(stream_);
}

ErrorFigures Harness::compare(cuda::Address x, DType type, cuda::Address y, std::int64_t elements) {
  run(compare_, "moetune_compare", blocks_, kThreads,
      {x, code(type), y, static_cast<std::uint64_t>(elements), partials_.get()});
  std::vector<Partial> partials(blocks_);
  cuda::copy_to_host({reinterpret_cast<std::uint8_t*>(partials.data()), partials.size() * sizeof(Partial)},
                     partials_.get(), stream_);
  ErrorFigures figures{.worst_index = kNone, .first_mismatch = kNone};
  for (const Partial& partial : partials) {
    if (partial.max_error > figures.max_error ||
        (partial.max_error == figures.max_error && partial.worst_index < figures.worst_index)) {
      figures.max_error = partial.max_error;
      figures.worst_index = partial.worst_index;
    }
    figures.sum_xy += partial.sum_xy;
    figures.sum_xx += partial.sum_xx;
    figures.sum_yy += partial.sum_yy;
    figures.mask_mismatches += partial.mask_mismatches;
    figures.first_mismatch = std::min(figures.first_mismatch, partial.first_mismatch);
  }
  return figures;
}

std::optional<std::int64_t> Harness::first_damage(cuda::Address arena, const ArenaLayout& layout) {
  cuda::set_bytes(result_.get(), 0xFF, sizeof(std::uint64_t), stream_);
  run(check_guards_, "moetune_check_guards", blocks_, kThreads,
      {arena, static_cast<std::uint64_t>(layout.guard), static_cast<std::uint64_t>(layout.stride),
       static_cast<std::uint64_t>(layout.bytes), static_cast<std::uint64_t>(layout.copies), kPoisonByte,
       result_.get()});
  const std::uint64_t first = read_result();
  return first == kNone ? std::nullopt : std::optional(static_cast<std::int64_t>(first));
}

std::uint64_t Harness::checksum(cuda::Address address, std::int64_t bytes) {
  cuda::set_bytes(result_.get(), 0, sizeof(std::uint64_t), stream_);
  run(checksum_, "moetune_checksum", blocks_, kThreads,
      {address, static_cast<std::uint64_t>(bytes / 16), result_.get()});
  return read_result();
}

void Harness::delay(std::uint64_t cycles) { run(delay_, "moetune_delay", 1, 1, {cycles}); }

}  // namespace moetune
