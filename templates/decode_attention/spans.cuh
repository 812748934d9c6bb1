// How a persistent grid cuts the tiles of all sequences into contiguous spans: an equal one for each block to
// begin with, and from the last eighth small equal ones for whichever block is free. (Blocks that do the same
// work take unequal times: some SMs are served faster than others.) Plain arithmetic that the host's tests
// compile too.
//
// Tiles are counted through: sequence by sequence, its KV heads one after another, the tiles of a head in
// order. An item is one head of one sequence, and a piece is what a span holds of an item. Only the first and
// the last piece of a span can be less than their item, so two slots a span hold all partial results; and
// at most one item that others must help with begins in a span, so one counter a span is enough.
#pragma once

#ifdef __CUDACC__
#define SPANS_FUNCTION __host__ __device__ __forceinline__ constexpr
#else
#define SPANS_FUNCTION constexpr
#endif

// `tiles` in `parts` that differ by one tile at most; where tiles are fewer, the last parts have none.
struct EvenCut {
  int least;
  int longer;  // how many of the first parts have one more

  SPANS_FUNCTION EvenCut(int tiles, int parts)
      : least(parts > 0 ? tiles / parts : 0), longer(parts > 0 ? tiles % parts : 0) {}

  SPANS_FUNCTION int begin(int part) const { return part * least + (part < longer ? part : longer); }

  SPANS_FUNCTION int part_of(int tile) const {
    const int border = longer * (least + 1);
    return tile < border ? tile / (least + 1) : longer + (tile - border) / least;
  }
};

struct Spans {
  int tiles;
  int blocks;  // spans 0 to blocks - 1 are the blocks' own
  int shared_tiles;
  EvenCut own;
  EvenCut shared;

  // No span lies between tiles without having one: few tiles are all the blocks' own.
  SPANS_FUNCTION Spans(int all_tiles, int all_blocks, int shared_spans)
      : tiles(all_tiles),
        blocks(all_blocks),
        shared_tiles(shared_spans == 0 || all_tiles < 2 * all_blocks ? 0 : all_tiles / 8),
        own(all_tiles - shared_tiles, all_blocks),
        shared(shared_tiles, shared_spans) {}

  SPANS_FUNCTION int begin(int span) const {
    return span < blocks ? own.begin(span) : tiles - shared_tiles + shared.begin(span - blocks);
  }
  SPANS_FUNCTION int end(int span) const { return begin(span + 1); }

  // The span that holds a tile.
  SPANS_FUNCTION int span_of(int tile) const {
    const int own_tiles = tiles - shared_tiles;
    return tile < own_tiles ? own.part_of(tile) : blocks + shared.part_of(tile - own_tiles);
  }
};

// The pieces of one item: those of spans first_span, first_span + 1, ...
struct Parts {
  int first_span;
  int count;
  int first_slot;

  // Of the item whose tiles are [begin, end).
  SPANS_FUNCTION Parts(const Spans& spans, int begin, int end)
      : first_span(spans.span_of(begin)),
        count(spans.span_of(end - 1) - first_span + 1),
        first_slot(2 * first_span + (spans.begin(first_span) < begin ? 1 : 0)) {}

  // Where part `part` lies among the slots, two a span.
  SPANS_FUNCTION int slot(int part) const { return part == 0 ? first_slot : 2 * (first_span + part); }
};

// A walk over the pieces of one span. It begins inside a sequence, and is told how many tiles a head has in
// each sequence that it comes to.
struct Walk {
  int sequence;
  int head;
  int tile;   // the piece's first, within its head
  int tiles;  // of a head of this sequence; at least 1
  int at;     // the piece's first, counted through
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
  SPANS_FUNCTION int piece() const { return tiles - tile < end - at ? tiles - tile : end - at; }
  SPANS_FUNCTION bool whole() const { return tile == 0 && piece() == tiles; }
  SPANS_FUNCTION Parts parts(const Spans& spans) const { return {spans, at - tile, at - tile + tiles}; }

  // On to the next piece; true where that is of the next sequence, whose head_tiles are to be set then.
  SPANS_FUNCTION bool advance(int heads) {
    at += piece();
    tile = 0;
    if (++head < heads) return false;
    head = 0;
    ++sequence;
    return true;
  }
};
