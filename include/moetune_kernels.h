/* Defines each kernel's arguments: the order of its tensors (slots) and of its call's fields in a moetune_arguments.
 * moetune.h includes this header. Layouts are row-major, shapes in brackets, strides in elements. Numbers never change:
 * later versions add slots at the end. */
#ifndef MOETUNE_KERNELS_H_
#define MOETUNE_KERNELS_H_

/* decode_attention's slots. `heads` is q heads in all, `group` q heads a KV head. */
enum {
  MOETUNE_DECODE_Q = 0,          /* [batch, q_len, heads, head_dim], or without q_len if it is 1 */
  MOETUNE_DECODE_K = 1,          /* [pages, page, kv_heads, head_dim] or heads before page; no pages: [batch, ...] */
  MOETUNE_DECODE_V = 2,          /* as K, with strides of its own */
  MOETUNE_DECODE_PAGE_TABLE = 3, /* i32 [batch, columns]; any entries past a length; NULL without pages */
  MOETUNE_DECODE_LENGTHS = 4,    /* i32 [batch], new tokens included; 0 gives o = 0 and lse = -inf */
  MOETUNE_DECODE_O = 5,          /* as Q */
  MOETUNE_DECODE_LSE = 6,        /* f32 [batch, q_len, heads], contiguous; if the family has lse */
  MOETUNE_DECODE_SINKS = 7,      /* f32 [heads]; if the family has sinks */
  MOETUNE_DECODE_K_SCALE = 8,    /* f32, one or one a KV head; if the family's KV is e4m3 */
  MOETUNE_DECODE_V_SCALE = 9
};

/* decode_attention's call: strides in elements, each a multiple of 16 bytes. */
enum {
  MOETUNE_DECODE_Q_SEQUENCE_STRIDE = 0,
  MOETUNE_DECODE_Q_TOKEN_STRIDE = 1,
  MOETUNE_DECODE_Q_HEAD_STRIDE = 2,
  MOETUNE_DECODE_O_SEQUENCE_STRIDE = 3,
  MOETUNE_DECODE_O_TOKEN_STRIDE = 4,
  MOETUNE_DECODE_O_HEAD_STRIDE = 5,
  MOETUNE_DECODE_K_BLOCK_STRIDE = 6, /* from a page to the next; without pages from a sequence to the next */
  MOETUNE_DECODE_K_HEAD_STRIDE = 7,
  MOETUNE_DECODE_K_TOKEN_STRIDE = 8,
  MOETUNE_DECODE_V_BLOCK_STRIDE = 9,
  MOETUNE_DECODE_V_HEAD_STRIDE = 10,
  MOETUNE_DECODE_V_TOKEN_STRIDE = 11,
  MOETUNE_DECODE_V_OFFSET = 12,          /* 0: V has an address of its own */
  MOETUNE_DECODE_BLOCKS = 13,            /* pages in the pool, or sequences that K and V have room for */
  MOETUNE_DECODE_CAPACITY = 14,          /* tokens that a sequence has room for; lengths are cut to it */
  MOETUNE_DECODE_PAGE_TABLE_STRIDE = 15, /* entries from a row of the page table to the next */
  /* 1: no launch that may still run when this one begins writes lengths, page table, or keys and values of any tokens
   * but the newest q_len of each sequence, so that they may be read before it ends (docs/decode_attention.md) */
  MOETUNE_DECODE_KV_SETTLED = 16,
  MOETUNE_DECODE_SCALE = 0 /* reals[0]: of q.k before the softmax */
};

