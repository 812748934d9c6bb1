// Reads how a space file states its defaults (docs/spaces.md): "bases", and rules that name one and give what
// differs. Errors are BadInput naming the file, the key and, for an expression, its text.
#pragma once

#include <string>

#include "search/space_file.h"

namespace moetune {

class JsonObject;

// The expression at `key`, which is decided before any parameter has a value: it may name problem.*, device.*
// and quantities of nothing else. Needs the file's parameters and lets.
Expression read_environment_expression(const JsonObject& item, const std::string& key, SpaceFile& space);

// Fills `space.defaults` from the keys "bases" and "defaults" of the document. Needs the parameters and lets.
void read_defaults(const JsonObject& top, SpaceFile& space);

}  // namespace moetune
