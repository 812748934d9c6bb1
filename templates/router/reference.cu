// The plain version of the router: a thread a token, then a thread an expert.
//
// Macros: those of shape.cuh.
#include "templates/router/reference_places.cuh"
#include "templates/router/score.cuh"

namespace {

struct Row {
  const Logit* logits;
  const float* bias;
  RowSoftmax softmax;

  __device__ float logit(int expert) const { return read_logit(logits[expert]); }
  __device__ float selection(int expert) const {
    return selection_score(logit(expert), softmax, kBias ? clean_bias(bias[expert]) : 0.0f);
  }
};

__device__ float sum_of_exponentials(const Row& row) {
  float partials[kPartials] = {};
  for (int e = 0; e < kExperts; ++e)
    partials[e % kPartials] = __fadd_rn(partials[e % kPartials], exponential(row.logit(e), row.softmax.shift));
  for (int half = kPartials / 2; half > 0; half /= 2) {
    for (int p = 0; p < half; ++p) partials[p] = __fadd_rn(partials[p], partials[p + half]);
  }
  return partials[0];
}

__device__ RowSoftmax softmax_of(const Row& row) {
  RowSoftmax softmax;
  float maximum = minus_infinity();
  for (int e = 0; e < kExperts; ++e) maximum = fmaxf(maximum, row.logit(e));
  softmax.shift = softmax_shift(maximum);
  Row with_shift = row;
  with_shift.softmax = softmax;
  if constexpr (kNeedsSum) {
    const float sum = sum_of_exponentials(with_shift);
    softmax.inverse_sum = sum > 0.0f ? reciprocal_fast(sum) : 0.0f;
  }
  return softmax;
}

// The sum of a group's two best selection scores.
__device__ float group_score(const Row& row, int group) {
  float best = minus_infinity(), second = minus_infinity();
  for (int e = group * kGroupSize; e < (group + 1) * kGroupSize; ++e) {
    const float score = row.selection(e);
    if (score > best) {
      second = best;
      best = score;
    } else if (score > second) {
      second = score;
    }
  }
  return kGroupSize > 1 ? __fadd_rn(best, second) : best;
}

// Whether fewer than kGroupsKept groups are better.
__device__ bool keeps(const Row& row, int group) {
  if constexpr (kGroups == 1) return true;
  const u64 own = rank_of(order_of(group_score(row, group)), group);
  int better = 0;
  for (int g = 0; g < kGroups; ++g) better += rank_of(order_of(group_score(row, g)), g) > own;
  return better < kGroupsKept;
}

// In the order of score.cuh.
__device__ float sum_of_scores(const float (&scores)[kSlotsOfSum]) {
  float sums[kSlotsOfSum];
  for (int j = 0; j < kSlotsOfSum; ++j) sums[j] = scores[j];
  for (int distance = 1; distance < kSlotsOfSum; distance *= 2) {
    for (int j = 0; j + distance < kSlotsOfSum; j += 2 * distance) sums[j] = __fadd_rn(sums[j], sums[j + distance]);
  }
  return sums[0];
}

}  // namespace

extern "C" __global__ void router_reference(const Logit* logits, const float* bias, const int* token_count, Id* ids,
                                            float* weights, i64 logits_row, int tokens, float scale) {
  const int token = blockIdx.x * blockDim.x + threadIdx.x;
  if (token >= tokens) return;
  if (token >= live_tokens(tokens, token_count)) {
    for (int j = 0; j < kTopK; ++j) {
      ids[i64(token) * kTopK + j] = -1;
      weights[i64(token) * kTopK + j] = 0;
    }
    return;
  }
  Row row{logits + token * logits_row, bias, {}};
  if constexpr (kScore == Score::softmax || kScore == Score::topk_softmax) row.softmax = softmax_of(row);
  u32 kept = 0;  // a bit a group
  for (int g = 0; g < kGroups; ++g) kept |= u32(keeps(row, g)) << g;
  u64 last = ~0ull;
  float scores[kSlotsOfSum] = {};
  for (int j = 0; j < kTopK; ++j) {
    u64 best = 0;
    for (int e = 0; e < kExperts; ++e) {
      const u32 order = kept >> (e / kGroupSize) & 1 ? order_of(row.selection(e)) : kOfDroppedGroup;
      const u64 rank = rank_of(order, e);
      if (rank < last && rank > best) best = rank;
    }
    last = best;
    const int expert = int(expert_of(best));
    ids[i64(token) * kTopK + j] = expert;
    scores[j] = score_of(row.logit(expert), row.softmax);
  }
  const float sum = sum_of_scores(scores);
  for (int j = 0; j < kTopK; ++j) weights[i64(token) * kTopK + j] = weight_of(scores[j], sum, scale);
}

#if PLAN || RANKS
extern "C" __global__ void router_reference_counts(const Id* ids, const int* expert_map, int* counts, int tokens,
                                                   int capacity) {
  const ReferencePlaces a{counts, nullptr, nullptr, nullptr, nullptr, nullptr, tokens * kTopK, capacity, 0};
  const int expert = blockIdx.x * blockDim.x + threadIdx.x;
  if (expert < kExperts) a.count(RoutedSegments{ids, expert_map}, expert);
}
#endif

#if PLAN
// One block.
extern "C" __global__ void router_reference_offsets(int* counts, int* offsets, int* sorted, int* grouping, int tokens,
                                                    int places) {
  const ReferencePlaces a{counts, offsets, sorted, nullptr, grouping, nullptr, tokens * kTopK, 0, places};
  a.lay_out();
}

extern "C" __global__ void router_reference_places(const Id* ids, const int* expert_map, int* offsets, int* sorted,
                                                   int* inverse, int* grouping, u8* dropped, int tokens, int capacity) {
  const ReferencePlaces a{nullptr, offsets, sorted, inverse, grouping, dropped, tokens * kTopK, capacity, 0};
  const int expert = blockIdx.x * blockDim.x + threadIdx.x;
  if (expert < kExperts) a.place(RoutedSegments{ids, expert_map}, expert);
}
#endif

#if RANKS
extern "C" __global__ void router_reference_ranks(const Id* ids, int* tokens_per_rank, u8* in_rank, int tokens) {
  const int rank = blockIdx.x * blockDim.x + threadIdx.x;
  if (rank >= kRanks) return;
  int count = 0;
  for (int t = 0; t < tokens; ++t) {
    bool is_in = false;
    for (int j = 0; j < kTopK; ++j) {
      const int expert = int(ids[i64(t) * kTopK + j]);
      is_in |= expert >= 0 && expert / (kExperts / kRanks) == rank;
    }
    in_rank[i64(t) * kRanks + rank] = is_in;
    count += is_in;
  }
  tokens_per_rank[rank] = count;
}
#endif