/* router's slots, all contiguous except for rows of logits (docs/router.md has the layouts). */
enum {
  MOETUNE_ROUTER_LOGITS = 0,           /* [tokens, experts] */
  MOETUNE_ROUTER_BIAS = 1,             /* f32 [experts]; if the family has bias=correction */
  MOETUNE_ROUTER_IDS = 2,              /* i32 [tokens, top_k]; i64 if the family has ids=i64 */
  MOETUNE_ROUTER_WEIGHTS = 3,          /* f32 [tokens, top_k] */
  MOETUNE_ROUTER_COUNTS = 4,           /* i32 [experts]; if the family has outputs=plan or outputs=ranks */
  MOETUNE_ROUTER_OFFSETS = 5,          /* i32 [experts + 1]; of outputs=plan, except for layout=masked */
  MOETUNE_ROUTER_SORTED = 6,           /* i32 [places]; of outputs=plan */
  MOETUNE_ROUTER_INVERSE = 7,          /* i32 [tokens, top_k]; of outputs=plan */
  MOETUNE_ROUTER_BLOCK_EXPERTS = 8,    /* i32 [places / align]; of layout=blocks */
  MOETUNE_ROUTER_EXPERT_MAP = 9,       /* i32 [experts]; if the family has map=local */
  MOETUNE_ROUTER_TOKEN_COUNT = 10,     /* i32 [1]; if the family has count=device */
  MOETUNE_ROUTER_ROW_EXPERTS = 11,     /* i32 [places]; of layout=rows */
  MOETUNE_ROUTER_ENDS = 12,            /* i32 [experts]; of layout=ends */
  MOETUNE_ROUTER_DROPPED = 13,         /* u8 [tokens, top_k]; if the family has dropped=mask */
  MOETUNE_ROUTER_TOKENS_PER_RANK = 14, /* i32 [ranks]; of outputs=ranks */
  MOETUNE_ROUTER_IN_RANK = 15          /* u8 [tokens, ranks]; of outputs=ranks */
};

/* router's call. */
enum {
  MOETUNE_ROUTER_LOGITS_ROW = 0, /* elements from a token's logits to the next token's */
  MOETUNE_ROUTER_SCALE = 0       /* reals[0]: factor of all weights */
};

/* route_plan's slots, all contiguous (docs/router.md has the layouts). Experts are those of this GPU. */
enum {
  MOETUNE_ROUTE_PLAN_IDS = 0,           /* i32 [tokens, top_k]; i64 if the family has ids=i64 */
  MOETUNE_ROUTE_PLAN_EXPERT_MAP = 1,    /* i32, any number of experts; if the family has map=local */
  MOETUNE_ROUTE_PLAN_TOKEN_COUNT = 2,   /* i32 [1]; if the family has count=device */
  MOETUNE_ROUTE_PLAN_COUNTS = 3,        /* i32 [experts] */
  MOETUNE_ROUTE_PLAN_OFFSETS = 4,       /* i32 [experts + 1]; except for layout=masked */
  MOETUNE_ROUTE_PLAN_SORTED = 5,        /* i32 [places] */
  MOETUNE_ROUTE_PLAN_INVERSE = 6,       /* i32 [tokens, top_k] */
  MOETUNE_ROUTE_PLAN_BLOCK_EXPERTS = 7, /* i32 [places / align]; of layout=blocks */
  MOETUNE_ROUTE_PLAN_ROW_EXPERTS = 8,   /* i32 [places]; of layout=rows */
  MOETUNE_ROUTE_PLAN_ENDS = 9,          /* i32 [experts]; of layout=ends */
  MOETUNE_ROUTE_PLAN_DROPPED = 10       /* u8 [tokens, top_k]; if the family has dropped=mask */
};

/* route_plan's call. */
enum {
  MOETUNE_ROUTE_PLAN_MAP_SIZE = 0 /* entries of the expert map; 0 without one */
};

/* moe_dispatch's slots, all contiguous except for rows of x (docs/router.md has the layouts). */
enum {
  MOETUNE_MOE_DISPATCH_X = 0,       /* bf16 [tokens, hidden] */
  MOETUNE_MOE_DISPATCH_SORTED = 1,  /* i32 [places], as the router writes it */
  MOETUNE_MOE_DISPATCH_INVERSE = 2, /* i32 [tokens, top_k], likewise */
  MOETUNE_MOE_DISPATCH_ROWS = 3,    /* bf16 or e4m3 [places, hidden] */
  MOETUNE_MOE_DISPATCH_SCALES = 4   /* f32; if the family has out=e4m3 */
};

/* moe_dispatch's call. */
enum {
  MOETUNE_MOE_DISPATCH_X_ROW = 0, /* elements from a token's row of x to the next token's */
  MOETUNE_MOE_DISPATCH_PLACES = 1 /* rows that are written */
};

/* moe_combine's slots, all contiguous except for rows of out. */
enum {
  MOETUNE_MOE_COMBINE_ROWS = 0,    /* bf16 [places, hidden] */
  MOETUNE_MOE_COMBINE_INVERSE = 1, /* i32 [tokens, top_k], as the router writes it */
  MOETUNE_MOE_COMBINE_WEIGHTS = 2, /* f32 [tokens, top_k] */
  MOETUNE_MOE_COMBINE_OUT = 3      /* bf16 [tokens, hidden] */
};

