// An inference process of scripts/serving_loop: picks and launches one problem step by step, writes what it misses, and
// takes new packs as `moetune sync` installs them. It shows what the loop is worth: a step's time before and after.
//
//   serving_loop FOLDER KERNEL PROBLEM [SECONDS [recorded]]
//   serving_loop packs decode_attention batch=8,q_heads=32,kv_heads=4,context=5120,page=16 45
//
// Requests come every three seconds, as at night: a burst of 840 steps, and an idle GPU until the next. A service on
// the same GPU tunes in the gaps.
//
// FOLDER holds caches or packs with something of the problem's family; FOLDER/misses.json is written. A line of JSON
// for every new choice: seconds since the start, kind, configuration and, of decode_attention, a step's median time.
// The last line has both ends: "before" and "after" with a step's time on an otherwise idle GPU, "meanwhile_us" of the
// steps between, "requests", and "gpu_share", the part of the time that requests took.
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

constexpr int kSamples = 40, kSteps = 20;
constexpr int kLooksPerRequest = 6;
constexpr auto kPause = std::chrono::milliseconds(500);  // from one look for a new pack to the next

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Grown between steps, when a new choice needs more. A server that asks once, by moetune_family_workspace, holds the
// runtime to that promise: winners of later packs that split sequences further, and so need more, would stay unused.
class GrowingWorkspace {
 public:
  GrowingWorkspace(const abi1::Runtime& runtime, const abi1::Family& family)
      : runtime_(runtime), family_(family), context_(0), stream_(cuda::make_stream()) {}

  abi1::Workspace room_for(const moetune_choice& choice) {
    const std::size_t needed = family_.choice_workspace(choice);
    if (needed > room_.bytes) {
      cuda::synchronize(stream_);  // what runs uses the old one
      memory_ = cuda::allocate(static_cast<std::int64_t>(needed));
      room_ = {reinterpret_cast<void*>(memory_.get()), needed};
      runtime_.init_workspace(room_, stream_.get());
    }
    return room_;
  }
  const cuda::Stream& stream() const { return stream_; }

 private:
  const abi1::Runtime& runtime_;
  const abi1::Family& family_;
  cuda::Context context_;
  cuda::Stream stream_;
  cuda::Memory memory_;
  abi1::Workspace room_{};
};

// A batch of decode_attention whose sequences all have the problem's context.
class DecodeStep {
 public:
  DecodeStep(const abi1::Family& family, const cuda::Stream& stream, const Problem& p)
      : family_(family), stream_(stream) {
    const std::int64_t batch = p["batch"], heads = p["q_heads"], kv_heads = p["kv_heads"], dim = p["head_dim"];
    const std::int64_t page = p["page"], context = p["context"], pages = page > 0 ? ceil_div(context, page) : 0;
    const std::int64_t blocks = page > 0 ? batch * pages : batch, block = page > 0 ? page : context;
    const std::int64_t row = heads * dim, whole = kv_heads * block * dim, bytes = 2;  // of an element: bf16
    std::vector<std::int32_t> table(static_cast<std::size_t>(batch * pages)), lengths(batch, context);
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::int32_t>(i);
    arguments_ = {{allocate(batch * row * bytes), allocate(blocks * whole * bytes), allocate(blocks * whole * bytes),
                   page > 0 ? copied(table) : nullptr, copied(lengths), allocate(batch * row * bytes)},
                  {row, row, dim, row, row, dim, whole, block * dim, dim, whole, block * dim, dim, 0, blocks,
                   page > 0 ? pages * page : block, pages},
                  {0.1}};
    cuda::synchronize(stream_);
  }

  double median_us(const moetune_choice& choice, abi1::Workspace workspace) const {
    std::vector<double> times;
    for (int sample = 0; sample < kSamples; ++sample) {
      const cuda::Event begin = cuda::make_event(), end = cuda::make_event();
      family_.launch(choice, arguments_, workspace, stream_.get());
      cuda::record(begin, stream_);
      for (int step = 0; step < kSteps; ++step) family_.launch(choice, arguments_, workspace, stream_.get());
      cuda::record(end, stream_);
      cuda::synchronize(stream_);
      times.push_back(cuda::elapsed_us(begin, end) / kSteps);
    }
    return median_of(times);
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
    cuda::copy_to_device(memory_.back().get(),
                         {reinterpret_cast<const std::uint8_t*>(values.data()), static_cast<std::size_t>(bytes)},
                         stream_);
    cuda::synchronize(stream_);  // the values live no longer than that
    return address;
  }

