// What templates/common/harness.cu computes, on the host.
#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>

#include "kernels/buffer.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/kernels/answers/host_values.h"
#include "tests/tuner/worker/host_figures.h"

namespace fake_cuda {
namespace {

using moetune::DType;
using moetune::Fill;

// As in templates/common/harness.cu.
struct ErrorPartial {
  double max_error = 0, largest = 0, sum_xy = 0, sum_xx = 0, sum_yy = 0;
  std::uint64_t worst_index = moetune::kNoElement, mask_mismatches = 0, first_mismatch = moetune::kNoElement;
};
struct IntegerPartial {
  std::uint64_t mismatches = 0, first = moetune::kNoElement;
  std::int64_t actual = 0, expected = 0;
  std::uint64_t unwritten = 0, first_unwritten = moetune::kNoElement;
};

template <typename T>
T* pointer(std::uint64_t address) {
  return reinterpret_cast<T*>(address);
}

DType type_of(std::uint64_t code) { return static_cast<DType>(code); }

moetune::HostBytes bytes_at(std::uint64_t address, DType type, std::uint64_t elements) {
  return {pointer<const std::uint8_t>(address),
          static_cast<std::size_t>(elements) * static_cast<std::size_t>(moetune::dtype_bytes(type))};
}

void store(std::uint64_t address, DType type, std::uint64_t index, double value) {
  moetune::store_element(type, pointer<void>(address), static_cast<std::int64_t>(index),
                         moetune::round_to(type, value));
}

// The first block finds everything.
template <typename Partial>
void write_partials(std::uint64_t address, std::uint32_t blocks, const Partial& found) {
  auto* partials = pointer<Partial>(address);
  std::fill_n(partials, blocks, Partial{});
  partials[0] = found;
}

void fill(const Parameters& p, std::uint32_t) {
  const auto kind = static_cast<Fill::Kind>(p[2]);
  const auto scale = static_cast<float>(std::bit_cast<double>(p[3]));
  for (std::uint64_t i = 0; i < p[6]; ++i) {
    double value = kind == Fill::Kind::constant ? scale : 0;
    if (kind == Fill::Kind::permutation)
      value = static_cast<double>(moetune::permuted_element(static_cast<std::int64_t>(p[6]), p[4], p[5], i));
    if (kind == Fill::Kind::normal || kind == Fill::Kind::uniform)
      value = moetune::generate_element(kind, scale, p[4], p[5], i);
    store(p[0], type_of(p[1]), i, value);
  }
}

void shift_columns(const Parameters& p, std::uint32_t) {
  const auto* shifts = pointer<const float>(p[2]);
  for (std::uint64_t i = 0; i < p[4]; ++i) {
    const double drawn = moetune::load_element(type_of(p[1]), pointer<const void>(p[0]), static_cast<std::int64_t>(i));
    store(p[0], type_of(p[1]), i, static_cast<float>(drawn) + shifts[i % p[3]]);
  }
}

void fill_zipf(const Parameters& p, std::uint32_t) {
  const std::span thresholds(pointer<const std::uint64_t>(p[2]), p[3]);
  for (std::uint64_t i = 0; i < p[6]; ++i)
    store(p[0], type_of(p[1]), i, static_cast<double>(moetune::zipf_element(thresholds, p[4], p[5], i)));
}

void fill_list(const Parameters& p, std::uint32_t) {
  for (std::uint64_t i = 0; i < p[3]; ++i) store(p[0], type_of(p[1]), i, pointer<const std::int32_t>(p[2])[i]);
}

void poison(const Parameters& p, std::uint32_t) {
  const DType type = type_of(p[1]);
  const double value = moetune::is_integer(type) ? moetune::round_to(type, 1e300) : __builtin_nan("");
  const auto* ranges = pointer<const std::int64_t>(p[2]);
  for (std::uint64_t r = 0; r < p[3]; ++r) {
    for (std::int64_t i = 0; i < ranges[2 * r + 1]; ++i)
      store(p[0], type, static_cast<std::uint64_t>(ranges[2 * r] + i), value);
  }
}

void widen(const Parameters& p, std::uint32_t) {
  for (std::uint64_t i = 0; i < p[3]; ++i) {
    const auto index = static_cast<std::int64_t>(i);
    pointer<float>(p[2])[i] =
        static_cast<float>(moetune::load_element(type_of(p[1]), pointer<const void>(p[0]), index));
  }
}

void compare(const Parameters& p, std::uint32_t blocks) {
  const DType type = type_of(p[1]);
  const moetune::ErrorFigures found = moetune::testing::compare_on_host(
      type, bytes_at(p[0], type, p[3]), bytes_at(p[2], moetune::exact_dtype(type), p[3]));
  write_partials(p[4], blocks,
                 ErrorPartial{found.max_error, found.largest, found.sum_xy, found.sum_xx, found.sum_yy,
                              found.worst_index, found.mask_mismatches, found.first_mismatch});
}

void compare_integers(const Parameters& p, std::uint32_t blocks) {
  const DType type = type_of(p[2]);
  std::optional<moetune::testing::EarlierRun> earlier;
  if (p[4] != 0) {
    earlier = {bytes_at(p[4], type, p[3]), static_cast<std::uint8_t>(p[5]), static_cast<std::uint8_t>(p[6])};
  }
  const moetune::IntegerFigures found =
      moetune::testing::compare_integers_on_host(type, bytes_at(p[0], type, p[3]), bytes_at(p[1], type, p[3]), earlier);
  write_partials(p[7], blocks,
                 IntegerPartial{found.mismatches, found.first_mismatch, found.actual, found.expected, found.unwritten,
                                found.first_unwritten});
}

void compare_segments(const Parameters& p, std::uint32_t blocks) {
  const DType type = type_of(p[2]);
  const auto elements = static_cast<std::int64_t>(p[3]);
  const std::vector<std::int64_t> ends =
      p[4] != 0 ? moetune::segment_ends(std::span(pointer<const std::int32_t>(p[4]), p[6] - 1), elements)
                : moetune::segment_ends(static_cast<std::int64_t>(p[5]), elements);
  const moetune::SegmentFigures found =
      moetune::compare_segments_on_host(type, bytes_at(p[0], type, p[3]), bytes_at(p[1], type, p[3]), ends);
  IntegerPartial partial{.mismatches = found.mismatches};
  if (found.mismatches > 0) {
    const auto first = std::find(ends.begin(), ends.end(), static_cast<std::int64_t>(found.end));
    partial.first = static_cast<std::uint64_t>(first - ends.begin());
  }
  write_partials(p[7], blocks, partial);
}

void check_guards(const Parameters& p, std::uint32_t) {
  const auto* arena = pointer<const std::uint8_t>(p[0]);
  const std::uint64_t guard = p[1], stride = p[2], bytes = p[3], copies = p[4];
  auto* first_bad = pointer<std::uint64_t>(p[6]);
  for (std::uint64_t band = 0; band <= copies; ++band) {
    const std::uint64_t begin = band == 0 ? 0 : guard + (band - 1) * stride + bytes;
    const std::uint64_t end = guard + band * stride;
    const auto* bad = std::find_if(arena + begin, arena + end, [&](std::uint8_t byte) { return byte != p[5]; });
    if (bad != arena + end) *first_bad = std::min(*first_bad, static_cast<std::uint64_t>(bad - arena));
  }
}

void checksum(const Parameters& p, std::uint32_t) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < 2 * p[1]; ++i) sum += pointer<const std::uint64_t>(p[0])[i] * (2 * i + 1);
  *pointer<std::uint64_t>(p[2]) += sum;
}