/* moe_combine's call. */
enum {
  MOETUNE_MOE_COMBINE_OUT_ROW = 0, /* elements from a token's row of out to the next token's */
  MOETUNE_MOE_COMBINE_PLACES = 1   /* rows that there are */
};

/* add_rmsnorm's slots (docs/small_operations.md). Values of a row lie side by side; rows may lie apart. RESIDUAL_OUT
 * may be RESIDUAL or X, and OUT may be X. */
enum {
  MOETUNE_ADD_RMSNORM_X = 0,            /* bf16 or fp16 [tokens, hidden] */
  MOETUNE_ADD_RMSNORM_RESIDUAL = 1,     /* as X; if the family has residual=yes */
  MOETUNE_ADD_RMSNORM_WEIGHT = 2,       /* [hidden] of X's type */
  MOETUNE_ADD_RMSNORM_OUT = 3,          /* as X, or e4m3 if the family has out=e4m3 */
  MOETUNE_ADD_RMSNORM_SCALES = 4,       /* f32 [tokens, hidden / 128], or [tokens, 1] with scale=token; of out=e4m3 */
  MOETUNE_ADD_RMSNORM_RESIDUAL_OUT = 5, /* as X; if the family has residual=yes */
  MOETUNE_ADD_RMSNORM_STATIC_SCALE = 6  /* f32 [1], in place of SCALES; with scale=static */
};

/* add_rmsnorm's call: elements from a token's row to the next token's, and of its reals the first. */
enum {
  MOETUNE_ADD_RMSNORM_X_ROW = 0,
  MOETUNE_ADD_RMSNORM_RESIDUAL_ROW = 1,
  MOETUNE_ADD_RMSNORM_OUT_ROW = 2,
  MOETUNE_ADD_RMSNORM_RESIDUAL_OUT_ROW = 3
};
enum { MOETUNE_ADD_RMSNORM_EPS = 0 };

/* qk_norm_rope's slots (docs/small_operations.md). Values of a head lie side by side. Q and K may lie in QKV. */
enum {
  MOETUNE_QK_NORM_ROPE_QKV = 0,      /* bf16 or fp16 [tokens, (q_heads + 2 * kv_heads) * head_dim] */
  MOETUNE_QK_NORM_ROPE_Q_WEIGHT = 1, /* [head_dim] of QKV's type; unless the family has norm=no */
  MOETUNE_QK_NORM_ROPE_K_WEIGHT = 2, /* likewise */
  MOETUNE_QK_NORM_ROPE_COS = 3,      /* f32, bf16 or fp16 [tokens, rotary_dim / 2] */
  MOETUNE_QK_NORM_ROPE_SIN = 4,      /* likewise */
  MOETUNE_QK_NORM_ROPE_SLOTS = 5,    /* i64 [tokens], negative for none; of kv=pages */
  MOETUNE_QK_NORM_ROPE_Q = 6,        /* [tokens, q_heads, head_dim] of QKV's type */
  MOETUNE_QK_NORM_ROPE_K = 7,        /* [tokens, kv_heads, head_dim]; of kv=rows */
  MOETUNE_QK_NORM_ROPE_K_CACHE = 8,  /* [pages, page, kv_heads, head_dim] of QKV's type or e4m3; of kv=pages */
  MOETUNE_QK_NORM_ROPE_V_CACHE = 9,  /* likewise */
  MOETUNE_QK_NORM_ROPE_K_SCALE = 10, /* f32 [1], or [kv_heads] of kv_scale=head; of kv_dtype=e4m3 */
  MOETUNE_QK_NORM_ROPE_V_SCALE = 11  /* likewise */
};
enum { MOETUNE_QK_NORM_ROPE_EPS = 0 }; /* of the call's reals */

/* act_mul's slots (docs/small_operations.md). Values of a row lie side by side; rows may lie apart. */
enum {
  MOETUNE_ACT_MUL_X = 0,     /* bf16 or fp16 [tokens, 2 * intermediate] */
  MOETUNE_ACT_MUL_OUT = 1,   /* [tokens, intermediate] of X's type, or e4m3 if the family has out=e4m3 */
  MOETUNE_ACT_MUL_SCALES = 2 /* f32 [tokens, intermediate / 128 rounded up]; of out=e4m3 */
};

