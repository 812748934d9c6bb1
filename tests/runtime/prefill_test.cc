// prefill_attention through the C interface, on the scripted driver: bound tensors of every layout give the right
// answer, and the choice follows the new tokens and the tokens.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "include/moetune.h"
#include "kernels/buffer.h"
#include "kernels/prefill_attention/call.h"
#include "kernels/registry.h"
#include "tests/kernels/answers/answers.h"
#include "tests/kernels/answers/host_values.h"
#include "tests/runtime/decode_tensors.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

constexpr std::uint64_t kSeed = 5;

// A prefill_attention problem with its default call in host memory, which is the scripted driver's device memory.
class PrefillTensors {
 public:
  explicit PrefillTensors(const std::string& text)
      : kernel_(find_kernel("prefill_attention")), problem_(kernel_.parse(text)) {
    std::size_t position = 0;
    for (const Buffer& buffer : kernel_.buffers(problem_, kSeed)) {
      Tensor& tensor = tensors_[buffer.name];
      tensor.bytes.resize(static_cast<std::size_t>(buffer.bytes()) + 64, 0xff);
      const auto address = reinterpret_cast<std::uintptr_t>(tensor.bytes.data());
      tensor.description.data = reinterpret_cast<void*>((address + 63) / 64 * 64);
      if (buffer.role == Role::input) {
        std::vector<double> values = host_values(buffer, kSeed, fill_stream(position, 0));
        for (std::size_t i = 0; i < values.size(); ++i)
          store_element(buffer.dtype, tensor.description.data, static_cast<std::int64_t>(i), values[i]);
        inputs_[buffer.name] = std::move(values);
      }
      ++position;
    }
    describe();
  }

  DLTensor& tensor(const std::string& name) { return tensors_.at(name).description; }

  // By slot of include/moetune_kernels.h; null for what the family lacks.
  std::vector<const DLTensor*> slots() const {
    std::vector<const DLTensor*> all;
    for (const char* name : {"q", "k", "v", "q_offsets", "kv_offsets", "kv_lengths", "page_table", "o", "lse", "sinks",
                             "k_scale", "v_scale", "q_scale"}) {
      const auto found = tensors_.find(name);
      all.push_back(found == tensors_.end() ? nullptr : &found->second.description);
    }
    return all;
  }

  // The largest difference of an output from the right answer; infinite if something is not written, or too much is.
  double error(const std::string& name, DType type) {
    const HostTensors right = answer_on_cpu(problem_, inputs_);
    double worst = 0;
    const std::vector<double>& values = right.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double written = load_element(type, tensor(name).data, static_cast<std::int64_t>(i));
      if (std::isnan(written) != std::isnan(values[i])) return INFINITY;
      if (!std::isnan(written) && written != values[i]) worst = std::max(worst, std::abs(written - values[i]));
    }
    return worst;
  }

 private:
  struct Tensor {
    std::vector<std::uint8_t> bytes;
    std::vector<std::int64_t> sizes;
    DLTensor description{};
  };

  void describe() {
    const PrefillShape shape(problem_);
    const PrefillCall call{kernel_.default_call(problem_)};
    const std::int64_t tokens = shape.paged() ? shape.page : call.capacity, heads = shape.kv_heads;
    std::vector<std::int64_t> kv =
        shape.heads_first ? std::vector{heads, tokens, shape.head_dim} : std::vector{tokens, heads, shape.head_dim};
    if (shape.paged()) kv.insert(kv.begin(), call.blocks);
    const std::vector<std::int64_t> rows = {call.q_tokens, shape.q_heads, shape.head_dim};
    set("q", rows, shape.q_dtype());
    set("o", rows, shape.dtype);
    set("k", kv, shape.kv_dtype());
    set("v", kv, shape.kv_dtype());
    set("q_offsets", {shape.batch + 1}, DType::i32);
    if (shape.paged()) {
      set("kv_lengths", {shape.batch}, DType::i32);
      set("page_table", {shape.batch, call.page_table_stride}, DType::i32);
    } else {
      set("kv_offsets", {shape.batch + 1}, DType::i32);
    }
    if (shape.lse) set("lse", {call.q_tokens, shape.q_heads}, DType::f32);
    if (shape.sinks) set("sinks", {shape.q_heads}, DType::f32);
    if (!shape.narrow) return;
    set("k_scale", {shape.kv_scales()}, DType::f32);
    set("v_scale", {shape.kv_scales()}, DType::f32);
    if (shape.narrow_queries) set("q_scale", {shape.kv_scales()}, DType::f32);
  }

  void set(const std::string& name, std::vector<std::int64_t> sizes, DType type) {
    Tensor& tensor = tensors_.at(name);
    tensor.sizes = std::move(sizes);
    DLTensor& is = tensor.description;
    is.device_type = 2;
    is.ndim = static_cast<std::int32_t>(tensor.sizes.size());
    is.shape = tensor.sizes.data();
    is.code = type == DType::e4m3 ? 10 : type == DType::bf16 ? 4 : type == DType::i32 ? 0 : 2;
    is.bits = type == DType::e4m3 ? 8 : type == DType::bf16 || type == DType::f16 ? 16 : 32;
    is.lanes = 1;
  }

  const Kernel& kernel_;
  Problem problem_;
  std::map<std::string, Tensor> tensors_;
  HostTensors inputs_;
};