// What templates/common/answers.cu computes.
void copy_answer(const Parameters& p, std::uint32_t) {
  std::memcpy(pointer<void>(p[1]), pointer<const void>(p[0]), p[2]);
}

void round_answer(const Parameters& p, std::uint32_t) {
  for (std::uint64_t i = 0; i < p[3]; ++i) store(p[1], type_of(p[2]), i, pointer<const float>(p[0])[i]);
}

}  // namespace

bool run_harness(const std::string& name, const Parameters& parameters, std::uint32_t blocks) {
  using Run = void (*)(const Parameters&, std::uint32_t);
  static const std::map<std::string, Run> kernels = {{"moetune_fill", fill},
                                                     {"moetune_fill_zipf", fill_zipf},
                                                     {"moetune_shift_columns", shift_columns},
                                                     {"moetune_fill_list", fill_list},
                                                     {"moetune_poison", poison},
                                                     {"moetune_widen", widen},
                                                     {"moetune_compare", compare},
                                                     {"moetune_compare_integers", compare_integers},
                                                     {"moetune_compare_segments", compare_segments},
                                                     {"moetune_check_guards", check_guards},
                                                     {"moetune_checksum", checksum},
                                                     {"moetune_copy_answer", copy_answer},
                                                     {"moetune_round_answer", round_answer}};
  const auto found = kernels.find(name);
  if (found == kernels.end()) return false;
  found->second(parameters, blocks);
  return true;
}

}  // namespace fake_cuda
