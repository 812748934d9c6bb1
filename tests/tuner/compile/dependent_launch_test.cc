// Kernels that may begin before the one in front has ended: on no path does a thread touch global memory before it has
// waited for that end, or end without having waited. Workspaces are shared on that condition.
//
// Read off the PTX that NVRTC makes. A warp-specialized kernel whose computing threads wait by a barrier for one that
// has waited cannot be judged so: prefill_attention's wgmma body, which the GPU tests run.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "tests/sanitized.h"
#include "tuner/compile/nvrtc.h"
#include "tuner/compile/sources.h"

using namespace moetune;

namespace {

constexpr const char* kWait = "griddepcontrol.wait";

// The instructions of one kernel, in their order, and where they lead.
class PtxBody {
 public:
  // `ptx` from behind the kernel's opening brace on.
  explicit PtxBody(const std::string& ptx) {
    std::string statement;
    int operands = 0;  // open braces of this statement
    scopes_.emplace_back();
    std::vector<std::size_t> open = {0};
    for (std::size_t at = 0; at < ptx.size() && !open.empty(); ++at) {
      const char c = ptx[at];
      if (c == '/' && ptx.compare(at, 2, "//") == 0) {
        at = ptx.find('\n', at);
        continue;
      }
      if (statement.empty() && (c == '{' || c == '}')) {
        if (c == '{') {
          open.push_back(scopes_.size());
          scopes_.push_back({open[open.size() - 2], {}});
        } else {
          open.pop_back();
        }
      } else if (c == ':' && statement.find(' ') == std::string::npos && !is_double_colon(ptx, at)) {
        scopes_[open.back()].labels[statement] = instructions_.size();
        statement.clear();
      } else if (c == ';') {
        add(statement, open.back());
        statement.clear();
      } else if (!statement.empty() || std::isspace(static_cast<unsigned char>(c)) == 0) {
        operands += c == '{' ? 1 : c == '}' ? -1 : 0;
        statement += std::isspace(static_cast<unsigned char>(c)) != 0 ? ' ' : c;
      }
    }
    REQUIRE(open.empty());
    REQUIRE(operands == 0);
  }

  bool waits() const { return find_wait() < instructions_.size(); }

  // The instructions, of those that are wrong, which a thread can come to before it has waited; "" for none.
  std::string reached_early(const std::function<bool(const std::string& opcode)>& is_wrong) const {
    std::string found;
    std::set<std::size_t> seen;
    std::vector<std::size_t> next = {0};
    while (!next.empty()) {
      const std::size_t at = next.back();
      next.pop_back();
      if (at >= instructions_.size() || !seen.insert(at).second) continue;
      const Instruction& one = instructions_[at];
      if (one.opcode == kWait && !one.is_predicated) continue;
      if (is_wrong(one.opcode)) found += one.opcode + " ";
      const bool jumps = one.opcode == "bra" || one.opcode == "bra.uni";
      if (jumps) next.push_back(target_of(one));
      const bool ends = jumps || one.opcode == "ret" || one.opcode == "exit" || one.opcode == "trap";
      if (!ends || one.is_predicated) next.push_back(at + 1);
    }
    return found;
  }

 private:
  struct Instruction {
    std::string opcode, operands;
    bool is_predicated = false;
    std::size_t scope = 0;
  };
  struct Scope {
    std::size_t parent = 0;
    std::map<std::string, std::size_t> labels;
  };

  void add(const std::string& statement, std::size_t scope) {
    if (statement.empty() || statement.front() == '.') return;  // a directive
    Instruction one{.is_predicated = statement.front() == '@', .scope = scope};
    std::size_t begin = one.is_predicated ? statement.find(' ') : 0;
    begin = statement.find_first_not_of(' ', begin);
    const std::size_t end = statement.find(' ', begin);
    one.opcode = statement.substr(begin, end - begin);
    if (end != std::string::npos) one.operands = statement.substr(statement.find_first_not_of(' ', end));
    instructions_.push_back(one);
  }

  // As in L2::cache_hint, where no label ends.
  static bool is_double_colon(const std::string& ptx, std::size_t at) {
    return ptx[at - 1] == ':' || ptx.compare(at, 2, "::") == 0;
  }

  std::size_t target_of(const Instruction& jump) const {
    for (std::size_t scope = jump.scope;; scope = scopes_[scope].parent) {
      const auto found = scopes_[scope].labels.find(jump.operands);
      if (found != scopes_[scope].labels.end()) return found->second;
      REQUIRE_MESSAGE(scope != 0, jump.operands);
    }
  }

  std::size_t find_wait() const {
    std::size_t at = 0;
    while (at < instructions_.size() && instructions_[at].opcode != kWait) ++at;
    return at;
  }

