// The cubin of a choice, as moetune_explain names it, out of the file that the choice comes from.
#pragma once

#include <string>

#include "base/error.h"
#include "cache/cache.h"
#include "cache/ranges.h"

namespace moetune::bench {

// Reads a winner's, default's or range table's cubin by its digest. Throws BadInput if the family has none with it.
inline Blob stored_cubin(const Cache& file, const std::string& kernel, const std::string& family,
                         const std::string& digest) {
  for (const FamilyWinner& winner : file.winners.of_family(kernel, family).sound) {
    if (winner.cubin_digest == digest || winner.default_cubin_digest == digest) return file.winners.cubin(digest);
  }
  for (const FamilyRange& range : file.ranges.of_family(kernel, family)) {
    for (const FamilyRange::Variant& variant : range.variants) {
      if (variant.cubin_digest == digest) return file.winners.cubin(digest);
    }
  }
  throw BadInput(file.path().string() + " has no cubin " + digest + " of " + kernel + " " + family);
}

}  // namespace moetune::bench
