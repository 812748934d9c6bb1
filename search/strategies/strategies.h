// The constructors of the strategies, for the registry in searcher.cc alone: one file a strategy.
#pragma once

#include <cstdint>
#include <memory>

#include "search/searcher.h"

namespace moetune {

std::unique_ptr<Searcher> make_random(const LegalSpace& space, std::uint64_t seed);
std::unique_ptr<Searcher> make_exhaustive(const LegalSpace& space, std::uint64_t seed);
std::unique_ptr<Searcher> make_model(const LegalSpace& space, std::uint64_t seed);
std::unique_ptr<Searcher> make_auto(const LegalSpace& space, std::uint64_t seed);
std::unique_ptr<Searcher> make_local(const LegalSpace& space, std::uint64_t seed);

}  // namespace moetune
