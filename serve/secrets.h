// The little cryptography that a service needs, by OpenSSL. Thread-safe. Errors: BrokenEnvironment if the system has no
// randomness.
#pragma once

#include <string>
#include <string_view>

namespace moetune {

// 256 bits as hexadecimal digits.
std::string random_secret();

// Takes the same time for every `given`: compares digests, whole.
bool equal_secrets(std::string_view given, std::string_view expected);

}  // namespace moetune
