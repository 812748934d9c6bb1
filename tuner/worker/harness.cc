#include "tuner/worker/harness.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "tuner/worker/host_compare.h"

namespace moetune {
namespace {

constexpr std::int64_t kGuardBytes = 64 << 10;
constexpr std::int64_t kAlignment = 256;
constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kBlocksPerSm = 8;
// Four warps, one for each of an SM's schedulers.
constexpr std::uint32_t kCanaryThreads = 128;
constexpr std::uint32_t kWipingThreads = 1024;
// A clock is read on few SMs: all have the same.
constexpr std::size_t kTickSms = 8;

// As templates/common/harness.cu lays them out.
struct ErrorPartial {
  double max_error, largest, sum_xy, sum_xx, sum_yy;
  std::uint64_t worst_index, mask_mismatches, first_mismatch;
};
struct IntegerPartial {
  std::uint64_t mismatches, first;
  std::int64_t actual, expected;
  std::uint64_t unwritten, first_unwritten;
};
constexpr std::size_t kPartialBytes = std::max({sizeof(ErrorPartial), sizeof(IntegerPartial), sizeof(CanaryPartial)});

template <typename T>
std::span<const std::uint8_t> bytes_in(const std::vector<T>& values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(T)};
}

std::uint64_t code(DType type) { return static_cast<std::uint64_t>(type); }

}  // namespace

// As moetune_tick of templates/common/timing.cuh writes it.
struct Harness::Tick {
  struct {
    std::uint64_t cycles, ns;
  } sms[kTickSms];
};

const char* const Harness::kSource = "templates/common/harness.cu";

ArenaLayout ArenaLayout::of(std::int64_t bytes, std::int64_t copies) {
  const std::int64_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return {kGuardBytes, padded + kGuardBytes, bytes, copies};
}

Harness::Harness(std::span<const std::uint8_t> cubin, const DeviceLimits& limits, const cuda::Stream& stream)
    : stream_(stream),
      sms_(static_cast<std::uint32_t>(limits.sm_count)),
      blocks_(kBlocksPerSm * sms_),
      shared_bytes_(static_cast<std::uint32_t>(limits.shared_per_block)),
      module_(cuda::load_module(cubin)),
      fill_(cuda::find_function(module_, "moetune_fill")),
      fill_zipf_(cuda::find_function(module_, "moetune_fill_zipf")),
      fill_list_(cuda::find_function(module_, "moetune_fill_list")),
      shift_columns_(cuda::find_function(module_, "moetune_shift_columns")),
      poison_(cuda::find_function(module_, "moetune_poison")),
      widen_(cuda::find_function(module_, "moetune_widen")),
      compare_(cuda::find_function(module_, "moetune_compare")),
      compare_integers_(cuda::find_function(module_, "moetune_compare_integers")),
      compare_segments_(cuda::find_function(module_, "moetune_compare_segments")),
      check_guards_(cuda::find_function(module_, "moetune_check_guards")),
      checksum_(cuda::find_function(module_, "moetune_checksum")),
      hold_(cuda::find_function(module_, "moetune_hold")),
      produce_(cuda::find_function(module_, "moetune_produce")),
      canary_(cuda::find_function(module_, "moetune_canary")),
      tick_(cuda::find_function(module_, "moetune_tick")),
      wipe_shared_(cuda::find_function(module_, "moetune_wipe_shared")),
      partials_(cuda::allocate(static_cast<std::int64_t>(blocks_ * kPartialBytes))),
      result_(cuda::allocate(sizeof(std::uint64_t))),
      signal_(cuda::allocate_on_host(sizeof(Signal))),
      ticks_(cuda::allocate_on_host(kTicks * sizeof(Tick))) {
  signal() = {};
  LaunchShape wiping;
  wiping.entry = "moetune_wipe_shared";
  wiping.dynamic_shared = shared_bytes_;
  cuda::permit(wipe_shared_, wiping);
}

