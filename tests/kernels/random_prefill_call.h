// Problems of a prefill_attention family with calls as servers make them: queries in a fused QKV tensor, padded
// outputs, more rows than are used, a larger pool, keys and values interleaved or apart, another scale.
#pragma once

#include <cstdint>

#include "kernels/prefill_attention/call.h"
#include "tests/kernels/random_call.h"

namespace moetune {

class RandomPrefills : RandomStrides {
 public:
  // `of` names the family; no sequence is longer than `longest`.
  RandomPrefills(const Kernel& kernel, const Problem& of, std::int64_t longest, std::uint64_t seed)
      : RandomStrides(seed), kernel_(kernel), of_(of), longest_(longest) {}

  FamilyMember next() {
    const std::int64_t tokens = between(1, longest_), queries = between(1, coin() ? tokens : 20);
    FamilyMember member{
        kernel_.problem_of(kernel_.specialization(of_),
                           {between(1, 9), std::int64_t{1} << between(0, 3), std::min(queries, tokens), tokens}),
        {}};
    member.problem.dims.set("lengths", coin() ? Value::named("ragged", 1) : Value::named("full", 0));
    member.problem.dims.set("layout", coin() ? Value::named("nhd", 0) : Value::named("hnd", 1));
    const PrefillShape shape(member.problem);
    PrefillCall call(shape);
    call.q.token += (coin() ? 2 * shape.kv_heads * shape.head_dim : 0) + padding();
    call.o.head += padding();
    call.o.token = shape.q_heads * call.o.head + padding();
    call.q_tokens += between(0, 40);
    vary_room(call, shape);
    vary_kv(call, shape);
    call.scale *= 0.5 + static_cast<double>(between(0, 100)) / 66;
    member.call = call.call();
    return member;
  }

 private:
  void vary_room(PrefillCall& call, const PrefillShape& shape) {
    if (!shape.paged()) {
      call.capacity += between(0, 300);
      return;
    }
    call.blocks += between(0, 9);
    call.capacity += between(0, 20) * shape.page;
    call.page_table_stride = call.capacity / shape.page + between(0, 7);
  }

  void vary_kv(PrefillCall& call, const PrefillShape& shape) {
    const std::int64_t tokens = shape.paged() ? shape.page : call.capacity;
    call.k = kv_strides(shape, tokens);
    call.v = kv_strides(shape, tokens);
    if (coin()) return;  // a buffer each
    call.v = call.k;
    call.v_offset = call.k.block;  // a page of keys, then one of values
    call.k.block = call.v.block = 2 * call.k.block;
  }

  const Kernel& kernel_;
  Problem of_;
  std::int64_t longest_;
};

// Families that between them have every kind of paging and masking.
inline const char* const kPrefillFamilies[] = {
    "batch=2,q_heads=32,kv_heads=8,seqlen_q=1024,seqlen_kv=1024",
    "batch=4,q_heads=16,kv_heads=2,head_dim=64,seqlen_q=300,seqlen_kv=900,page=16,window=128,sinks=learned,lse=natural,"
    "lengths=ragged",
    "batch=6,q_heads=8,kv_heads=2,seqlen_q=64,seqlen_kv=2000,page=64,lengths=ragged,dtype=fp16",
    "batch=2,q_heads=4,kv_heads=4,head_dim=256,seqlen_q=500,seqlen_kv=500,causal=0,lse=natural",
    "batch=3,q_heads=8,kv_heads=2,seqlen_q=200,seqlen_kv=700,kv_dtype=e4m3,kv_scale=head,lse=natural",
    "batch=3,q_heads=8,kv_heads=2,head_dim=64,seqlen_q=200,seqlen_kv=700,kv_dtype=e4m3,q_dtype=e4m3",
    "batch=5,q_heads=8,kv_heads=2,head_dim=64,seqlen_q=90,seqlen_kv=900,page=16,lengths=ragged,kv_dtype=e4m3",
};

}  // namespace moetune
