// Attention of the newest 1 to 4 tokens of a sequence over a latent (multi-head latent attention): all heads share one
// key of 576 values, whose first 512 are the value. A block takes some packed rows (queries and heads) and a part of
// the tokens, with SPANS one part after another; a second launch puts the parts together.
#if RELAY
#include "templates/mla_decode/body_relay.cuh"
#else
#include "templates/mla_decode/body_mma.cuh"
#endif
#if GATHERS
#include "templates/mla_decode/rows.cuh"
#endif

#if SPANS
#include "templates/mla_decode/body_spans.cuh"
#include "templates/mla_decode/combine_spans.cuh"
#else
#include "templates/mla_decode/combine_grid.cuh"
#endif
