// The entry point of configurations that gather rows (GATHERS).
#pragma once

#include "templates/common/dependent_launch.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/mla_decode/gather.cuh"

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