/* mla_decode's slots (docs/mla_decode.md). Values of a row lie side by side. */
enum {
  MOETUNE_MLA_DECODE_Q = 0,            /* bf16 or fp16 [batch, queries, heads, 576] */
  MOETUNE_MLA_DECODE_KV = 1,           /* [pages, page, 576] of Q's type or e4m3; 512 of a family with kv_scale=group */
  MOETUNE_MLA_DECODE_PAGE_TABLE = 2,   /* i32 [batch, context / page rounded up]; with tokens=all */
  MOETUNE_MLA_DECODE_LENGTHS = 3,      /* i32 [batch], new tokens included; cut to the context; with tokens=all */
  MOETUNE_MLA_DECODE_O = 4,            /* [batch, queries, heads, 512] of Q's type */
  MOETUNE_MLA_DECODE_LSE = 5,          /* f32 [batch, queries, heads]; if the family has lse=yes */
  MOETUNE_MLA_DECODE_KV_SCALE = 6,     /* f32 [1]; of KV in e4m3 with kv_scale=tensor */
  MOETUNE_MLA_DECODE_GROUP_SCALES = 7, /* f32 [pages, page, 4]; with kv_scale=group */
  MOETUNE_MLA_DECODE_ROPE = 8,         /* [pages, page, 64] of Q's type; with kv_scale=group */
  MOETUNE_MLA_DECODE_INDICES = 9       /* i32 [batch, queries, context]: page * size + place, or negative for none; with
                                          tokens=chosen. Nothing checks that they are the pool's */
};

/* mla_decode's call: elements from one to the next, and of its reals the first. */
enum {
  MOETUNE_MLA_DECODE_Q_SEQUENCE = 0,
  MOETUNE_MLA_DECODE_Q_TOKEN = 1,
  MOETUNE_MLA_DECODE_Q_HEAD = 2,
  MOETUNE_MLA_DECODE_KV_PAGE = 3,
  MOETUNE_MLA_DECODE_KV_TOKEN = 4,
  MOETUNE_MLA_DECODE_PAGE_ROW = 5,
  MOETUNE_MLA_DECODE_O_SEQUENCE = 6,
  MOETUNE_MLA_DECODE_O_TOKEN = 7,
  MOETUNE_MLA_DECODE_O_HEAD = 8,
  MOETUNE_MLA_DECODE_SCALES_PAGE = 9,
  MOETUNE_MLA_DECODE_SCALES_TOKEN = 10,
  MOETUNE_MLA_DECODE_ROPE_PAGE = 11,
  MOETUNE_MLA_DECODE_ROPE_TOKEN = 12
};
enum { MOETUNE_MLA_DECODE_SCALE = 0 };

/* kv_transfer's slots (docs/kv_transfer.md). Values of a row lie side by side. SOURCE and TARGET do not overlap. Their
 * addresses may be of this GPU, of pinned memory that it maps, or of a GPU to which the context has access. An end
 * without a list has PAGES pages at least, which nothing checks, nor that listed pages are the pool's. */
enum {
  MOETUNE_KV_TRANSFER_SOURCE = 0,       /* bf16, fp16 or e4m3 [pages, planes, outer, inner, width] */
  MOETUNE_KV_TRANSFER_SOURCE_PAGES = 1, /* i32 [pages], negative for none; unless the family has move=scatter */
  MOETUNE_KV_TRANSFER_TARGET_PAGES = 2, /* likewise; unless it has move=gather, the default */
  MOETUNE_KV_TRANSFER_SCALES = 3,       /* f32 [planes, outer, inner or 1]; of a family with scale */
  MOETUNE_KV_TRANSFER_TARGET = 4        /* [pages, planes, outer, inner, width] of SOURCE's type or another */
};

/* kv_transfer's call: elements from one to the next. */
enum {
  MOETUNE_KV_TRANSFER_SOURCE_PAGE = 0,
  MOETUNE_KV_TRANSFER_SOURCE_PLANE = 1,
  MOETUNE_KV_TRANSFER_SOURCE_OUTER = 2,
  MOETUNE_KV_TRANSFER_SOURCE_INNER = 3,
  MOETUNE_KV_TRANSFER_TARGET_PAGE = 4,
  MOETUNE_KV_TRANSFER_TARGET_PLANE = 5,
  MOETUNE_KV_TRANSFER_TARGET_OUTER = 6,
  MOETUNE_KV_TRANSFER_TARGET_INNER = 7
};

