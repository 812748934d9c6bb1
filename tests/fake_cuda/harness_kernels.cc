// What templates/common/harness.cu computes, on the host. Tensors are f32 here.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "kernels/buffer.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace fake_cuda {
namespace {

constexpr std::uint64_t kNone = ~std::uint64_t{0};

struct Partial {
  double max_error = 0, sum_xy = 0, sum_xx = 0, sum_yy = 0;
  std::uint64_t worst_index = kNone, mask_mismatches = 0, first_mismatch = kNone;
};

template <typename T>
T* pointer(std::uint64_t address) {
  return reinterpret_cast<T*>(address);
}

void require_f32(std::uint64_t type) {
  if (type != static_cast<std::uint64_t>(moetune::DType::f32))
    throw std::logic_error("the fake knows f32 only");
}

void fill(const Parameters& p) {
  require_f32(p[1]);
  const auto kind = static_cast<moetune::Fill::Kind>(p[2]);
  const auto scale = static_cast<float>(std::bit_cast<double>(p[3]));
  for (std::uint64_t i = 0; i < p[6]; ++i) {
    pointer<float>(p[0])[i] = moetune::generate_element(kind, scale, p[4], p[5], i);
  }
}

void poison(const Parameters& p) {
  require_f32(p[1]);
  const auto* ranges = pointer<const std::int64_t>(p[2]);
  for (std::uint64_t r = 0; r < p[3]; ++r) {
    std::fill_n(pointer<float>(p[0]) + ranges[2 * r], ranges[2 * r + 1], std::nanf(""));
  }
}

void compare(const Parameters& p, std::uint32_t blocks) {
  require_f32(p[1]);
  const auto *x = pointer<const float>(p[0]), *y = pointer<const float>(p[2]);
  auto* partials = pointer<Partial>(p[4]);
  std::fill_n(partials, blocks, Partial{});
  Partial& sum = partials[0];
  for (std::uint64_t i = 0; i < p[3]; ++i) {
    if (std::isfinite(x[i]) && std::isfinite(y[i])) {
      const double a = x[i], b = y[i];
      if (std::abs(a - b) > sum.max_error) {
        sum.max_error = std::abs(a - b);
        sum.worst_index = i;
      }
      sum.sum_xy += a * b;
      sum.sum_xx += a * a;
      sum.sum_yy += b * b;
    } else if (!(std::isnan(x[i]) && std::isnan(y[i])) && x[i] != y[i]) {
      if (sum.mask_mismatches++ == 0) sum.first_mismatch = i;
    }
  }
}

void check_guards(const Parameters& p) {
  const auto* arena = pointer<const std::uint8_t>(p[0]);
  const std::uint64_t guard = p[1], stride = p[2], bytes = p[3], copies = p[4];
  auto* first_bad = pointer<std::uint64_t>(p[6]);
  for (std::uint64_t band = 0; band <= copies; ++band) {
    const std::uint64_t begin = band == 0 ? 0 : guard + (band - 1) * stride + bytes;
    const std::uint64_t end = guard + band * stride;
    const auto* bad =
        std::find_if(arena + begin, arena + end, [&](std::uint8_t byte) { return byte != p[5]; });
    if (bad != arena + end) *first_bad = std::min(*first_bad, static_cast<std::uint64_t>(bad - arena));
  }
}

void checksum(const Parameters& p) {
  for (std::uint64_t i = 0; i < 2 * p[1]; ++i)
    *pointer<std::uint64_t>(p[2]) += pointer<const std::uint64_t>(p[0])[i] * (2 * i + 1);
}

}  // namespace

bool run_harness(const std::string& name, const Parameters& parameters, std::uint32_t blocks,
                 double& clock_us) {
  if (name == "moetune_fill") {
    fill(parameters);
  } else if (name == "moetune_poison") {
    poison(parameters);
  } else if (name == "moetune_compare") {
    compare(parameters, blocks);
  } else if (name == "moetune_check_guards") {
    check_guards(parameters);
  } else if (name == "moetune_checksum") {
    checksum(parameters);
  } else if (name == "moetune_delay") {
    clock_us += static_cast<double>(parameters[0]) / 1e3;
  } else {
    return false;
  }
  return true;
}

}  // namespace fake_cuda
