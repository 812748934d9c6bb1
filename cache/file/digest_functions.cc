#include "cache/file/digest_functions.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "base/digest.h"
#include "cache/file/blob.h"

namespace moetune {
namespace {

std::string_view bytes_of(sqlite3_value* value) {
  // As a blob first: the pointer stays valid, and no conversion changes the value.
  const void* const bytes = sqlite3_value_blob(value);
  return {static_cast<const char*>(bytes), static_cast<std::size_t>(sqlite3_value_bytes(value))};
}

template <typename Number>
std::string bits_of(char type, Number number) {
  std::string text(1 + sizeof number, type);
  std::memcpy(text.data() + 1, &number, sizeof number);
  return text;
}

void add_value(DigestBuilder& builder, sqlite3_value* value) {
  switch (sqlite3_value_type(value)) {
    case SQLITE_INTEGER:
      builder.add(bits_of('i', sqlite3_value_int64(value)));
      break;
    case SQLITE_FLOAT:
      builder.add(bits_of('r', sqlite3_value_double(value)));
      break;
    case SQLITE_TEXT:
      builder.add("t").add(bytes_of(value));
      break;
    case SQLITE_BLOB:
      builder.add("b").add(bytes_of(value));
      break;
    default:
      builder.add("null");
  }
}

void give(sqlite3_context* context, const std::string& text) {
  sqlite3_result_text(context, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
}

// Exceptions must not cross SQLite.
template <typename Body>
void guarded(sqlite3_context* context, const Body& body) {
  try {
    body();
  } catch (const std::bad_alloc&) {
    sqlite3_result_error_nomem(context);
  } catch (const std::exception& error) {
    sqlite3_result_error(context, error.what(), -1);
  }
}

void digest_values(sqlite3_context* context, int count, sqlite3_value** values) {
  guarded(context, [&] {
    DigestBuilder builder;
    for (int i = 0; i < count; ++i) add_value(builder, values[i]);
    give(context, builder.finish());
  });
}

void digest_unpacked(sqlite3_context* context, int, sqlite3_value** values) {
  guarded(context, [&] {
    const std::string_view frame = bytes_of(values[0]);
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(frame.data()), frame.size());
    const auto unpacked = decompress(bytes, sqlite3_value_int64(values[1]));
    if (unpacked) give(context, digest(*unpacked));
  });
}

// The share of a row in its table's tally. Sums wrap around, in any order.
std::uint64_t share_of(sqlite3_value* digest_text) {
  if (sqlite3_value_type(digest_text) == SQLITE_NULL) return 0;
  return digest_head(bytes_of(digest_text));
}

void add_to_tally(sqlite3_context* context, int, sqlite3_value** values) {
  guarded(context, [&] {
    auto* const sum = static_cast<std::uint64_t*>(sqlite3_aggregate_context(context, sizeof(std::uint64_t)));
    if (sum == nullptr) throw std::bad_alloc();
    *sum += share_of(values[0]);
  });
}

void finish_tally(sqlite3_context* context) {
  const auto* const sum = static_cast<const std::uint64_t*>(sqlite3_aggregate_context(context, 0));
  sqlite3_result_int64(context, sum == nullptr ? 0 : static_cast<std::int64_t>(*sum));
}

void change_tally(sqlite3_context* context, int, sqlite3_value** values) {
  guarded(context, [&] {
    const auto tally = static_cast<std::uint64_t>(sqlite3_value_int64(values[0]));
    const std::uint64_t changed = tally + share_of(values[1]) - share_of(values[2]);
    sqlite3_result_int64(context, static_cast<std::int64_t>(changed));
  });
}

}  // namespace

void add_digest_functions(SQLite::Database& connection) {
  connection.createFunction("moetune_digest", -1, true, nullptr, digest_values);
  connection.createFunction("moetune_tally", 1, true, nullptr, nullptr, add_to_tally, finish_tally);
  connection.createFunction("moetune_tallied", 3, true, nullptr, change_tally);
  connection.createFunction("moetune_unpacked_digest", 2, true, nullptr, digest_unpacked);
}

}  // namespace moetune
