// The plain version of counts, offsets and permutations, for the references of the router and of route_plan: a thread
// an expert. `segments(slot)` gives a slot's segment, or -1.
//
// Macros: those of segments.cuh.
#pragma once

#include "templates/router/segments.cuh"

struct ReferencePlaces {
  int* counts;
  int* offsets;
  int* sorted;
  int* inverse;
  int* grouping;
  u8* dropped;
  int slots, capacity, places;

  template <typename Segments>
  __device__ void count(const Segments& segments, int expert) const {
    int count = 0;
    for (int s = 0; s < slots; ++s) count += segments(s) == expert;
    counts[expert] = min(count, capacity);
  }

  // Comes after all are counted. One block calls it.
  __device__ void lay_out() const {
    for (int p = threadIdx.x; p < places; p += blockDim.x) {
      sorted[p] = slots;
      if (kGrouping == Grouping::rows) grouping[p] = -1;
    }
    if (threadIdx.x > 0 || kSegment > 0) return;
    offsets[0] = 0;
    for (int e = 0; e < kExperts; ++e) {
      offsets[e + 1] = offsets[e] + padded(counts[e]);
      if (kGrouping == Grouping::ends) grouping[e] = offsets[e + 1];
    }
    if (kGrouping != Grouping::blocks) return;
    for (int e = 0; e < kExperts; ++e) {
      for (int b = offsets[e] / kAlign; b < offsets[e + 1] / kAlign; ++b) grouping[b] = e;
    }
    for (int b = offsets[kExperts] / kAlign; b < places / kAlign; ++b) grouping[b] = -1;
  }

  // Comes after the layout.
  template <typename Segments>
  __device__ void place(const Segments& segments, int expert) const {
    const int begin = kSegment > 0 ? expert * kSegment : offsets[expert];
    int count = 0;
    for (int s = 0; s < slots; ++s) {
      const int segment = segments(s);
      if (segment < 0 && expert == 0) {
        inverse[s] = -1;
        if (kDropped) dropped[s] = 0;
      }
      if (segment != expert) continue;
      const bool fits = count < capacity;
      inverse[s] = fits ? begin + count : -1;
      if (kDropped) dropped[s] = !fits;
      if (fits) sorted[begin + count] = s;
      if (fits && kGrouping == Grouping::rows) grouping[begin + count] = expert;
      ++count;
    }
  }
};
