// The parts of the templates of JSON documents that do not depend on what they are used with, compiled once, in
// json_instances.cc, instead of in every file. It is one of the precompiled headers (cmake/Rooms.cmake).
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

extern template class nlohmann::basic_json<>;
extern template class nlohmann::basic_json<nlohmann::ordered_map>;
extern template class nlohmann::detail::serializer<nlohmann::json>;
extern template class nlohmann::detail::serializer<nlohmann::ordered_json>;
extern template class std::map<std::string, nlohmann::json, std::less<>>;
extern template class std::vector<nlohmann::json>;
extern template class std::vector<nlohmann::ordered_json>;