void Harness::run(cuda::Function function, const char* entry, std::uint32_t blocks, std::uint32_t threads,
                  std::vector<std::uint64_t> parameters, std::uint32_t dynamic_shared) {
  Launch shape;
  shape.entry = entry;
  shape.grid = {blocks, 1, 1};
  shape.block = {threads, 1, 1};
  shape.dynamic_shared = dynamic_shared;
  std::vector<void*> pointers;
  for (std::uint64_t& parameter : parameters) pointers.push_back(&parameter);
  cuda::launch(function, shape, pointers.data(), stream_);
}

std::uint64_t Harness::read_result() {
  std::uint64_t value = 0;
  cuda::copy_to_host({reinterpret_cast<std::uint8_t*>(&value), sizeof value}, result_.get(), stream_);
  return value;
}

template <typename Partial>
std::vector<Partial> Harness::read_partials() {
  std::vector<Partial> partials(blocks_);
  cuda::copy_to_host({reinterpret_cast<std::uint8_t*>(partials.data()), partials.size() * sizeof(Partial)},
                     partials_.get(), stream_);
  return partials;
}

void Harness::fill(cuda::Address address, const Buffer& buffer, std::uint64_t seed, std::uint64_t fill_stream) {
  const Fill& fill = buffer.fill;
  if (fill.kind == Fill::Kind::arrays) {
    cuda::copy_to_device(address, *fill.contents[seed % fill.contents.size()], stream_);
  } else if (fill.kind == Fill::Kind::integers) {
    fill_list(address, buffer.dtype, fill.integers);
  } else if (fill.kind == Fill::Kind::zipf) {
    fill_zipf(address, buffer, seed, fill_stream);
  } else {
    const bool shifted = fill.kind == Fill::Kind::columns;
    const Fill::Kind kind = shifted ? Fill::Kind::normal : fill.kind;
    run(fill_, "moetune_fill", blocks_, kThreads,
        {address, code(buffer.dtype), static_cast<std::uint64_t>(kind),
         std::bit_cast<std::uint64_t>(static_cast<double>(fill.scale)), seed, fill_stream,
         static_cast<std::uint64_t>(buffer.elements)});
    if (shifted) shift_columns(address, buffer);
  }
  poison(address, buffer.dtype, fill.poison);
}

void Harness::fill_list(cuda::Address address, DType type, const std::vector<std::int32_t>& list) {
  if (type == DType::i32) return cuda::copy_to_device(address, bytes_in(list), stream_);
  const cuda::Memory uploaded = cuda::allocate(static_cast<std::int64_t>(list.size() * sizeof list[0]));
  cuda::copy_to_device(uploaded.get(), bytes_in(list), stream_);
  run(fill_list_, "moetune_fill_list", blocks_, kThreads, {address, code(type), uploaded.get(), list.size()});
  cuda::synchronize(stream_);
}

void Harness::fill_zipf(cuda::Address address, const Buffer& buffer, std::uint64_t seed, std::uint64_t fill_stream) {
  const std::vector<std::uint64_t> thresholds = zipf_thresholds(buffer.fill.values, buffer.fill.scale);
  const cuda::Memory uploaded = cuda::allocate(static_cast<std::int64_t>(thresholds.size() * sizeof thresholds[0]));
  cuda::copy_to_device(uploaded.get(), bytes_in(thresholds), stream_);
  run(fill_zipf_, "moetune_fill_zipf", blocks_, kThreads,
      {address, code(buffer.dtype), uploaded.get(), thresholds.size(), seed, fill_stream,
       static_cast<std::uint64_t>(buffer.elements)});
  cuda::synchronize(stream_);
}

void Harness::shift_columns(cuda::Address address, const Buffer& buffer) {
  const std::vector<float>& shifts = buffer.fill.shifts;
  const cuda::Memory uploaded = cuda::allocate(static_cast<std::int64_t>(shifts.size() * sizeof shifts[0]));
  cuda::copy_to_device(uploaded.get(), bytes_in(shifts), stream_);
  run(shift_columns_, "moetune_shift_columns", blocks_, kThreads,
      {address, code(buffer.dtype), uploaded.get(), shifts.size(), static_cast<std::uint64_t>(buffer.elements)});
  cuda::synchronize(stream_);
}

