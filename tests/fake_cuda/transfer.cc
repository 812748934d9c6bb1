// kv_transfer on the host: a caller's pools may be larger than a search's, so that rows are moved one by one.
#include <cstring>

#include "kernels/registry.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace fake_cuda {
namespace {

using namespace moetune;

enum Place { kSource, kSourcePages, kTargetPages, kScales, kTarget, kSourceStrides, kTargetStrides = 9, kPages = 13 };

// What the parameters point to at one end; a page's rows are those of its planes.
struct TransferredEnd {
  std::uint8_t* values;
  const std::int32_t* list;
  const std::uint64_t* strides;
  std::int64_t bytes;  // of a value

  std::int64_t page(std::int64_t i) const { return list == nullptr ? i : list[i]; }
  std::uint8_t* at(std::int64_t of_page, std::int64_t plane, std::int64_t outer, std::int64_t inner) const {
    const std::int64_t index[] = {of_page, plane, outer, inner};
    std::int64_t elements = 0;
    for (std::size_t d = 0; d < 4; ++d) elements += index[d] * static_cast<std::int64_t>(strides[d]);
    return values + elements * bytes;
  }
};

template <typename T>
T* pointer(const Parameters& parameters, Place place) {
  return reinterpret_cast<T*>(parameters[place]);
}

DType end_type(const Problem& problem, const char* name) { return dtype_from_name(problem.dims.at(name).text()); }

}  // namespace

std::size_t transfer_parameters() { return kPages + 1; }

void transfer_pages(const Kernel& kernel, const Parameters& parameters) {
  if (kernel.specialization.empty()) return;  // an image that does not say what it was compiled for
  const auto pages = static_cast<std::int32_t>(parameters[kPages]);
  const Problem problem = find_kernel("kv_transfer").parse(kernel.specialization + ",pages=" + std::to_string(pages));
  const DType source = end_type(problem, "source"), target = end_type(problem, "target");
  const TransferredEnd from{pointer<std::uint8_t>(parameters, kSource),
                            pointer<const std::int32_t>(parameters, kSourcePages), &parameters[kSourceStrides],
                            dtype_bytes(source)};
  const TransferredEnd to{pointer<std::uint8_t>(parameters, kTarget),
                          pointer<const std::int32_t>(parameters, kTargetPages), &parameters[kTargetStrides],
                          dtype_bytes(target)};
  const bool by_outer = problem.is("scale", "outer"), by_inner = problem.is("scale", "inner");
  const std::int64_t scales = by_outer ? problem["outer"] : by_inner ? problem["inner"] : 1;
  for (std::int64_t i = 0; i < pages; ++i) {
    if (from.page(i) < 0 || to.page(i) < 0) continue;
    for (std::int64_t row = 0; row < problem["planes"] * problem["outer"] * problem["inner"]; ++row) {
      const std::int64_t inner = row % problem["inner"], outer = row / problem["inner"] % problem["outer"],
                         plane = row / problem["inner"] / problem["outer"];
      const std::uint8_t* const read = from.at(from.page(i), plane, outer, inner);
      std::uint8_t* const written = to.at(to.page(i), plane, outer, inner);
      if (source == target) {
        std::memcpy(written, read, static_cast<std::size_t>(problem["width"] * dtype_bytes(source)));
        continue;
      }
      const float scale = pointer<const float>(parameters, kScales)[plane * scales + (by_outer   ? outer
                                                                                      : by_inner ? inner
                                                                                                 : 0)];
      const float factor = source == DType::e4m3 ? scale : 1 / scale;
      for (std::int64_t c = 0; c < problem["width"]; ++c)
        store_element(target, written, c, round_to(target, static_cast<float>(load_element(source, read, c)) * factor));
    }
  }
}

}  // namespace fake_cuda
