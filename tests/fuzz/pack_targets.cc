// Packs, as a server opens them: a cubin whose digest is wrong is never loaded, whatever else the file says.
#include "base/digest.h"
#include "base/regular_file.h"
#include "cache/pack.h"
#include "include/moetune.h"
#include "kernels/registry.h"
#include "runtime/layers.h"
#include "tests/fuzz/cache_content.h"
#include "tests/fuzz/database_targets.h"
#include "tests/fuzz/target.h"
#include "tests/runtime/fake_cache.h"

namespace moetune::fuzz {
namespace {

constexpr const char* kPackFamily = "group=4,head_dim=64,page=16";

std::vector<testing::FakeWinner> winners() {
  std::vector<testing::FakeWinner> all;
  for (int batch = 1; batch <= 16; batch *= 4) {
    all.push_back({"batch=" + std::to_string(batch) + ",q_heads=4,kv_heads=1,head_dim=64,context=512,page=16",
                   testing::plain_config(batch == 4 ? 32 : 64), testing::plain_config(64)});
  }
  return all;
}

class PackTarget : public Target {
 public:
  explicit PackTarget(const Folder& folder) : file_(folder / "models.pack") {
    ::setenv("MOETUNE_FAKE_CUDA", "idle", 1);
    testing::store(folder / "source.db", winners());
    export_pack(Cache::open(folder / "source.db", Cache::Mode::read_only), file_, {});
    bytes_ = read_regular_file(file_, kMostDatabaseBytes);
    known_ = read();
    if (known_.size() != 3 * winners().size()) throw std::logic_error("the sample pack is not read");
    serve();
  }

 protected:
  static constexpr const char* kWord = "moetune fake cubin ";

  void judge() {
    require_known(known_, read(), "altered, and taken from a pack");
    serve();
  }

  const Folder file_;
  std::string bytes_;

 private:
  // A line for every winner that a server would take, and one for every cubin.
  std::multiset<std::string> read() const {
    const TrustedKeys nobody;
    Layers layers({file_}, nobody,
                  std::chrono::milliseconds(0));  // without locks; serve() opens it with them
    std::multiset<std::string> lines;
    const Kernel& kernel = find_kernel("decode_attention");
    const Problem problem = kernel.parse(winners().front().problem);
    const StoredFamily family =
        layers.family(kernel.name(), kernel.specialization(problem).text(), /*allow_recorded=*/true);
    for (const StoredWinner& winner : family.winners) {
      const FamilyWinner& record = winner.record;
      lines.insert(record.workload.key.problem + "|" + record.workload.key.hardware.text() + "|" + record.config + "|" +
                   record.interface + "|" + record.default_config + "|" + record.cubin_digest + "|" +
                   record.default_cubin_digest + "|" + record.stored_at + std::to_string(record.time_us));
      for (const std::string& name : {record.cubin_digest, record.default_cubin_digest}) {
        try {
          if (!name.empty()) lines.insert("cubin|" + name + "|" + digest(layers.cubin(winner.layer, name)));
        } catch (const BrokenEnvironment&) {  // damaged, and said to be
        }
      }
    }
    return lines;
  }

  void serve() const {
    const std::string path = file_.string();
    const char* const paths[] = {path.c_str()};
    const moetune_open_options options{sizeof options, paths, 1, 0, 0};
    moetune_runtime* runtime = nullptr;
    if (moetune_open(&options, &runtime) != MOETUNE_OK) return check_refusal();
    moetune_family* family = nullptr;
    const moetune_status opened = moetune_family_open(runtime, "decode_attention", kPackFamily, &family);
    if (opened != MOETUNE_OK) check_refusal();
    for (std::int64_t batch = 1; opened == MOETUNE_OK && batch < 100; batch = batch * 3 + 1) {
      const std::int64_t extents[] = {batch, 1, 100 * batch};
      moetune_choice choice{};
      if (moetune_pick(family, extents, 3, 0, &choice) != MOETUNE_OK) continue;
      char text[4096];
      if (moetune_explain(family, &choice, text, sizeof text, nullptr) != MOETUNE_OK) check_refusal();
    }
    moetune_close(runtime);
  }

  static void check_refusal() {
    const std::string why = moetune_last_error();
    if (why.empty()) throw Finding("a refusal without a sentence");
  }

  std::multiset<std::string> known_;
};

}  // namespace

std::unique_ptr<Target> pack_bytes_target(const Folder& folder) {
  return std::make_unique<BytesOf<PackTarget>>(folder);
}
std::unique_ptr<Target> pack_records_target(const Folder& folder) {
  return std::make_unique<RecordsOf<PackTarget>>(folder);
}

}  // namespace moetune::fuzz