// Poisons no ranges: a kernel of its own would change every verdict's digest.
void Harness::nothing() { run(poison_, "moetune_poison", 1, 32, {0, 0, 0, 0}); }

void Harness::poison(cuda::Address address, DType type, const std::vector<Range>& ranges) {
  if (ranges.empty()) return;
  static_assert(sizeof(Range) == 2 * sizeof(std::int64_t));
  const cuda::Memory uploaded = cuda::allocate(static_cast<std::int64_t>(ranges.size() * sizeof(Range)));
  cuda::copy_to_device(uploaded.get(), bytes_in(ranges), stream_);
  run(poison_, "moetune_poison", blocks_, kThreads, {address, code(type), uploaded.get(), ranges.size()});
  cuda::synchronize(stream_);
}

void Harness::widen(cuda::Address from, DType type, cuda::Address to, std::int64_t elements) {
  run(widen_, "moetune_widen", blocks_, kThreads, {from, code(type), to, static_cast<std::uint64_t>(elements)});
}

ErrorFigures Harness::compare(cuda::Address x, DType type, cuda::Address y, std::int64_t elements) {
  run(compare_, "moetune_compare", blocks_, kThreads,
      {x, code(type), y, static_cast<std::uint64_t>(elements), partials_.get()});
  ErrorFigures figures{.worst_index = kNoElement, .first_mismatch = kNoElement};
  for (const ErrorPartial& partial : read_partials<ErrorPartial>()) {
    if (partial.max_error > figures.max_error ||
        (partial.max_error == figures.max_error && partial.worst_index < figures.worst_index)) {
      figures.max_error = partial.max_error;
      figures.worst_index = partial.worst_index;
    }
    figures.largest = std::max(figures.largest, partial.largest);
    figures.sum_xy += partial.sum_xy;
    figures.sum_xx += partial.sum_xx;
    figures.sum_yy += partial.sum_yy;
    figures.mask_mismatches += partial.mask_mismatches;
    figures.first_mismatch = std::min(figures.first_mismatch, partial.first_mismatch);
  }
  return figures;
}

IntegerFigures Harness::compare_integers(cuda::Address x, cuda::Address y, DType type, std::int64_t elements,
                                         cuda::Address earlier) {
  run(compare_integers_, "moetune_compare_integers", blocks_, kThreads,
      {x, y, code(type), static_cast<std::uint64_t>(elements), earlier, kPoisonByte, kOtherPoisonByte,
       partials_.get()});
  IntegerFigures figures;
  for (const IntegerPartial& partial : read_partials<IntegerPartial>()) {
    if (partial.first < figures.first_mismatch) {
      figures.first_mismatch = partial.first;
      figures.actual = partial.actual;
      figures.expected = partial.expected;
    }
    figures.mismatches += partial.mismatches;
    figures.unwritten += partial.unwritten;
    figures.first_unwritten = std::min(figures.first_unwritten, partial.first_unwritten);
  }
  return figures;
}

SegmentFigures Harness::compare_segments(cuda::Address x, cuda::Address y, DType type, const Segments& segments) {
  const std::vector<std::int64_t>& ends = segments.ends;
  run(compare_segments_, "moetune_compare_segments", blocks_, kThreads,
      {x, y, code(type), static_cast<std::uint64_t>(ends.back()), segments.offsets,
       static_cast<std::uint64_t>(ends.front()), ends.size(), partials_.get()});
  std::uint64_t mismatches = 0, first = kNoElement;
  for (const IntegerPartial& partial : read_partials<IntegerPartial>()) {
    mismatches += partial.mismatches;
    first = std::min(first, partial.first);
  }
  if (mismatches == 0) return {};
  // The first difference is only for the message, so the host looks for it.
  const std::int64_t begin = first == 0 ? 0 : ends[first - 1], width = dtype_bytes(type);
  const std::int64_t length = ends[first] - begin;
  const auto fetch = [&](cuda::Address from) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(length * width));
    cuda::copy_to_host(bytes, from + static_cast<cuda::Address>(begin * width), stream_);
    return bytes;
  };
  SegmentFigures figures = compare_segments_on_host(type, fetch(x), fetch(y), std::vector<std::int64_t>{length});
  figures.mismatches = mismatches;
  figures.begin = static_cast<std::uint64_t>(begin);
  figures.end = static_cast<std::uint64_t>(ends[first]);
  return figures;
}

