// Whether today's runtime takes what packs/ ships: a kernel whose parameter list has changed would serve a user nothing
// but defaults, with a warning that nobody reads.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "cache/pack.h"
#include "cache/ranges.h"
#include "jobs/range/picks.h"
#include "kernels/kernel_space.h"
#include "kernels/plan_interface.h"
#include "kernels/registry.h"
#include "ranges/range_table.h"
#include "tests/paths.h"
#include "tests/temporary_folder.h"

using namespace moetune;

namespace {

namespace fs = std::filesystem;

constexpr const char* kRemedy =
    "; tune it again on the pack's GPU with scripts/make_pack, and ship the pack that this writes";

// Reads one pack as the runtime would, but for the device, and collects what it could not use.
class ShippedPack {
 public:
  explicit ShippedPack(const fs::path& file)
      : name_(file.filename().string()), pack_(Cache::open(file, Cache::Mode::read_only)) {
    if (pack_.manifest() == nullptr) {
      unusable_.insert(name_ + " has no manifest" + kRemedy);
      return;
    }
    for (const PackFamily& family : pack_.manifest()->families) {
      for (const FamilyWinner& winner : pack_.winners.of_family(family.kernel, family.family).sound)
        check(family, winner);
      for (const FamilyRange& range : pack_.ranges.of_family(family.kernel, family.family)) check(family, range);
    }
  }

  std::size_t checked() const { return checked_; }
  std::string unusable() const {
    std::string lines;
    for (const std::string& one : unusable_) lines += one + "\n";
    return lines;
  }

 private:
  void check(const PackFamily& family, const FamilyWinner& winner) {
    const HardwareKey& hardware = winner.workload.key.hardware;
    const std::string& problem = winner.workload.key.problem;
    check(family, "a winner", hardware, problem, winner.config, winner.interface, winner.cubin_digest);
    if (winner.default_config.empty()) return;
    check(family, "a default", hardware, problem, winner.default_config, winner.default_interface,
          winner.default_cubin_digest);
  }

  void check(const PackFamily& family, const FamilyRange& range) {
    attempt(family, "a range table", [&] {
      const RangeTable table = RangeTable::parse(range.table, "it");
      if (table.cells.empty()) throw BadInput("it has no cells");
      for (const FamilyRange::Variant& variant : range.variants)
        check(family, "a cubin of a range table", range.key.hardware, table.cells.front().problem, variant.config,
              variant.interface, variant.cubin_digest);
      for (const RangeCell& cell : table.cells) require_cubin(family.kernel, range, cell.problem, cell.config);
    });
    check_defaults(family, range);
  }

  static void require_cubin(const std::string& kernel, const FamilyRange& range, const std::string& problem,
                            const std::string& config) {
    const CompileUnit unit = launcher(kernel, range.key.hardware, problem, config)->unit();
    const bool is_stored = std::ranges::any_of(range.variants, [&](const FamilyRange::Variant& variant) {
      return launcher(kernel, range.key.hardware, problem, variant.config)->unit() == unit;
    });
    if (!is_stored) throw BadInput("it lacks the cubin of " + config + " for " + problem);
  }

  // Between the cells serves what is the default today: without its cubin the nearest winner of any would.
  void check_defaults(const PackFamily& family, const FamilyRange& range) {
    const RangeTable table = RangeTable::parse(range.table, "it");
    const DeviceLimits limits = limits_of_architecture(architecture_name(range.key.hardware.compute_capability));
    for (const RangePicks::Default& one : defaults_served(find_kernel(family.kernel), limits, table))
      attempt(family, "a default between the cells of a range table",
              [&] { require_cubin(family.kernel, range, one.problem.text(), one.config); });
  }

