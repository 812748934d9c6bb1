// mla_decode on the host: its CPU reference on what the first launch's parameters point to.
#include <algorithm>
#include <cstring>
#include <map>

#include "kernels/registry.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/kernels/answers/answers.h"

namespace fake_cuda {
namespace {

using namespace moetune;

// Places of the parameters, in the template's order; behind them what the tensor map holds.
enum {
  kQ,
  kKv,
  kPageTable,
  kLengths,
  kO,
  kLse,
  kPartialO,
  kPartialLse,
  kQStrides,
  kOStrides = kQStrides + 3,
  kPageRow = kOStrides + 3,
  kContext,
  kSpan,
  kScale,
  kLaunched,
  kKvToken = kLaunched,
  kKvPage,
  kEnd
};

struct LatentLaunch {
  const Parameters& p;

  std::int64_t wide(int place) const { return static_cast<std::int64_t>(p[static_cast<std::size_t>(place)]); }
  void* at(int place) const { return reinterpret_cast<void*>(p[static_cast<std::size_t>(place)]); }

  Call call() const {
    const std::map<std::string, int> places = {
        {"q_sequence", kQStrides}, {"q_token", kQStrides + 1}, {"q_head", kQStrides + 2},
        {"o_sequence", kOStrides}, {"o_token", kOStrides + 1}, {"o_head", kOStrides + 2},
        {"kv_page", kKvPage},      {"kv_token", kKvToken},     {"page_row", kPageRow}};
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
    for (std::int64_t i = 0; i < problem["batch"]; ++i) {
      const std::int64_t tokens = std::min(load_integer(DType::i32, at(kLengths), i), problem["context"]);
      for (std::int64_t page = 0; page * problem["page"] < tokens; ++page)
        most = std::max(most, 1 + load_integer(DType::i32, at(kPageTable), i * wide(kPageRow) + page));
    }
    return most;
  }

  std::vector<double> loaded(int place, DType type, std::int64_t elements) const {
    return load_elements(type, at(place), elements);
  }
};

}  // namespace

std::size_t latent_parameters() { return kLaunched; }

void attend_latent(const Kernel& kernel, const Parameters& parameters, const Grid& grid) {
  if (kernel.specialization.empty()) return;  // an image that does not say what it was compiled for
  const LatentLaunch launch{parameters};
  const moetune::Kernel& known = find_kernel("mla_decode");
  const Problem problem = known.parse(kernel.specialization + ",batch=" + std::to_string(grid[2]) +
                                      ",context=" + std::to_string(static_cast<std::int32_t>(launch.wide(kContext))));
  const DType type = problem.is("dtype", "f16") ? DType::f16 : DType::bf16;
  const std::int64_t columns = (problem["context"] + problem["page"] - 1) / problem["page"];
  const std::int64_t kv =
      (launch.pages(problem) - 1) * launch.wide(kKvPage) + (problem["page"] - 1) * launch.wide(kKvToken) + 576;
  const HostTensors outputs = mla_decode_on_cpu(
      problem, launch.call(),
      {{"q", launch.loaded(kQ, type, launch.row_elements(problem, kQStrides, 576))},
       {"kv", launch.loaded(kKv, type, kv)},
       {"lengths", launch.loaded(kLengths, DType::i32, problem["batch"])},
       {"page_table",
        launch.loaded(kPageTable, DType::i32, (problem["batch"] - 1) * launch.wide(kPageRow) + columns)}});
  store_written(type, launch.at(kO), outputs.at("o"));
  if (problem.is("lse", "yes")) store_written(DType::f32, launch.at(kLse), outputs.at("lse"));
}

}  // namespace fake_cuda
