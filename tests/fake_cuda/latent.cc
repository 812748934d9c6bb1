// mla_decode on the host: its CPU reference on what the first launch's parameters point to.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <span>

#include "kernels/registry.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/kernels/answers/answers.h"

namespace fake_cuda {
namespace {

using namespace moetune;

// Places of the parameters of mla_decode_rows, in the template's order.
enum {
  kQ,
  kKv,
  kKvScale,
  kGroupScales,
  kRope,
  kPageTable,
  kIndices,
  kLengths,
  kO,
  kLse,
  kPartialO,
  kPartialLse,
  kQStrides,
  kKvPage = kQStrides + 3,
  kKvToken,
  kScalesPage,
  kScalesToken,
  kRopePage,
  kRopeToken,
  kOStrides,
  kPageRow = kOStrides + 3,
  kContext,
  kSpan,
  kScale,
  kRowsEnd
};

// The parameters of mla_decode by those places; behind them what its tensor map holds: the strides of tokens and pages.
constexpr int kCopied[] = {
    kQ,          kKv,       kPageTable,    kLengths,      kO,        kLse,          kPartialO,
    kPartialLse, kQStrides, kQStrides + 1, kQStrides + 2, kOStrides, kOStrides + 1, kOStrides + 2,
    kPageRow,    kContext,  kSpan,         kScale,        kKvToken,  kKvPage};
constexpr std::size_t kOfMap = 2;
// The same of mla_decode_spans, which has three that mla_decode does not: a scratch, sequences and overhead.
constexpr int kLedItems = kRowsEnd, kSequences = kLedItems + 1, kOverhead = kSequences + 1, kEnd = kOverhead + 1;
constexpr int kSpans[] = {
    kQ,        kKv,        kPageTable,    kLengths,      kO,        kLse,          kPartialO,     kPartialLse,
    kLedItems, kQStrides,  kQStrides + 1, kQStrides + 2, kOStrides, kOStrides + 1, kOStrides + 2, kPageRow,
    kContext,  kSequences, kOverhead,     kScale,        kKvToken,  kKvPage};

struct LatentLaunch {
  Parameters p;

  std::int64_t wide(int place) const { return static_cast<std::int64_t>(p[static_cast<std::size_t>(place)]); }
  void* at(int place) const { return reinterpret_cast<void*>(p[static_cast<std::size_t>(place)]); }

  Call call() const {
    const std::map<std::string, int> places = {
        {"q_sequence", kQStrides},    {"q_token", kQStrides + 1},     {"q_head", kQStrides + 2},
        {"o_sequence", kOStrides},    {"o_token", kOStrides + 1},     {"o_head", kOStrides + 2},
        {"kv_page", kKvPage},         {"kv_token", kKvToken},         {"page_row", kPageRow},
        {"scales_page", kScalesPage}, {"scales_token", kScalesToken}, {"rope_page", kRopePage},
        {"rope_token", kRopeToken}};
    Call call;
    const CallSchema& schema = find_kernel("mla_decode").call_schema();
    for (std::size_t i = 0; i < schema.integers.size(); ++i)
      if (const auto found = places.find(schema.integers[i].name); found != places.end())
        call.integers[i] = wide(found->second);
    float scale = 0;
    std::memcpy(&scale, &p[kScale], sizeof scale);
    call.reals[0] = scale;
    return call;
  }

  // The last element of a row is `width` behind its start.
  std::int64_t row_elements(const Problem& problem, int strides, std::int64_t width) const {
    return (problem["batch"] - 1) * wide(strides) + (problem["queries"] - 1) * wide(strides + 1) +
           (problem["heads"] - 1) * wide(strides + 2) + width;
  }