struct Bound {
  moetune_arguments arguments;
  std::int64_t extents[MOETUNE_MAX_EXTENTS];
  std::size_t count = 0;
};

moetune_family* family_of(const Opened& opened, const std::string& specialization) {
  moetune_family* family = nullptr;
  REQUIRE_OK(moetune_family_open(opened.runtime(), "prefill_attention", specialization.c_str(), &family));
  return family;
}

Bound bind(moetune_family* family, PrefillTensors& tensors, const char* options) {
  Bound bound;
  REQUIRE_OK(moetune_bind(family, tensors.slots().data(), tensors.slots().size(), options, &bound.arguments,
                          bound.extents, &bound.count));
  return bound;
}

}  // namespace

TEST_CASE("a server binds, picks and launches prefill_attention, and the output is right") {
  struct Case {
    const char* problem;
    const char* family;
    const char* options;
  };
  for (const Case& each :
       {Case{"batch=1,q_heads=4,kv_heads=2,head_dim=64,seqlen_q=20,seqlen_kv=50", "group=2,head_dim=64", nullptr},
        Case{"batch=6,q_heads=4,kv_heads=1,head_dim=64,seqlen_q=20,seqlen_kv=50,lengths=ragged,lse=natural,layout=hnd",
             "group=4,head_dim=64,lse=natural", "layout=heads_first"},
        Case{"batch=6,q_heads=2,kv_heads=2,head_dim=64,seqlen_q=9,seqlen_kv=90,lengths=ragged,page=16,window=11,"
             "sinks=learned,lse=natural",
             "group=1,head_dim=64,page=16,window=11,sinks=learned,lse=natural", "layout=tokens_first,scale=0.125"},
        Case{"batch=5,q_heads=2,kv_heads=1,head_dim=128,seqlen_q=9,seqlen_kv=90,lengths=ragged,page=64,causal=0,"
             "layout=hnd,dtype=fp16",
             "group=2,head_dim=128,page=64,causal=0,dtype=fp16", "layout=heads_first"},
        Case{
            "batch=3,q_heads=4,kv_heads=2,head_dim=64,seqlen_q=9,seqlen_kv=40,kv_dtype=e4m3,kv_scale=head,q_dtype=e4m3",
            "group=2,head_dim=64,kv_dtype=e4m3,kv_scale=head,q_dtype=e4m3", nullptr},
        Case{"batch=6,q_heads=4,kv_heads=2,head_dim=64,seqlen_q=9,seqlen_kv=90,lengths=ragged,kv_dtype=e4m3",
             "group=2,head_dim=64,kv_dtype=e4m3", nullptr},
        Case{"batch=5,q_heads=4,kv_heads=2,head_dim=64,seqlen_q=9,seqlen_kv=90,lengths=ragged,page=16,lse=natural,"
             "kv_dtype=e4m3,kv_scale=head",
             "group=2,head_dim=64,page=16,lse=natural,kv_dtype=e4m3,kv_scale=head", "layout=tokens_first"}}) {
    CAPTURE(each.problem);
    const Folder folder;
    store(folder / "cache.db", {{.problem = each.problem, .config = "", .kernel = "prefill_attention"}});
    const Opened opened({folder / "cache.db"});
    moetune_family* const family = family_of(opened, each.family);
    PrefillTensors tensors(each.problem);
    const Bound bound = bind(family, tensors, each.options);
    REQUIRE(bound.count == 4);
    moetune_choice choice;
    REQUIRE_OK(moetune_pick(family, bound.extents, bound.count, 0, &choice));
    for (int again = 0; again < 2; ++again)
      REQUIRE_OK(moetune_launch(family, &choice, &bound.arguments, nullptr, 0, nullptr));
    const PrefillShape shape(find_kernel("prefill_attention").parse(each.problem));
    CHECK(tensors.error("o", shape.dtype) < 0.02);
    if (shape.lse) CHECK(tensors.error("lse", DType::f32) < 1e-5);
  }
}

