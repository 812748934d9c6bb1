// Range tables as a cache file holds them, whole and with a right digest: read or refused, and what a server picks from
// one is never what lost to the default, nor of another family.
#include <cstdlib>

#include "base/error.h"
#include "cache/cache.h"
#include "include/moetune.h"
#include "jobs/range/solution.h"
#include "jobs/range/state.h"
#include "kernels/registry.h"
#include "ranges/range_table.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/target.h"
#include "tests/runtime/fake_cache.h"

namespace moetune::fuzz {
namespace {

constexpr const char* kRangeFamily = "group=4,head_dim=64,page=16";

Problem shape_of(std::int64_t batch, std::int64_t context) {
  return find_kernel("decode_attention")
      .parse("batch=" + std::to_string(batch) + ",q_heads=4,kv_heads=1,head_dim=64,context=" + std::to_string(context) +
             ",page=16");
}

RangeTable sample_table() {
  RangeTable table{.ranges = "batch=2..32,context=64..1024", .bound = 0.02, .kept = true};
  for (const std::int64_t batch : {2, 32}) {
    for (const std::int64_t context : {64, 1024})
      table.cells.push_back(
          {shape_of(batch, context).text(), testing::plain_config(batch < 32 ? 64 : 32), 10.1, 12, 10});
  }
  table.certificate = {12, 0.004, 0.021, 0.03, -0.1};
  return table;
}

RangeState sample_state() {
  RangeState state{.ranges = "batch=2..32,context=64..1024", .cubins = {"tile=64", "tile=32"}};
  MeasuredCell cell{.problem = shape_of(2, 64).text(), .searched = true};
  cell.cubins = {{"tile=64", {testing::plain_config(64), 10}}, {"tile=32", {}}};
  cell.measured_default = MeasuredConfig{testing::plain_config(64), 12};
  cell.default_cubin = "tile=64";
  state.cells.push_back(cell);
  const std::string pick = testing::plain_config(64);
  state.shapes.push_back({.problem = shape_of(3, 100).text(),
                          .pick = pick,
                          .best = testing::plain_config(32),
                          .pick_us = 11,
                          .best_us = 10,
                          .default_us = 12});
  return state;
}

class RangesTarget : public Target {
 public:
  RangesTarget(Mutator mutator, const Folder& folder) : mutator_(std::move(mutator)), file_(folder / "ranges.db") {
    ::setenv("MOETUNE_FAKE_CUDA", "idle", 1);
    testing::store(file_, {{.problem = shape_of(8, 256).text(), .config = testing::plain_config(16)}});
    if (served(sample_table().text()) < 4) throw std::logic_error("the sample table serves nothing");
  }
  std::string make(Random& random) override { return mutator_.make(random); }

  void run(const std::string& input) override {
    if (input.find("moetune_range_progress") != std::string::npos) {
      const RangeState state = RangeState::parse(input);
      if (RangeState::parse(state.text()) != state) throw Finding("a state reads differently from what it writes");
      if (solve(state, 0.02, 4).table.cells.size() > state.cells.size()) throw Finding("cells out of nothing");
      return;
    }
    try {
      const RangeTable table = RangeTable::parse(input, "the input");
      if (RangeTable::parse(table.text(), "again") != table)
        throw Finding("a table reads differently from what it writes");
    } catch (const BadInput&) {
      if (served(input) > 0) throw Finding("a table that cannot be read serves");
      throw;
    }
    served(input);
  }

 private:
  // Picks of the stored text that come from it.
  std::size_t served(const std::string& text) const {
    const Kernel& kernel = find_kernel("decode_attention");
    RangeRecord record{.table = text, .progress = "", .stored_at = "2999-01-01T00:00:00Z"};
    for (const int tile : {64, 32})
      record.variants.push_back(testing::fake_launch(shape_of(2, 64), testing::plain_config(tile)));
    try {
      Cache::open(file_, Cache::Mode::create)
          .ranges.put({kernel.name(), kernel.specialization(shape_of(2, 64)).text(), testing::fake_device().key,
                       "sources", "nvrtc 13.0"},
                      record);
    } catch (const BrokenEnvironment&) {  // text that SQLite does not hold
      return 0;
    }
    const std::string path = file_.string();
    const char* const paths[] = {path.c_str()};
    const moetune_open_options options{sizeof options, paths, 1, 0, 0};
    moetune_runtime* runtime = nullptr;
    if (moetune_open(&options, &runtime) != MOETUNE_OK) throw Finding("a text in a table closes the whole cache");
    moetune_family* family = nullptr;
    std::size_t picks = 0;
    if (moetune_family_open(runtime, "decode_attention", kRangeFamily, &family) != MOETUNE_OK)
      throw Finding("a text in a table closes the family");
    for (std::int64_t batch = 1; batch < 100; batch = batch * 2 + 1) picks += is_of_range(family, batch);
    moetune_close(runtime);
    return picks;
  }

  static bool is_of_range(moetune_family* family, std::int64_t batch) {
    const std::int64_t extents[] = {batch, 1, 64};
    moetune_choice choice{};
    if (moetune_pick(family, extents, 3, 0, &choice) != MOETUNE_OK)
      throw Finding("a family with a winner picks nothing");
    std::size_t bytes = 0;
    char text[8192] = {};
    if (moetune_explain(family, &choice, text, sizeof text, &bytes) != MOETUNE_OK) return true;  // a long text
    return std::string(text).find("\"regret\"") != std::string::npos;
  }

  const Mutator mutator_;
  const Folder file_;
};

}  // namespace

std::unique_ptr<Target> ranges_target(const Folder& folder) {
  return std::make_unique<RangesTarget>(
      Mutator({sample_table().text(), sample_state().text()},
              {"\"cells\"", "\"time_us\":11", "\"best_us\":0", "\"default_us\":9", "page=64", "head_dim=128", "tile=16",
               "1e308", "null", "\"contended\":true", "\"shapes\":-1", "batch=0", "\"moetune_range\":2"}),
      folder);
}

}  // namespace moetune::fuzz
