#include "bench/runtime_bench_launch.h"

#include <nlohmann/json.hpp>

#include "base/integers.h"
#include "base/json.h"
#include "bench/stored_cubin.h"
#include "kernels/kernel_space.h"

namespace moetune::bench {

LaunchPair::LaunchPair(const std::filesystem::path& cache, const Family& family)
    : opened_(cache, family.text), context_(0), stream_(cuda::make_stream()) {
  check(moetune_family_workspace(opened_.family(), family.extents.begin(), family.extents.size(), &workspace_bytes_));
  workspace_ = allocate(static_cast<std::int64_t>(workspace_bytes_));
  make_tensors(family);
  check(moetune_pick(opened_.family(), family.extents.begin(), family.extents.size(), 0, &choice_));
  bind_bare(cache, family);
  launch(1);
  launch_bare(1);
  wait();
}

void* LaunchPair::allocate(std::int64_t bytes) {
  memory_.push_back(cuda::allocate(bytes));
  cuda::set_bytes(memory_.back().get(), 0, bytes, stream_);
  return reinterpret_cast<void*>(memory_.back().get());
}

void LaunchPair::make_tensors(const Family& family) {
  const Problem& p = family.problem;
  const std::int64_t batch = p["batch"], heads = p["q_heads"], kv_heads = p["kv_heads"], dim = p["head_dim"];
  const std::int64_t page = p["page"], pages = page > 0 ? ceil_div(p["context"], page) : 0;
  const std::int64_t blocks = page > 0 ? batch * pages : batch, block = page > 0 ? page : p["context"];
  const std::int64_t bytes = 2;  // of an element: bf16
  const std::int64_t row = heads * dim, whole = kv_heads * block * dim;
  arguments_ = {{allocate(batch * row * bytes), allocate(blocks * whole * bytes), allocate(blocks * whole * bytes),
                 page > 0 ? allocate(batch * pages * 4) : nullptr, allocate(batch * 4), allocate(batch * row * bytes)},
                {row, row, dim, row, row, dim, whole, block * dim, dim, whole, block * dim, dim, 0, blocks,
                 page > 0 ? pages * page : block, pages},
                {0.1}};
}

void LaunchPair::bind_bare(const std::filesystem::path& cache, const Family& family) {
  std::string explained(8192, '\0');
  check(moetune_explain(opened_.family(), &choice_, explained.data(), explained.size(), nullptr));
  const nlohmann::json choice = parse_json(explained.c_str(), "moetune_explain");
  const Config config = shared_space(family.kernel.name()).parse_config(choice["config"].get<std::string>());
  const auto launcher = family.kernel.launcher(config, family.problem, cuda::describe_device(0).limits);
  Call call;
  std::copy(std::begin(arguments_.integers), std::end(arguments_.integers), call.integers.begin());
  std::copy(std::begin(arguments_.reals), std::end(arguments_.reals), call.reals.begin());
  LaunchPlan plan;
  launcher->plan(family.extents, call, plan);
  cubin_ = std::make_unique<LoadedCubin>(plan, stored_cubin(Cache::open(cache, Cache::Mode::read_only),
                                                            family.kernel.name(), family.text, choice["cubin"]));
  const std::unique_ptr<const FamilyInterface> interface = family.kernel.family_interface(family.problem);
  bare_ = BoundPlan(plan, cubin_->functions(), [&](std::string_view name) -> cuda::Address {
    for (std::size_t i = 0; i < interface->tensors().size(); ++i) {
      if (interface->tensors()[i].name.view() == name) return reinterpret_cast<cuda::Address>(arguments_.tensors[i]);
    }
    for (const auto& one : plan.scratch) {
      if (one.name.view() == name) return reinterpret_cast<cuda::Address>(allocate(one.bytes));
    }
    return 0;
  });
  kernels_ = static_cast<int>(plan.launches.size());
}

void LaunchPair::launch(int times) const {
  for (int i = 0; i < times; ++i)
    check(moetune_launch(opened_.family(), &choice_, &arguments_, workspace_, workspace_bytes_, stream_.get()));
}

void LaunchPair::launch_bare(int times) const {
  for (int i = 0; i < times; ++i) bare_.enqueue(stream_);
}

}  // namespace moetune::bench
