#include "base/version.h"

namespace moetune {
namespace {

std::string_view built_of;

}  // namespace

std::string_view version() { return MOETUNE_VERSION; }

std::string_view commit() { return built_of; }

void set_commit(std::string_view commit) { built_of = commit; }

}  // namespace moetune