TEST_CASE("prefill_attention: extents are what the tensors have room for") {
  const Folder folder;
  constexpr const char* kProblem = "batch=3,q_heads=2,kv_heads=2,head_dim=64,seqlen_q=9,seqlen_kv=90,page=16";
  store(folder / "cache.db", {{.problem = kProblem, .config = "", .kernel = "prefill_attention"}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = family_of(opened, "group=1,head_dim=64,page=16");
  PrefillTensors tensors(kProblem);
  Bound bound = bind(family, tensors, nullptr);
  CHECK(bound.extents[0] == 3);
  CHECK(bound.extents[1] == 2);
  CHECK(bound.extents[2] == 27);      // all rows in one sequence
  CHECK(bound.extents[3] == 8 * 16);  // columns of the table
  CHECK(bound.arguments.integers[MOETUNE_PREFILL_CAPACITY] == 8 * 16);
  CHECK(bound.arguments.integers[MOETUNE_PREFILL_Q_TOKENS] == 27);

  const std::int64_t exact[] = {3, 2, 9, 90}, odd[] = {3, 2, 91, 90}, none[] = {3, 2, 0, 90};
  moetune_choice choice;
  REQUIRE_OK(moetune_pick(family, exact, 4, 27, &choice));
  CHECK(opened.explain(family, choice)["kind"] == "exact");
  CHECK(moetune_pick(family, odd, 4, 0, &choice) == MOETUNE_INVALID_ARGUMENT);
  CHECK(says("seqlen_kv=90 is less than seqlen_q=91"));
  CHECK(moetune_pick(family, none, 4, 0, &choice) == MOETUNE_INVALID_ARGUMENT);
}

TEST_CASE("prefill_attention: 64 sequences of 16 new tokens and one of 1024 have cells of their own") {
  const Folder folder;
  store(folder / "cache.db", {{.problem = "batch=1,q_heads=2,kv_heads=2,head_dim=64,seqlen_q=1024,seqlen_kv=1024",
                               .config = "",
                               .time_us = 5000,
                               .kernel = "prefill_attention"}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = family_of(opened, "group=1,head_dim=64");
  const std::int64_t one[] = {1, 2, 1024, 1024}, many[] = {64, 2, 16, 1024};
  moetune_choice choice;
  REQUIRE_OK(moetune_pick(family, one, 4, 1024, &choice));
  CHECK(opened.explain(family, choice)["kind"] == "exact");
  REQUIRE_OK(moetune_pick(family, many, 4, 1024, &choice));
  CHECK(opened.explain(family, choice)["kind"] != "exact");
}

TEST_CASE("prefill_attention: tensors that the kernel cannot take") {
  const Folder folder;
  constexpr const char* kProblem = "batch=3,q_heads=2,kv_heads=1,head_dim=64,seqlen_q=9,seqlen_kv=90";
  store(folder / "cache.db", {{.problem = kProblem, .config = "", .kernel = "prefill_attention"}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = family_of(opened, "group=2,head_dim=64");
  PrefillTensors tensors(kProblem);
  const auto refused = [&](const char* name, auto change, const char* options = nullptr) {
    const DLTensor before = tensors.tensor(name);
    change(tensors.tensor(name));
    Bound bound;
    const moetune_status status =
        moetune_bind(family, tensors.slots().data(), 10, options, &bound.arguments, bound.extents, &bound.count);
    tensors.tensor(name) = before;
    return status == MOETUNE_INVALID_ARGUMENT;
  };
  static const std::int64_t heads[] = {27, 3, 64}, longer[] = {5}, kv[] = {90, 1, 32}, rows[] = {28, 2, 64};
  CHECK(refused("q", [](DLTensor& t) { t.shape = heads; }));
  CHECK(says("'q' has 3 heads; it must have 2"));
  CHECK(refused("q", [](DLTensor& t) { t.ndim = 2; }));
  CHECK(says("it must be [tokens, heads, head_dim]"));
  CHECK(refused("o", [](DLTensor& t) { t.shape = rows; }));
  CHECK(says("'o' has 28 tokens"));
  CHECK(refused("k", [](DLTensor& t) { t.shape = kv; }));
  CHECK(says("differ in shape"));
  CHECK(refused("kv_offsets", [](DLTensor& t) { t.shape = longer; }));
  CHECK(refused("q_offsets", [](DLTensor& t) { t.bits = 64; }));
  static const std::int64_t nothing[] = {0};
  const DLTensor offsets = tensors.tensor("kv_offsets");
  tensors.tensor("kv_offsets").shape = nothing;  // as long as those of no sequence at all would be
  CHECK(refused("q_offsets", [](DLTensor& t) { t.shape = nothing; }));
  CHECK(says("'q_offsets' is empty; it must be [batch + 1]"));
  tensors.tensor("kv_offsets") = offsets;
  CHECK(refused(
      "q", [](DLTensor&) {}, "speed=9"));
  CHECK(says("unknown option 'speed=9'"));
}