  const abi1::Family& family_;
  const cuda::Stream& stream_;
  std::vector<cuda::Memory> memory_;
  moetune_arguments arguments_{};
};

nlohmann::ordered_json choice_document(const nlohmann::json& explained, double us) {
  nlohmann::ordered_json document = {
      {"kind", explained.at("kind")}, {"config", explained.at("config")}, {"file", explained.at("file")}};
  if (us > 0) document["step_us"] = us;
  return document;
}

void print(const nlohmann::ordered_json& line) {
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

// The requests of one server, and what their steps took.
class Traffic {
 public:
  // A null `step` launches nothing.
  Traffic(GrowingWorkspace& workspace, const DecodeStep* step) : workspace_(workspace), step_(step) {}

  // One request; the median time of its steps, 0 if nothing is launched.
  double serve(const moetune_choice& choice) {
    ++requests_;
    const Clock::time_point begin = Clock::now();
    const abi1::Workspace room = workspace_.room_for(choice);
    const double us = step_ != nullptr ? step_->median_us(choice, room) : 0;
    busy_s_ += seconds_since(begin);
    return us;
  }
  // Serves twice and returns the second time, because the first request wakes an idle GPU.
  double serve_awake(const moetune_choice& choice) {
    serve(choice);
    return serve(choice);
  }
  void serve_meanwhile(const moetune_choice& choice) {
    if (const double us = serve(choice); us > 0) meanwhile_us_.push_back(us);
  }

  nlohmann::ordered_json summary(const nlohmann::ordered_json& before, const nlohmann::ordered_json& after,
                                 double seconds) const {
    nlohmann::ordered_json line = {{"seconds", seconds}, {"before", before}, {"after", after}};
    if (step_ != nullptr) {
      line["meanwhile_us"] = median_of(meanwhile_us_);
      line["times_as_fast"] = before.at("step_us").get<double>() / after.at("step_us").get<double>();
      line["gpu_share"] = busy_s_ / seconds;
    }
    line["requests"] = requests_;
    return line;
  }

 private:
  GrowingWorkspace& workspace_;
  const DecodeStep* step_;
  int requests_ = 0;
  double busy_s_ = 0;
  std::vector<double> meanwhile_us_;
};

// Whether the problem came to a winner of its own in time.
bool serve(const std::string& folder, const std::string& kernel_name, const std::string& text, double limit_s,
           bool recorded) {
  const Kernel& kernel = find_kernel(kernel_name);
  const Problem problem = kernel.parse(text);
  const abi1::Runtime runtime({.paths = {folder}, .device = 0, .allow_recorded = recorded});
  const abi1::Family family = runtime.family(kernel.name(), kernel.specialization(problem).text());
  const auto extents = kernel.extents_of(problem);
  const abi1::Extents shape(std::span<const std::int64_t>(extents.begin(), extents.size()));
  const std::int64_t total = kernel_name == "decode_attention" ? problem["batch"] * problem["context"] : 0;
  GrowingWorkspace workspace(runtime, family);
  std::optional<DecodeStep> step;
  if (kernel_name == "decode_attention" && !recorded) step.emplace(family, workspace.stream(), problem);
  Traffic traffic(workspace, step ? &*step : nullptr);

  std::string config;
  nlohmann::ordered_json before;
  const Clock::time_point begin = Clock::now();
  for (int look = 0; seconds_since(begin) < limit_s; ++look) {
    const moetune_choice choice = family.pick(shape, total);
    const nlohmann::json explained = parse_json(family.explain(choice), "moetune_explain");
    const bool is_exact = choice.kind == MOETUNE_CHOICE_EXACT;
    if (const std::string now = explained.at("config").get<std::string>() + (is_exact ? "!" : ""); now != config) {
      config = now;
      nlohmann::ordered_json line = {{"seconds", seconds_since(begin)}};
      const nlohmann::ordered_json chosen = choice_document(explained, traffic.serve_awake(choice));
      if (before.is_null()) before = chosen;
      line.update(chosen);
      print(line);
      if (is_exact) {
        print(traffic.summary(before, chosen, seconds_since(begin)));
        return true;
      }
    } else if (look % kLooksPerRequest == 0) {
      traffic.serve_meanwhile(choice);
    }
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