std::optional<std::int64_t> Harness::first_damage(cuda::Address arena, const ArenaLayout& layout, std::uint8_t guard) {
  cuda::set_bytes(result_.get(), 0xFF, sizeof(std::uint64_t), stream_);
  run(check_guards_, "moetune_check_guards", blocks_, kThreads,
      {arena, static_cast<std::uint64_t>(layout.guard), static_cast<std::uint64_t>(layout.stride),
       static_cast<std::uint64_t>(layout.bytes), static_cast<std::uint64_t>(layout.copies), guard, result_.get()});
  const std::uint64_t first = read_result();
  return first == kNoElement ? std::nullopt : std::optional(static_cast<std::int64_t>(first));
}

std::uint64_t Harness::checksum(cuda::Address address, std::int64_t bytes) {
  cuda::set_bytes(result_.get(), 0, sizeof(std::uint64_t), stream_);
  run(checksum_, "moetune_checksum", blocks_, kThreads,
      {address, static_cast<std::uint64_t>(bytes / 16), result_.get()});
  return read_result();
}

void Harness::produce(cuda::Address parts, std::uint64_t count, std::uint64_t words) {
  const std::uint64_t needed = std::max<std::uint64_t>(1, (words + kThreads - 1) / kThreads);
  run(produce_, "moetune_produce", static_cast<std::uint32_t>(std::min<std::uint64_t>(needed, blocks_)), kThreads,
      {parts, count});
}

void Harness::hold(std::uint64_t patience_ns) {
  ++turn_;
  run(hold_, "moetune_hold", 1, 1, {cuda::device_address(signal_), turn_, patience_ns});
}

void Harness::release() { std::atomic_ref(signal().released).store(turn_, std::memory_order_release); }

bool Harness::gave_up() const {
  return turn_ != 0 && std::atomic_ref(signal().gave_up).load(std::memory_order_acquire) == turn_;
}

void Harness::tick(int place) {
  if (place >= kTicks) return;
  Tick& tick = static_cast<Tick*>(ticks_.get())[place];
  tick = {};
  const std::uint64_t offset = static_cast<std::uint64_t>(place) * sizeof(Tick);
  run(tick_, "moetune_tick", sms_, 32, {cuda::device_address(ticks_) + offset, kTickSms});
}

double Harness::clock_mhz(int begin, int end) const {
  if (std::max(begin, end) >= kTicks) return 0;
  const Tick* const ticks = static_cast<const Tick*>(ticks_.get());
  for (std::size_t sm = 0; sm < kTickSms; ++sm) {
    const auto &from = ticks[begin].sms[sm], &to = ticks[end].sms[sm];
    if (from.ns != 0 && to.ns > from.ns && to.cycles > from.cycles)
      return 1e3 * static_cast<double>(to.cycles - from.cycles) / static_cast<double>(to.ns - from.ns);
  }
  return 0;
}

void Harness::wipe_shared() {
  run(wipe_shared_, "moetune_wipe_shared", sms_, kWipingThreads, {shared_bytes_}, shared_bytes_);
}

std::vector<CanaryPartial> Harness::canary(std::uint64_t duration_ns, std::uint64_t gap_ns) {
  run(canary_, "moetune_canary", sms_, kCanaryThreads, {duration_ns, gap_ns, partials_.get()});
  std::vector<CanaryPartial> partials = read_partials<CanaryPartial>();
  partials.resize(sms_);
  return partials;
}

}  // namespace moetune
