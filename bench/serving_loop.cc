// An inference process of scripts/serving_loop: picks and launches one problem step by step, writes what it misses, and
// takes new packs as `moetune sync` installs them. It shows what the loop is worth: a step's time before and after.
//
//   serving_loop FOLDER KERNEL PROBLEM [SECONDS [recorded]]
//   serving_loop packs decode_attention batch=8,q_heads=32,kv_heads=4,context=5120,page=16 1200
//
// FOLDER holds caches or packs with something of the problem's family; FOLDER/misses.json is written. A line of JSON
// for every new choice: seconds since the start, kind, configuration and, of decode_attention, a step's median time.
// `recorded`, for tests without a GPU, takes winners of recordings and launches nothing.
// Ends with 0 once the problem has a winner of its own, with 1 after SECONDS (600) without one.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/integers.h"
#include "base/json.h"
#include "bench/bench_main.h"
#include "kernels/registry.h"
#include "launch/driver.h"

// Last, because the house has an Extents of its own.
#include "include/moetune.hpp"

namespace {

using namespace moetune;
using Clock = std::chrono::steady_clock;

constexpr int kSamples = 20, kSteps = 20;
constexpr auto kPause = std::chrono::milliseconds(500);

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A batch of decode_attention whose sequences all have the problem's context.
class DecodeStep {
 public:
  DecodeStep(const abi1::Runtime& runtime, const abi1::Family& family, const Problem& p)
      : family_(family), context_(0), stream_(cuda::make_stream()) {
    const std::int64_t batch = p["batch"], heads = p["q_heads"], kv_heads = p["kv_heads"],
                       dim = p["head_dim"];
    const std::int64_t page = p["page"], context = p["context"],
                       pages = page > 0 ? ceil_div(context, page) : 0;
    const std::int64_t blocks = page > 0 ? batch * pages : batch, block = page > 0 ? page : context;
    const std::int64_t row = heads * dim, whole = kv_heads * block * dim, bytes = 2;  // of an element: bf16
    std::vector<std::int32_t> table(static_cast<std::size_t>(batch * pages)), lengths(batch, context);
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::int32_t>(i);
    arguments_ = {
        {allocate(batch * row * bytes), allocate(blocks * whole * bytes), allocate(blocks * whole * bytes),
         page > 0 ? copied(table) : nullptr, copied(lengths), allocate(batch * row * bytes)},
        {row, row, dim, row, row, dim, whole, block * dim, dim, whole, block * dim, dim, 0, blocks,
         page > 0 ? pages * page : block, pages},
        {0.1}};
    const std::size_t workspace = family.family_workspace({batch, kv_heads, context});
    workspace_ = {allocate(static_cast<std::int64_t>(workspace)), workspace};
    runtime.init_workspace(workspace_, stream_.get());
    cuda::synchronize(stream_);
  }

  double median_us(const moetune_choice& choice) const {
    std::vector<double> times;
    for (int sample = 0; sample < kSamples; ++sample) {
      const cuda::Event begin = cuda::make_event(), end = cuda::make_event();
      family_.launch(choice, arguments_, workspace_, stream_.get());
      cuda::record(begin, stream_);
      for (int step = 0; step < kSteps; ++step) family_.launch(choice, arguments_, workspace_, stream_.get());
      cuda::record(end, stream_);
      cuda::synchronize(stream_);
      times.push_back(cuda::elapsed_us(begin, end) / kSteps);
    }
    std::nth_element(times.begin(), times.begin() + kSamples / 2, times.end());
    return times[kSamples / 2];
  }

 private:
  void* allocate(std::int64_t bytes) {
    memory_.push_back(cuda::allocate(bytes));
    cuda::set_bytes(memory_.back().get(), 0, bytes, stream_);
    return reinterpret_cast<void*>(memory_.back().get());
  }
  void* copied(const std::vector<std::int32_t>& values) {
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(std::int32_t));
    void* const address = allocate(bytes);
    cuda::copy_to_device(
        memory_.back().get(),
        {reinterpret_cast<const std::uint8_t*>(values.data()), static_cast<std::size_t>(bytes)}, stream_);
    cuda::synchronize(stream_);  // the values live no longer than that
    return address;
  }

  const abi1::Family& family_;
  cuda::Context context_;
  cuda::Stream stream_;
  std::vector<cuda::Memory> memory_;
  moetune_arguments arguments_{};
  abi1::Workspace workspace_{};
};

void print(double seconds, const nlohmann::json& explained, double us) {
  nlohmann::ordered_json line = {{"seconds", seconds},
                                 {"kind", explained.at("kind")},
                                 {"config", explained.at("config")},
                                 {"file", explained.at("file")}};
  if (us > 0) line["step_us"] = us;
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

// Whether the problem came to a winner of its own in time.
bool serve(const std::string& folder, const std::string& kernel_name, const std::string& text, double limit_s,
           bool recorded) {
  const Kernel& kernel = find_kernel(kernel_name);
  const Problem problem = parse_problem(kernel.name(), kernel.schema(), nullptr, text);
  const abi1::Runtime runtime({.paths = {folder}, .device = 0, .allow_recorded = recorded});
  const abi1::Family family = runtime.family(kernel.name(), kernel.specialization(problem).text());
  const auto extents = kernel.extents_of(problem);
  const abi1::Extents shape(std::span<const std::int64_t>(extents.begin(), extents.size()));
  const std::int64_t total = kernel_name == "decode_attention" ? problem["batch"] * problem["context"] : 0;
  std::optional<DecodeStep> step;
  if (kernel_name == "decode_attention" && !recorded) step.emplace(runtime, family, problem);

  std::string config;
  for (const Clock::time_point begin = Clock::now(); seconds_since(begin) < limit_s;) {
    const moetune_choice choice = family.pick(shape, total);
    const nlohmann::json explained = parse_json(family.explain(choice), "moetune_explain");
    const double us = step ? step->median_us(choice) : 0;
    const bool is_exact = choice.kind == MOETUNE_CHOICE_EXACT;
    if (const std::string now = explained.at("config").get<std::string>() + (is_exact ? "!" : "");
        now != config) {
      config = now;
      print(seconds_since(begin), explained, us);
    }
    if (is_exact) return true;
    runtime.write_misses(folder + "/misses.json");
    std::this_thread::sleep_for(kPause);
    runtime.refresh();
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  bool tuned = false;
  const int code = bench::run_main("serving_loop", [&] {
    const bool recorded = argc == 6 && std::string_view(argv[5]) == "recorded";
    if (argc < 4 || argc > 6 || (argc == 6 && !recorded))
      throw BadInput("usage: serving_loop FOLDER KERNEL PROBLEM [SECONDS [recorded]]");
    tuned = serve(argv[1], argv[2], argv[3], argc > 4 ? std::stod(argv[4]) : 600, recorded);
  });
  return code != 0 ? code : tuned ? 0 : 1;
}
