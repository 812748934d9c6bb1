// Selection by election, for rows of a whole warp whose lanes hold neighbouring experts. Only the experts of kept
// groups are candidates. Each lane sorts its own in lists of four; then kTopK times over the lanes vote with the best
// that each has left, and the lowest of the lanes with the largest vote wins: it has the lowest id. What the winners'
// weights come from waits in shared memory.
//
// Requires what the space keeps to: kExperts is a multiple of the warp, the groups are a power of two, and lanes hold
// 1 to 3 candidates or whole lists of four.
#pragma once

#include "templates/router/groups.cuh"
#include "templates/router/select.cuh"

constexpr bool kElects = kSelect == Select::elect;
constexpr bool kDropsGroups = kGroups > 1;
constexpr int kCandidates = kDropsGroups ? kGroupSize * kGroupsKept : kExperts;
constexpr int kCandidatesOfLane = ceil_div(kCandidates, kWarpSize);
constexpr int kListLength = min_of(kCandidatesOfLane, 4), kLists = kCandidatesOfLane / kListLength;
constexpr int kLanesOfElectedGroup = ceil_div(kWarpSize, kGroups);
static_assert(!kElects || (kLanes == kWarpSize && kExperts % kWarpSize == 0 && kCandidates % kWarpSize == 0 &&
                           kLists * kListLength == kCandidatesOfLane && kWarpSize % kGroups == 0 && kTopK <= 32));

// A byte holds the position of a candidate, or what a lane adds to its first one's.
constexpr bool kBytePositions = kCandidates <= 256;
using Position = Either<kBytePositions, u8, u16>;

// A bias selects by other values than the weights come from; without one the order gives the score.
struct Elected {
  Position candidates[kTopK];
  u32 orders[kBias ? 1 : kTopK];
};

struct __align__(16) Election {
  float scores[kDropsGroups ? kCandidates : 4];  // of the candidates, for their selection
  float values[kBias ? kCandidates : 4];         // logits if scores are selected by them, or scores
  int groups[kDropsGroups ? kGroupsKept : 1];    // those that are kept
  Elected elected;
};

template <int kCount>
constexpr int kFloatsAtOnce = kCount % 4 == 0   ? 4
                              : kCount % 2 == 0 ? 2
                                                : 1;

template <int kCount>
__device__ __forceinline__ void store_floats(float* target, const float (&values)[kCount]) {
  constexpr int kWidth = kFloatsAtOnce<kCount>;
#pragma unroll
  for (int i = 0; i < kCount; i += kWidth) {
    VectorOf<4 * kWidth> vector;
#pragma unroll
    for (int w = 0; w < kWidth; ++w) vector.words[w] = __float_as_uint(values[i + w]);
    store_vector<false>(target + i, vector);
  }
}

template <int kCount>
__device__ __forceinline__ void load_floats(float (&values)[kCount], const float* source) {
  constexpr int kWidth = kFloatsAtOnce<kCount>;
#pragma unroll
  for (int i = 0; i < kCount; i += kWidth) {
    const VectorOf<4 * kWidth> vector = load_vector<4 * kWidth>(source + i);
#pragma unroll
    for (int w = 0; w < kWidth; ++w) values[i + w] = __uint_as_float(vector.words[w]);
  }
}

// The two best of a lane, as a tree.
__device__ __forceinline__ TopTwo top_two_of_lane(const float (&scores)[kHeld]) {
  constexpr int kPairs = ceil_div(kHeld, 2);
  TopTwo tops[kPairs];
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const float first = scores[2 * i], second = 2 * i + 1 < kHeld ? scores[2 * i + 1] : minus_infinity();
    tops[i].best = fmaxf(first, second);
    tops[i].second = fminf(first, second);
  }
#pragma unroll
  for (int stride = 1; stride < kPairs; stride *= 2) {
#pragma unroll
    for (int i = 0; i + stride < kPairs; i += 2 * stride) tops[i].merge(tops[i + stride]);
  }
  return tops[0];
}

// A bit for each lane whose group is kept. Each lane of a group compares it with as many others as it takes.
__device__ __forceinline__ u32 lanes_of_kept_groups(const float (&scores)[kHeld], Lane lane) {
  constexpr int kAcross = kLanesOfElectedGroup, kRounds = ceil_div(kGroups, kAcross);
  const u32 own = top_two_across<kAcross>(top_two_of_lane(scores)).order();
  const int group = lane.lane / kAcross, within = lane.lane % kAcross;
  u32 better = 0;  // a bit a group
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int other = within + r * kAcross;
    const u32 order = __shfl_sync(kWholeWarp, own, other * kAcross % kWarpSize);
    // An order is at least 2, so that one less is still one.
    const bool is_better = order > own - u32(other < group) && (kGroups >= kAcross || other < kGroups);
    const u32 all = __ballot_sync(kWholeWarp, is_better);
    better |= (all >> (group * kAcross) & ((1u << (kAcross % kWarpSize)) - 1)) << (r * kAcross);
  }
  return __ballot_sync(kWholeWarp, __popc(better) < kGroupsKept);
}

