// How a persistent grid shares the tiles of all sequences out: block b of `blocks` takes the b-th of as many
// contiguous spans, which differ by one tile at most. Plain arithmetic that the host's tests compile too.
//
// Tiles are counted through: sequence by sequence, its KV heads one after another, the tiles of a head in
// order. An item is one head of one sequence, and a segment is what a span holds of an item. Only the first and
// the last segment of a span can be less than their item, so two slots a block hold all partial results; and
// at most one item that others must help with begins in a span, so one counter a block is enough.
#pragma once

#ifdef __CUDACC__
#define SPANS_FUNCTION __host__ __device__ __forceinline__ constexpr
#else
#define SPANS_FUNCTION constexpr
#endif

// If there are fewer tiles than blocks, the last blocks have none.
struct Spans {
  int tiles;
  int least;   // of a span
  int longer;  // how many of the first spans have one more

  SPANS_FUNCTION Spans(int all_tiles, int blocks)
      : tiles(all_tiles), least(all_tiles / blocks), longer(all_tiles % blocks) {}

  SPANS_FUNCTION int begin(int block) const { return block * least + (block < longer ? block : longer); }
  SPANS_FUNCTION int end(int block) const { return begin(block + 1); }

  // The block whose span holds a tile.
  SPANS_FUNCTION int block_of(int tile) const {
    const int border = longer * (least + 1);
    return tile < border ? tile / (least + 1) : longer + (tile - border) / least;
  }
};

// The segments of one item: those of blocks first_block, first_block + 1, ...
struct ItemSplits {
  int first_block;
  int count;
  int first_slot;

  // The splits of the item whose tiles are [begin, end).
  SPANS_FUNCTION ItemSplits(const Spans& spans, int begin, int end)
      : first_block(spans.block_of(begin)),
        count(spans.block_of(end - 1) - first_block + 1),
        first_slot(2 * first_block + (spans.begin(first_block) < begin ? 1 : 0)) {}

  // The slot of split `split`, of 2 * blocks.
  SPANS_FUNCTION int slot(int split) const { return split == 0 ? first_slot : 2 * (first_block + split); }
};

// A walk over the segments of one span. It begins inside a sequence, and is told how many tiles a head has in
// each sequence that it comes to.
struct Walk {
  int sequence;
  int head;
  int tile;   // the segment's first, within its head
  int tiles;  // of a head of this sequence; at least 1
  int at;     // the segment's first, counted through
  int end;    // of the span

  // From tile `first` on, where the tiles of `sequence` begin with `sequence_begin`.
  SPANS_FUNCTION void start(int first, int span_end, int first_sequence, int sequence_begin, int head_tiles) {
    sequence = first_sequence;
    tiles = head_tiles;
    head = (first - sequence_begin) / head_tiles;
    tile = (first - sequence_begin) % head_tiles;
    at = first;
    end = span_end;
  }

  SPANS_FUNCTION bool done() const { return at >= end; }
  SPANS_FUNCTION int segment() const { return tiles - tile < end - at ? tiles - tile : end - at; }
  SPANS_FUNCTION bool whole() const { return tile == 0 && segment() == tiles; }
  SPANS_FUNCTION ItemSplits splits(const Spans& spans) const { return {spans, at - tile, at - tile + tiles}; }

  // On to the next segment; true where that is of the next sequence, whose head_tiles are to be set then.
  SPANS_FUNCTION bool advance(int heads) {
    at += segment();
    tile = 0;
    if (++head < heads) return false;
    head = 0;
    ++sequence;
    return true;
  }
};
