// What `moetune cache check` asks of trials and winners beyond their digests: outcomes that exist, times that
// can be, texts and plans that can be read. Pure functions.
#pragma once

#include "cache/cache.h"

namespace moetune {

RecordRules record_rules();

}  // namespace moetune