  // The pool is not passed: it ends with the last page that holds a token.
  std::int64_t pages(const Problem& problem) const {
    std::int64_t most = 1;
    if (problem.is("tokens", "chosen")) {
      for (std::int64_t i = 0; i < problem["batch"] * problem["queries"] * problem["context"]; ++i)
        most = std::max(most, 1 + load_integer(DType::i32, at(kIndices), i) / problem["page"]);
      return most;
    }
    for (std::int64_t i = 0; i < problem["batch"]; ++i) {
      const std::int64_t tokens = std::min(load_integer(DType::i32, at(kLengths), i), problem["context"]);
      for (std::int64_t page = 0; page * problem["page"] < tokens; ++page)
        most = std::max(most, 1 + load_integer(DType::i32, at(kPageTable), i * wide(kPageRow) + page));
    }
    return most;
  }

  // Rows of `width` in the pool's pages.
  std::vector<double> pool(const Problem& problem, int place, DType type, int page, std::int64_t width) const {
    return loaded(place, type, (pages(problem) - 1) * wide(page) + (problem["page"] - 1) * wide(page + 1) + width);
  }

  std::vector<double> loaded(int place, DType type, std::int64_t elements) const {
    return load_elements(type, at(place), elements);
  }
};

}  // namespace

std::size_t latent_parameters(const std::string& entry) {
  if (entry == "mla_decode_spans") return std::size(kSpans) - kOfMap;
  return entry == "mla_decode" ? std::size(kCopied) - kOfMap : entry == "mla_decode_rows" ? std::size_t{kRowsEnd} : 0;
}

void attend_latent(const Kernel& kernel, const Parameters& parameters, const Grid& grid) {
  if (kernel.specialization.empty()) return;  // an image that does not say what it was compiled for
  LatentLaunch launch{parameters};
  const bool spans = kernel.base == "mla_decode_spans";
  if (spans || kernel.base == "mla_decode") {
    const std::span<const int> places = spans ? std::span<const int>(kSpans) : kCopied;
    launch.p.assign(kEnd, 0);
    for (std::size_t i = 0; i < places.size(); ++i) launch.p[static_cast<std::size_t>(places[i])] = parameters[i];
  }
  const moetune::Kernel& known = find_kernel("mla_decode");
  const Problem one = known.parse(kernel.specialization + ",batch=1,context=1");
  const bool chosen = one.is("tokens", "chosen"), narrow = one.is("kv_dtype", "e4m3");
  const Problem problem =
      known.parse(kernel.specialization + ",batch=" +
                  std::to_string(spans ? launch.wide(kSequences) : grid[2] / (chosen ? one["queries"] : 1)) +
                  ",context=" + std::to_string(static_cast<std::int32_t>(launch.wide(kContext))));
  const DType type = problem.is("dtype", "f16") ? DType::f16 : DType::bf16;
  const std::int64_t columns = (problem["context"] + problem["page"] - 1) / problem["page"];
  const bool groups = problem.is("kv_scale", "group");
  HostTensors inputs = {{"q", launch.loaded(kQ, type, launch.row_elements(problem, kQStrides, 576))},
                        {"kv", launch.pool(problem, kKv, narrow ? DType::e4m3 : type, kKvPage, groups ? 512 : 576)}};
  if (groups) {
    inputs["group_scales"] = launch.pool(problem, kGroupScales, DType::f32, kScalesPage, 4);
    inputs["rope"] = launch.pool(problem, kRope, type, kRopePage, 64);
  } else if (narrow) {
    inputs["kv_scale"] = launch.loaded(kKvScale, DType::f32, 1);
  }
  if (chosen) {
    inputs["indices"] = launch.loaded(kIndices, DType::i32, problem["batch"] * problem["queries"] * problem["context"]);
  } else {
    inputs["lengths"] = launch.loaded(kLengths, DType::i32, problem["batch"]);
    inputs["page_table"] =
        launch.loaded(kPageTable, DType::i32, (problem["batch"] - 1) * launch.wide(kPageRow) + columns);
  }
  const HostTensors outputs = mla_decode_on_cpu(problem, launch.call(), inputs);
  store_written(type, launch.at(kO), outputs.at("o"));
  if (problem.is("lse", "yes")) store_written(DType::f32, launch.at(kLse), outputs.at("lse"));
}

}  // namespace fake_cuda
