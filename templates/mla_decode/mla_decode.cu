// Attention of the newest 1 to 4 tokens of a sequence over a latent (multi-head latent attention): all heads share one
// key of 576 values, whose first 512 are the value. A block takes some packed rows (queries and heads) and a part of
// the tokens, with SPANS one part after another; a second launch puts the parts together.
#if RELAY
#include "templates/mla_decode/body_relay.cuh"
#else
#include "templates/mla_decode/body_mma.cuh"
#endif
#if SPANS
#include "templates/mla_decode/body_spans.cuh"
#include "templates/mla_decode/combine_spans.cuh"
#else
#include "templates/mla_decode/combine.cuh"
#endif

#if GATHERS
extern "C" __global__ void __launch_bounds__(kBlockThreads, 1)
    mla_decode_rows(const Element* q, const u8* kv, const float* kv_scale, const float* group_scales,
                    const Element* rope, const i32* pages, const i32* indices, const i32* lengths, Element* o,
                    float* lse, float* partial_o, float* partial_lse, i64 q_sequence, i64 q_token, i64 q_head,
                    i64 kv_page, i64 kv_token, i64 scales_page, i64 scales_token, i64 rope_page, i64 rope_token,
                    i64 o_sequence, i64 o_token, i64 o_head, i64 page_row, int capacity, int span, float scale) {
  u8* const shared = dynamic_shared();
  begin(shared);
  wait_for_predecessor();
  allow_dependent_launch();
  const Work work(blockIdx.x * kRows, blockIdx.y, blockIdx.z, lengths, capacity, span);
  if (work.is_idle()) return;
  const TokenRows rows = {
      kv,          kGroups ? group_scales : kv_scale,
      rope,        kChosen ? indices + static_cast<i64>(work.sequence) * capacity : pages + work.sequence * page_row,
      kv_page,     kv_token,
      scales_page, scales_token,
      rope_page,   rope_token};
  attend_rows(shared, q, {q_sequence, q_token, q_head}, rows, work,
              {o, lse, partial_o, partial_lse, {o_sequence, o_token, o_head}}, scale);
}
#endif

#if !SPANS
// The second launch of a grid of splits: one block a packed row.
extern "C" __global__ void __launch_bounds__(128)
    mla_decode_combine(const float* partial_o, const float* partial_lse, const i32* lengths, Element* o, float* lse,
                       i64 o_sequence, i64 o_token, i64 o_head, int capacity, int span, int splits) {
  wait_for_predecessor();
  allow_dependent_launch();
  const Work work(blockIdx.x, 0, blockIdx.y, lengths, capacity, span);
  if (work.splits == 1) return;  // the only block wrote the result itself
  const i64 first = work.global_row(0) * splits;
  const u32 column = threadIdx.x * 4;
  Combined<4, 2> row;
  row.add(partial_o + first * kLatent + column, partial_lse + first, work.splits, [](int split) { return split; });
  row.store(o + work.offset({o_sequence, o_token, o_head}, 0) + column);
  if (kWantsLse && threadIdx.x == 0) lse[work.global_row(0)] = row.logarithm();
}
#endif