/* few_rows_linear's slots (docs/small_operations.md). Values of a row lie side by side; rows may lie apart. WEIGHT may
 * be read before the kernel in front has ended, so it must not be written by one that lets the next begin early. */
enum {
  MOETUNE_FEW_ROWS_LINEAR_X = 0,      /* bf16 or fp16 [tokens, in] */
  MOETUNE_FEW_ROWS_LINEAR_WEIGHT = 1, /* [out, in] of X's type */
  MOETUNE_FEW_ROWS_LINEAR_BIAS = 2,   /* [out] of X's type; if the family has bias=yes */
  MOETUNE_FEW_ROWS_LINEAR_OUT = 3     /* [tokens, out] of X's type */
};

/* few_rows_linear's call: elements from a row to the next. */
enum { MOETUNE_FEW_ROWS_LINEAR_X_ROW = 0, MOETUNE_FEW_ROWS_LINEAR_WEIGHT_ROW = 1, MOETUNE_FEW_ROWS_LINEAR_OUT_ROW = 2 };

/* gate_route's slots (docs/router.md#gate_route). WEIGHT may be read early, as few_rows_linear's. */
enum {
  MOETUNE_GATE_ROUTE_X = 0,          /* bf16 or fp16 [tokens, hidden]; rows may lie apart, as WEIGHT's */
  MOETUNE_GATE_ROUTE_WEIGHT = 1,     /* [experts, hidden] of X's type */
  MOETUNE_GATE_ROUTE_BIAS = 2,       /* [experts] of X's type; if the family has gate_bias=yes */
  MOETUNE_GATE_ROUTE_CORRECTION = 3, /* f32 [experts]; if the family has bias=correction */
  MOETUNE_GATE_ROUTE_LOGITS = 4,     /* [tokens, experts] of the type that the family's `logits` says */
  MOETUNE_GATE_ROUTE_IDS = 5,        /* i32 or i64 [tokens, top_k], best first */
  MOETUNE_GATE_ROUTE_WEIGHTS = 6     /* f32 [tokens, top_k] */
};

/* gate_route's call: elements from a row to the next; a factor of all weights. */
enum { MOETUNE_GATE_ROUTE_X_ROW = 0, MOETUNE_GATE_ROUTE_WEIGHT_ROW = 1 };
enum { MOETUNE_GATE_ROUTE_SCALE = 0 };

/* moe_experts' slots (docs/moe_experts.md). Values of a row lie side by side; rows of x, out and the weights may lie
 * apart. */
enum {
  MOETUNE_MOE_EXPERTS_X = 0,         /* bf16, fp16 or e4m3 [tokens, hidden]; [places, ...] of x=places */
  MOETUNE_MOE_EXPERTS_SORTED = 1,    /* i32 [places], as the router writes it; not with x=places */
  MOETUNE_MOE_EXPERTS_OFFSETS = 2,   /* i32 [experts + 1], likewise */
  MOETUNE_MOE_EXPERTS_INVERSE = 3,   /* i32 [tokens, top_k], likewise; not with out=places */
  MOETUNE_MOE_EXPERTS_WEIGHTS = 4,   /* f32 [tokens, top_k]; not with out=places */
  MOETUNE_MOE_EXPERTS_W_GATE_UP = 5, /* [experts, 2 * intermediate, hidden], gate's rows before up's, or in turn with
                                        activation=swigluoai; as X, or u8 blocks of mxfp4 */
  MOETUNE_MOE_EXPERTS_W_DOWN = 6,    /* [experts, hidden, intermediate] */
  MOETUNE_MOE_EXPERTS_OUT = 7,       /* bf16 or fp16 [tokens, hidden]; [places, ...] of out=places */
  MOETUNE_MOE_EXPERTS_X_SCALE = 8,   /* f32 [rows of X, values / 128], of e4m3 alone */
  MOETUNE_MOE_EXPERTS_GATE_UP_SCALE = 9, /* f32 [experts, 2 * intermediate / 128, hidden / 128]; u8 of mxfp4 */
  MOETUNE_MOE_EXPERTS_DOWN_SCALE = 10,   /* f32 [experts, hidden / 128, intermediate / 128]; u8 of mxfp4 */
  MOETUNE_MOE_EXPERTS_GATE_UP_BIAS = 11, /* as out, [experts, 2 * intermediate], of swigluoai, in turn */
  MOETUNE_MOE_EXPERTS_DOWN_BIAS = 12     /* as out, [experts, hidden] */
};

