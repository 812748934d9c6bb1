// Problems of a decode_attention family with calls as servers make them: queries in a fused QKV tensor, padded
// outputs, a larger pool, keys and values interleaved or apart, a wider page table, another scale.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "kernels/decode_attention/call.h"
#include "kernels/kernel.h"

namespace moetune {

struct FamilyMember {
  Problem problem;
  Call call;
};

// What a server's strides are made of: 64-bit draws, paddings that keep rows aligned, a pool's layouts.
class RandomStrides {
 protected:
  explicit RandomStrides(std::uint64_t seed) : random_(seed) {}

  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool coin() { return between(0, 1) == 1; }
  std::int64_t padding() { return coin() ? 0 : 16 * between(1, 5); }

  template <typename Shape>
  KvStrides kv_strides(const Shape& shape, std::int64_t tokens) {
    KvStrides made;
    if (shape.heads_first) {
      made.token = shape.head_dim + padding();
      made.head = tokens * made.token + padding();
      made.block = shape.kv_heads * made.head + padding();
    } else {
      made.head = shape.head_dim + padding();
      made.token = shape.kv_heads * made.head + padding();
      made.block = tokens * made.token + padding();
    }
    return made;
  }

 private:
  std::mt19937_64 random_;
};

class RandomMembers : RandomStrides {
 public:
  // `of` names the family; no context is longer than `longest`.
  RandomMembers(const Kernel& kernel, const Problem& of, std::int64_t longest, std::uint64_t seed)
      : RandomStrides(seed), kernel_(kernel), of_(of), longest_(longest) {}

  FamilyMember next() {
    FamilyMember member{kernel_.problem_of(kernel_.specialization(of_),
                                           {between(1, 24), std::int64_t{1} << between(0, 3), between(1, longest_)}),
                        {}};
    member.problem.dims.set("lengths", coin() ? Value::named("ragged", 1) : Value::named("full", 0));
    member.problem.dims.set("layout", coin() ? Value::named("nhd", 1) : Value::named("hnd", 0));
    const DecodeShape shape(member.problem);
    DecodeCall call(shape);
    vary_rows(call, shape);
    vary_room(call, shape);
    vary_kv(call, shape);
    call.scale *= 0.5 + static_cast<double>(between(0, 100)) / 66;
    member.call = call.call();
    return member;
  }

 private:
  void vary_rows(DecodeCall& call, const DecodeShape& shape) {
    const std::int64_t fused =
        coin() ? (shape.q_heads + 2 * shape.kv_heads) * shape.head_dim : shape.q_heads * shape.head_dim;
    call.q.token = fused + padding();
    call.q.sequence = shape.q_len * call.q.token + padding();
    call.o.head = shape.head_dim + padding();
    call.o.token = shape.q_heads * call.o.head + padding();
    call.o.sequence = shape.q_len * call.o.token + padding();
  }

  void vary_room(DecodeCall& call, const DecodeShape& shape) {
    call.blocks += between(0, 9);
    if (!shape.paged()) {
      call.capacity += between(0, 300);
      return;
    }
    call.capacity = (shape.pages_of(shape.context) + between(0, 20)) * shape.page;
    call.page_table_stride = call.capacity / shape.page + between(0, 7);
  }

  void vary_kv(DecodeCall& call, const DecodeShape& shape) {
    const std::int64_t tokens = call.tokens_per_block(shape);
    call.k = kv_strides(shape, tokens);
    call.v = kv_strides(shape, tokens);
    const std::int64_t layout = between(0, 2);
    if (layout == 0) return;  // a buffer each
    call.v = call.k;
    call.v_offset = layout == 1 ? call.k.block : call.blocks * call.k.block;
    if (layout == 1) call.k.block = call.v.block = 2 * call.k.block;  // a block of keys, then one of values
  }

  const Kernel& kernel_;
  Problem of_;
  std::int64_t longest_;
};

// Families that between them have every kind of paging, masking and narrowing.
inline const char* const kFamilies[] = {
    "batch=4,q_heads=32,kv_heads=8,context=2048",
    "batch=8,q_heads=64,kv_heads=8,head_dim=64,context=1500,page=16,window=128,sinks=learned,lse=natural",
    "batch=16,q_heads=32,kv_heads=4,context=1800,page=64,lengths=ragged,q_len=2",
    "batch=6,q_heads=16,kv_heads=2,context=1000,kv_dtype=e4m3,kv_scale=head,dtype=fp16",
};

}  // namespace moetune