  std::vector<Instruction> instructions_;
  std::vector<Scope> scopes_;
};

bool begins(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// A store to memory of the block is none, nor is a hint read past L1; what cannot be followed counts.
bool writes_memory(const std::string& opcode) {
  if (begins(opcode, "call") || begins(opcode, "brx")) return true;
  if (begins(opcode, "cp.async.bulk") || begins(opcode, "cp.reduce")) return has(opcode, ".global.shared");
  const bool writes = begins(opcode, "st.") || begins(opcode, "red.") || begins(opcode, "atom.");
  return writes && !has(opcode, ".shared") && !has(opcode, ".local") && !has(opcode, ".param");
}

bool reads_memory(const std::string& opcode) {
  if (begins(opcode, "cp.async") && !begins(opcode, "cp.async.bulk.prefetch")) return has(opcode, ".global");
  return begins(opcode, "ld.") && !has(opcode, ".shared") && !has(opcode, ".local") && !has(opcode, ".param") &&
         !begins(opcode, "ld.relaxed.gpu");
}

bool reads_memory_itself(const std::string& opcode) { return reads_memory(opcode) && !begins(opcode, "cp.async.cg"); }

bool ends_thread(const std::string& opcode) { return opcode == "ret" || opcode == "exit"; }

// What decides whether a launch's caller has said that KV is settled.
constexpr const char* kIsSettled = "return (flags & kKvSettled) != 0;";

// As for callers that always say it, or never.
std::string ptx_of(const CompileUnit& unit, bool kv_settled) {
  std::vector<std::string> options = {"--gpu-architecture=compute_90a", "--std=c++17"};
  for (const auto& [name, value] : unit.defines) options.push_back("--define-macro=" + name + "=" + value);
  std::vector<SourceFile> sources = collect_sources(unit.source);
  for (SourceFile& source : sources) {
    if (const std::size_t at = source.text.find(kIsSettled); at != std::string::npos)
      source.text.replace(at, std::strlen(kIsSettled), kv_settled ? "return true;" : "return false;");
  }
  const NvrtcResult result = Nvrtc::load()->compile({sources, options});
  REQUIRE_MESSAGE(result.status == NvrtcResult::Status::ok, result.log);
  return result.ptx;
}

PtxBody body_of(const std::string& ptx, const std::string& entry) {
  const std::size_t begin = ptx.find(".entry " + entry + "(");
  REQUIRE(begin != std::string::npos);
  return PtxBody(ptx.substr(ptx.find("\n{", begin) + 2));
}

// `reads_constants`: copies of weights to shared memory may begin early.
void check_launches(const Plan& plan, bool reads_constants) {
  const std::string ptx = ptx_of(plan.unit, false);
  bool is_first = true;
  for (const Launch& launch : plan.launches) {
    const std::string entry = launch.entry.text();
    CAPTURE(entry);
    const PtxBody body = body_of(ptx, entry);
    CHECK(body.waits());
    CHECK(body.reached_early(writes_memory) == "");
    CHECK(body.reached_early(ends_thread) == "");
    // Inputs, which are there when the launch in front lets these begin: it has waited for them. Lengths; offsets and
    // weights.
    if (is_first || (entry != "decode_attention_combine" && entry != "moe_experts_down"))
      CHECK(body.reached_early(reads_constants ? reads_memory_itself : reads_memory) == "");
    is_first = false;
  }
}

// If the caller says that KV is settled, some is on its way to shared memory by then, and nothing else is done earlier.
void check_settled(const Plan& plan) {
  const PtxBody body = body_of(ptx_of(plan.unit, true), plan.launches[0].entry.text());
  CHECK(body.waits());
  CHECK(body.reached_early(writes_memory) == "");
  CHECK(body.reached_early(ends_thread) == "");
  CHECK(has(body.reached_early(reads_memory), "cp.async"));
}

struct Wanted {
  const char* kernel;
  const char* problem;
  std::vector<std::pair<const char*, const char*>> values;  // of parameters
  const char* space_of = "sm_90a";                          // the architecture
};

constexpr const char* kPaged = "batch=3,q_heads=16,kv_heads=2,context=1000,page=16,lengths=ragged";
constexpr const char* kContiguous = "batch=3,q_heads=16,kv_heads=2,context=1000";
constexpr const char* kOneRow = "batch=2,q_heads=4,kv_heads=4,context=2000";
constexpr const char* kWindow = "batch=3,q_heads=16,kv_heads=2,context=1000,window=200,sinks=learned";
constexpr const char* kRouting = "tokens=300,experts=64,top_k=6,dtype=bf16";
constexpr const char* kFewRows = "tokens=5,out=1001,bias=yes";
constexpr const char* kLatent = "batch=2,heads=128,context=1000,lse=yes";
constexpr const char* kGiven = "tokens=100,experts=64,top_k=6,map=local";

const std::vector<Wanted>& wanted() {
  static const std::vector<Wanted> all = {
      {"decode_attention", kPaged, {{"body", "mma"}, {"combine", "kernel"}}},
      {"decode_attention", kWindow, {{"body", "mma"}, {"combine", "last_cta"}}},
      {"decode_attention", kContiguous, {{"body", "mma"}, {"combine", "cluster"}}},
      {"decode_attention", kPaged, {{"body", "tma"}, {"math", "mma16"}, {"combine", "kernel"}, {"ahead", "2"}}},
      {"decode_attention", kContiguous, {{"body", "tma"}, {"math", "swap"}, {"combine", "cluster"}}},
      {"decode_attention", kOneRow, {{"body", "tma"}, {"math", "mma16"}, {"combine", "last_cta"}}},
      {"decode_attention", kPaged, {{"math", "wgmma64"}, {"schedule", "grid"}, {"combine", "kernel"}}},
      {"decode_attention", kContiguous, {{"math", "wgmma_swap"}, {"combine", "kernel"}}},
      {"decode_attention", kPaged, {{"schedule", "persistent"}, {"combine", "kernel"}}},
      {"prefill_attention",
       "batch=2,q_heads=8,kv_heads=2,seqlen_q=40,seqlen_kv=1000,page=16",
       {{"body", "mma"}, {"splits", "8"}},
       "sm_80"},
      {"router", kRouting, {{"schedule", "split"}}},
      {"router", kRouting, {{"schedule", "block"}}},
      {"router", kRouting, {{"schedule", "cluster"}}},
      {"router", kRouting, {{"schedule", "barrier"}}},
      {"router", "tokens=300,experts=64,top_k=6,outputs=weights", {{"schedule", "rows"}}},
      {"route_plan", kGiven, {{"schedule", "apart"}, {"pad", "first"}}},
      {"route_plan", kGiven, {{"schedule", "apart"}, {"blocks", "16"}}},
      {"route_plan", kGiven, {{"schedule", "split"}}},
      {"moe_dispatch", "tokens=64,hidden=512,top_k=2,experts=16", {}},
      {"moe_combine", "tokens=64,hidden=512,top_k=2,experts=16", {}},
      {"moe_experts", "tokens=64,hidden=512,intermediate=256,top_k=2,experts=16", {{"body", "wgmma"}}},
      {"moe_experts", "tokens=64,hidden=512,intermediate=256,top_k=2,experts=16", {{"body", "mma"}}, "sm_80"},
      {"moe_experts",
       "tokens=64,part=down,x=places,hidden=512,intermediate=256,top_k=2,experts=16",
       {{"body", "wgmma"}}},
      {"add_rmsnorm", "tokens=64,hidden=512,residual=yes", {{"PREFETCH", "1"}}},
      {"qk_norm_rope", "tokens=64,q_heads=8,kv_heads=2,kv=pages,page=16", {}},
      {"qk_norm_rope", "tokens=64,q_heads=8,kv_heads=2,kv=pages,page=16,kv_dtype=e4m3,kv_scale=head", {}},
      {"act_mul", "tokens=64,intermediate=512", {}},
      {"few_rows_linear", "tokens=1", {{"AHEAD", "0"}, {"PREFETCH", "16"}, {"LATE", "1"}}},
      {"few_rows_linear", kFewRows, {{"AHEAD", "0"}, {"LANES", "4"}}},
      {"few_rows_linear", kFewRows, {{"AHEAD", "1"}, {"LANES", "4"}}},
      {"gate_route", "tokens=1", {{"AHEAD", "0"}, {"LATE", "1"}}},
      {"gate_route", "tokens=8", {{"AHEAD", "1"}, {"PRODUCT_LANES", "4"}}},
      {"kv_transfer", "pages=9,outer=16,inner=2", {{"BODY", "vectors"}, {"HINT", "1"}}},
      {"kv_transfer", "pages=9,outer=16,inner=2,move=scatter", {{"BODY", "vectors"}, {"HINT", "1"}}},
      {"kv_transfer", "pages=9,outer=16,inner=2", {{"BODY", "bulk"}, {"STAGES", "8"}}},
      {"kv_transfer", "pages=9,outer=16,inner=2,target=e4m3,scale=inner", {}},
      {"mla_decode", kLatent, {{"PAIR", "1"}, {"PARTS", "1"}, {"splits", "4"}}},
      {"mla_decode", kLatent, {{"PAIR", "2"}, {"PARTS", "2"}, {"splits", "2"}}},
      {"mla_decode", "batch=99,heads=128,context=1000,lse=yes", {{"PAIR", "2"}, {"SCHEDULE", "spans"}}},
      {"mla_decode", kLatent, {{"BODY", "mma"}, {"ROW_TILES", "2"}, {"TILE", "32"}, {"PAIR", "1"}, {"splits", "4"}}},
  };
  return all;
}

std::optional<Config> find_config(const Wanted& one, const Problem& problem, const DeviceLimits& limits) {
  const LegalSpace legal = shared_space(one.kernel).enumerate(expression_environment(problem, limits));
  for (ConfigId i = 0; i < legal.size(); ++i) {
    const Config config = legal.config(i);
    if (std::ranges::all_of(one.values,
                            [&](const auto& value) { return config.at(value.first).text() == value.second; }))
      return config;
  }
  return std::nullopt;
}

std::string kernel_text(const std::string& body) {
  return ".visible .entry k(\n\t.param .u64 k_param_0\n)\n{\n" + body + "}\n";
}

}  // namespace

TEST_CASE("what a kernel does before it waits is read off its PTX") {
  const auto early = [](const std::string& body, bool (*is_wrong)(const std::string&)) {
    return body_of(kernel_text(body), "k").reached_early(is_wrong);
  };
  const std::string waits = "griddepcontrol.wait;\n", stores = "st.global.v2.u32 [%rd1], {%r1, %r2};\n";
  CHECK(early(waits + stores + "ret;\n", writes_memory) == "");
  CHECK(early(stores + waits + "ret;\n", writes_memory) == "st.global.v2.u32 ");
  CHECK(early("st.shared.u32 [%r3], %r1;\n" + waits + "ret;\n", writes_memory) == "");
  // One branch waits and the other does not.
  const std::string branch = "@%p1 bra $L__BB0_2;\n" + waits + "bra.uni $L__BB0_3;\n$L__BB0_2:\nmov.u32 %r1, 7;\n";
  CHECK(early(branch + "$L__BB0_3:\n" + stores + "ret;\n", writes_memory) != "");
  CHECK(early(branch + waits + "$L__BB0_3:\n" + stores + "ret;\n", writes_memory) == "");
  CHECK(early(branch + "$L__BB0_3:\nret;\n", ends_thread) != "");
  CHECK(early("@%p1 griddepcontrol.wait;\nret;\n", ends_thread) != "");
  // Labels of inline assembly are its own.
  const std::string loop = "{\n.reg .pred done;\nagain:\n@done bra finished;\nbra again;\nfinished:\n}\n";
  CHECK(early(loop + loop + waits + stores + "ret;\n", writes_memory) == "");
  CHECK(early(loop + loop + stores + "ret;\n", writes_memory) != "");
  CHECK(early("ld.global.nc.u32 %r1, [%rd1];\n" + waits + "ret;\n", reads_memory) != "");
  const std::string copy = "cp.async.cg.shared.global.L2::cache_hint [%r1], [%rd1], 16, %r2, %rd2;\n";
  CHECK(early(copy + waits + "ret;\n", reads_memory) == "cp.async.cg.shared.global.L2::cache_hint ");
  CHECK(early(waits + copy + "ret;\n", reads_memory) == "");
}

TEST_CASE("every kernel that may begin early is among those whose PTX is read") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  for (const Kernel* kernel : all_kernels()) {
    CAPTURE(kernel->name());
    const Problem problem = kernel->parse("");
    const auto config = shared_space(kernel->name()).default_config(expression_environment(problem, limits));
    REQUIRE(config);
    const Plan plan = kernel->plan(*config, problem, kernel->default_call(problem), limits);
    const bool is_early = std::ranges::any_of(plan.launches, &LaunchShape::programmatic_dependent);
    const bool is_read = std::ranges::any_of(wanted(), [&](const Wanted& one) { return one.kernel == kernel->name(); });
    CHECK(is_read == is_early);
  }
}

TEST_CASE("no kernel touches global memory, or ends, before it has waited for the launch in front") {
  if (kSanitized) return;
  for (const Wanted& one : wanted()) {
    const DeviceLimits limits = limits_of_architecture(one.space_of);
    const Kernel& kernel = find_kernel(one.kernel);
    const Problem problem = kernel.parse(one.problem);
    std::string values;
    for (const auto& [name, value] : one.values) values += std::string(name) + "=" + value + " ";
    CAPTURE(kernel.name());
    CAPTURE(values);
    const std::optional<Config> config = find_config(one, problem, limits);
    CHECK(config);
    const bool ahead =
        std::ranges::any_of(one.values, [](const auto& value) { return value == std::pair("AHEAD", "1"); });
    if (!config) continue;
    const Plan plan = kernel.plan(*config, problem, kernel.default_call(problem), limits);
    check_launches(plan, ahead);
    if (one.kernel == std::string("decode_attention")) check_settled(plan);
  }
}
