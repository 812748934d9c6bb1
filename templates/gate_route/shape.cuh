// The router's shape and options for gate_route and its reference.
//
// Macros: EXPERTS, TOP_K, SCORE, CORRECTED (1: a bias for the choice), GROUPS, GROUPS_KEPT, RENORMALIZE, LOGITS, IDS.
#pragma once

#define BIAS CORRECTED
#define PLAN 0
#define RANKS 0
#define MAPPED 0
#define COUNTED 0
#define ALIGN 1
#define SEGMENT 0
#define LAYOUT blocks
#define DROPPED 0
#include "templates/router/shape.cuh"