  void check(const PackFamily& family, const std::string& what, const HardwareKey& hardware,
             const std::string& problem_text, const std::string& config, const std::string& interface,
             const std::string& cubin) {
    attempt(family, what, [&] {
      const Kernel& kernel = find_kernel(family.kernel);
      const Problem problem = problem_of(kernel, problem_text);
      if (kernel.specialization(problem).text() != family.family) throw BadInput("its family has another name now");
      const auto made = launcher(family.kernel, hardware, problem_text, config);
      LaunchPlan plan;
      made->plan(made->plan_extents(kernel.extents_of(problem)), Call{}, plan);
      if (interface_digest(made->unit(), plan) != interface)
        throw BadInput("its cubin takes other parameters than templates/" + kernel.name() + " has now");
      require_entries(pack_.winners.cubin(cubin), plan);
    });
  }

  // An ELF file for CUDA that has the plan's functions: what the driver would load.
  static void require_entries(const Blob& cubin, const LaunchPlan& plan) {
    const std::string bytes(cubin.begin(), cubin.end());
    constexpr unsigned kElfMachine = 18, kCuda = 190;
    if (!bytes.starts_with("\177ELF") || bytes.size() < 64 || static_cast<unsigned char>(bytes[kElfMachine]) != kCuda)
      throw BadInput("its cubin is none");
    for (const Launch& launch : plan.launches) {
      if (bytes.find(".text." + launch.entry.text()) == std::string::npos)
        throw BadInput("its cubin lacks the function " + launch.entry.text());
    }
  }

  static Problem problem_of(const Kernel& kernel, const std::string& text) {
    Problem problem = kernel.parse(text);
    kernel.check(problem);
    return problem;
  }

  static std::unique_ptr<const Launcher> launcher(const std::string& kernel_name, const HardwareKey& hardware,
                                                  const std::string& problem, const std::string& config) {
    const Kernel& kernel = find_kernel(kernel_name);
    return kernel.launcher(shared_space(kernel.name()).parse_config(config), problem_of(kernel, problem),
                           limits_of_architecture(architecture_name(hardware.compute_capability)));
  }

  void attempt(const PackFamily& family, const std::string& what, const std::function<void()>& look) {
    ++checked_;
    try {
      look();
    } catch (const std::runtime_error& error) {
      unusable_.insert(name_ + ": " + what + " of " + family.kernel + " " + family.family +
                       " cannot serve: " + error.what() + kRemedy);
    }
  }

  std::string name_;
  Cache pack_;
  std::size_t checked_ = 0;
  std::set<std::string> unusable_;  // each once: a family's winners have much in common
};

std::vector<fs::path> shipped_packs() {
  std::vector<fs::path> packs;
  for (const fs::directory_entry& entry : fs::directory_iterator(paths::source("packs"))) {
    if (entry.path().extension() == ".pack") packs.push_back(entry.path());
  }
  std::ranges::sort(packs);
  return packs;
}

}  // namespace

TEST_CASE("every winner, default and range table of a shipped pack is one that today's kernels can launch") {
  const std::vector<fs::path> packs = shipped_packs();
  REQUIRE_FALSE(packs.empty());
  for (const fs::path& file : packs) {
    const ShippedPack pack(file);
    CHECK(pack.checked() > 0);
    CHECK_MESSAGE(pack.unusable().empty(), pack.unusable());
  }
}

TEST_CASE("a pack of another parameter list is named, with what makes a new one") {
  const TemporaryFolder folder;
  const fs::path copy = folder / "other.pack";
  {
    const Cache from = Cache::open(shipped_packs().front(), Cache::Mode::read_only);
    const PackFamily family = from.manifest()->families.front();
    const FamilyWinner known = from.winners.of_family(family.kernel, family.family).sound.front();
    WinnerRecord winner = from.winners.find(known.workload.id).value();
    winner.interface = "of other parameters";
    winner.default_launch.cubin.assign(100, 0);
    Cache to = Cache::open(copy, Cache::Mode::create);
    to.winners.put(to.workloads.id(known.workload.key, family.family), winner);
    seal(to, "a test");
  }
  const std::string lines = ShippedPack(copy).unusable();
  CHECK(lines.find("its cubin takes other parameters than templates/") != std::string::npos);
  CHECK(lines.find("its cubin is none") != std::string::npos);
  CHECK(lines.find("scripts/make_pack") != std::string::npos);
}