// Each lane's candidates: of kept groups they come close together, in ascending order of experts.
__device__ __forceinline__ void share_candidates(float (&candidates)[kCandidatesOfLane], Election& election,
                                                 const float (&scores)[kHeld], const float (&values)[kHeld],
                                                 Lane lane) {
  if constexpr (kDropsGroups) {
    constexpr int kAcross = kLanesOfElectedGroup;
    const u32 kept = lanes_of_kept_groups(scores, lane);
    const int within = lane.lane % kAcross, first_lane = lane.lane - within;
    const int place = __popc(kept & ((1u << first_lane) - 1)) / kAcross;  // of the group among the kept ones
    if (kept >> lane.lane & 1) {
      const int first = place * kGroupSize + within * kHeld;
      store_floats(election.scores + first, scores);
      if constexpr (kBias) store_floats(election.values + first, values);
      if (within == 0) election.groups[place] = lane.lane / kAcross;
    }
    __syncwarp();
    load_floats(candidates, election.scores + lane.lane * kCandidatesOfLane);
  } else {
    if constexpr (kBias) store_floats(election.values + lane.lane * kHeld, values);
#pragma unroll
    for (int i = 0; i < kCandidatesOfLane; ++i) candidates[i] = scores[i];
  }
}

// Candidates of a lane, best first; equals stay in their order, for only neighbours change places.
struct CandidateList {
  u32 orders[kListLength];
  u32 indices;  // a byte each: the low bits of the candidates' positions

  __device__ __forceinline__ void sort(const float* scores, int first) {
    u32 index[kListLength];
#pragma unroll
    for (int i = 0; i < kListLength; ++i) {
      orders[i] = order_of_number(scores[i]);
      index[i] = u32(first + i);
    }
#pragma unroll
    for (int round = 0; round < kListLength; ++round) {
#pragma unroll
      for (int i = round % 2; i + 1 < kListLength; i += 2) {
        const bool swaps = orders[i + 1] > orders[i];
        const u32 larger = max_of(orders[i], orders[i + 1]), smaller = min_of(orders[i], orders[i + 1]);
        const u32 upper = swaps ? index[i + 1] : index[i], lower = swaps ? index[i] : index[i + 1];
        orders[i] = larger;
        orders[i + 1] = smaller;
        index[i] = upper;
        index[i + 1] = lower;
      }
    }
    indices = pack(index);
  }

  __device__ __forceinline__ void drop_first() {
#pragma unroll
    for (int i = 0; i + 1 < kListLength; ++i) orders[i] = orders[i + 1];
    orders[kListLength - 1] = kTaken;
    indices >>= 8;
  }

 private:
  static __device__ __forceinline__ u32 pack(const u32 (&index)[kListLength]) {
    const auto byte = [&](int i) { return i < kListLength ? index[i < kListLength ? i : 0] : 0; };
    const u32 low = __byte_perm(byte(0), byte(1), 0x0040), high = __byte_perm(byte(2), byte(3), 0x0040);
    return __byte_perm(low, high, 0x5410);
  }
};

// The winner's lane says who it was; the lane of the slot reads it afterwards.
__device__ __forceinline__ void elect_candidates(Elected& elected, const float (&candidates)[kCandidatesOfLane],
                                                 Lane lane) {
  const int first = lane.lane * kCandidatesOfLane;
  const u32 lower_lanes = (1u << lane.lane) - 1;
  CandidateList lists[kLists];
#pragma unroll
  for (int l = 0; l < kLists; ++l)
    lists[l].sort(candidates + l * kListLength, (kBytePositions ? first : 0) + l * kListLength);
#pragma unroll
  for (int j = 0; j < kTopK; ++j) {
    u32 own = lists[0].orders[0];
#pragma unroll
    for (int l = 1; l < kLists; ++l) own = max_of(own, lists[l].orders[0]);
    const u32 best = __reduce_max_sync(kWholeWarp, own);
    const u32 equal = __ballot_sync(kWholeWarp, own == best);
    bool wins = own == best && (equal & lower_lanes) == 0;
    if constexpr (!kBias) {
      if (wins) elected.orders[j] = best;
    }
#pragma unroll
    for (int l = 0; l < kLists; ++l) {  // of a lane's equals the first list has the lower id
      const bool takes = wins && lists[l].orders[0] == best;
      if (takes) {
        elected.candidates[j] = Position((kBytePositions ? 0 : u32(first)) + (lists[l].indices & 0xff));
        lists[l].drop_first();
      }
      wins = wins && !takes;
    }
  }
}

// The j-th best of the row and its score in lane j.
__device__ __forceinline__ void select_by_election(Selected& selected, const float (&logits)[kHeld],
                                                   const RowSoftmax& row, const float (&bias)[kHeld], Lane lane) {
  __shared__ Election elections[kWarps];
  Election& election = elections[int(threadIdx.x) / kWarpSize];
  float scores[kHeld], values[kHeld], candidates[kCandidatesOfLane];
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    values[i] = kByLogit ? logits[i] : score_of(logits[i], row);
    scores[i] = biased(values[i], bias[i]);
  }
  share_candidates(candidates, election, scores, values, lane);
  elect_candidates(election.elected, candidates, lane);
  __syncwarp();
  RowSoftmax softmax = row;
  if constexpr (kShiftIsFirst) softmax.shift = softmax_shift(score_of_order(election.elected.orders[0]));
  selected = {};
  if (lane.lane < kTopK) {
    const int position = election.elected.candidates[lane.lane];
    selected.experts[0] =
        kDropsGroups ? election.groups[position / kGroupSize] * kGroupSize + position % kGroupSize : position;
    const float value =
        kBias ? election.values[position] : score_of_order(election.elected.orders[kBias ? 0 : lane.lane]);
    selected.scores[0] = kByLogit ? score_of(value, softmax) : value;
  }
  __syncwarp();  // the next row's may overwrite it
}