/* moe_experts' call. */
enum {
  MOETUNE_MOE_EXPERTS_X_ROW = 0,     /* elements from a row of x to the next */
  MOETUNE_MOE_EXPERTS_PLACES = 1,    /* entries of sorted */
  MOETUNE_MOE_EXPERTS_OUT_ROW = 2,   /* elements from a row of out to the next */
  MOETUNE_MOE_EXPERTS_UP_ROW = 3,    /* elements from a row of w_gate_up to the next */
  MOETUNE_MOE_EXPERTS_UP_EXPERT = 4, /* elements from an expert's w_gate_up to the next expert's */
  MOETUNE_MOE_EXPERTS_DOWN_ROW = 5,  /* likewise of w_down */
  MOETUNE_MOE_EXPERTS_DOWN_EXPERT = 6
};

/* prefill_attention's slots. Offsets are prefix sums: sequence i has the rows from offsets[i] to offsets[i + 1]. */
enum {
  MOETUNE_PREFILL_Q = 0,          /* [tokens, heads, head_dim]: the new tokens of all sequences */
  MOETUNE_PREFILL_K = 1,          /* as MOETUNE_DECODE_K; without pages [tokens, kv_heads, head_dim] or heads first */
  MOETUNE_PREFILL_V = 2,          /* as K, with strides of its own */
  MOETUNE_PREFILL_Q_OFFSETS = 3,  /* i32 [batch + 1]: rows of Q and O */
  MOETUNE_PREFILL_KV_OFFSETS = 4, /* i32 [batch + 1]: rows of K and V; NULL with pages */
  MOETUNE_PREFILL_KV_LENGTHS = 5, /* i32 [batch]: all tokens, new ones too; NULL without pages */
  MOETUNE_PREFILL_PAGE_TABLE = 6, /* i32 [batch, columns]; any entries past a length; NULL without pages */
  MOETUNE_PREFILL_O = 7,          /* as Q */
  MOETUNE_PREFILL_LSE = 8,        /* f32 [tokens, heads], contiguous; if the family has lse */
  MOETUNE_PREFILL_SINKS = 9,      /* f32 [heads]; if the family has sinks */
  MOETUNE_PREFILL_K_SCALE = 10,   /* f32 [1], or [kv_heads] with kv_scale=head; if kv_dtype=e4m3 */
  MOETUNE_PREFILL_V_SCALE = 11,   /* likewise */
  MOETUNE_PREFILL_Q_SCALE = 12    /* likewise; if q_dtype=e4m3 */
};

/* prefill_attention's call: strides in elements, each a multiple of 16 bytes. */
enum {
  MOETUNE_PREFILL_Q_TOKEN_STRIDE = 0,
  MOETUNE_PREFILL_Q_HEAD_STRIDE = 1,
  MOETUNE_PREFILL_O_TOKEN_STRIDE = 2,
  MOETUNE_PREFILL_O_HEAD_STRIDE = 3,
  MOETUNE_PREFILL_K_BLOCK_STRIDE = 4, /* from a page to the next; without pages any */
  MOETUNE_PREFILL_K_HEAD_STRIDE = 5,
  MOETUNE_PREFILL_K_TOKEN_STRIDE = 6,
  MOETUNE_PREFILL_V_BLOCK_STRIDE = 7,
  MOETUNE_PREFILL_V_HEAD_STRIDE = 8,
  MOETUNE_PREFILL_V_TOKEN_STRIDE = 9,
  MOETUNE_PREFILL_V_OFFSET = 10,          /* 0: V has an address of its own */
  MOETUNE_PREFILL_Q_TOKENS = 11,          /* rows of Q and O; offsets are cut to it */
  MOETUNE_PREFILL_BLOCKS = 12,            /* pages in the pool; 1 without pages */
  MOETUNE_PREFILL_CAPACITY = 13,          /* tokens of a row of the page table, or of K; lengths are cut to it */
  MOETUNE_PREFILL_PAGE_TABLE_STRIDE = 14, /* entries from a row of the page table to the next */
  MOETUNE_PREFILL_SCALE = 0               /* reals[0]: of q.k before the softmax */
};

#endif /* MOETUNE_KERNELS_H_ */
