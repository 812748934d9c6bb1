#include "cache/schema/schema_check.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/digest.h"
#include "cache/schema/schema.h"

namespace moetune {
namespace {

using Sentences = std::vector<std::string>;

// A statement without the layout of its blanks.
std::string normalize_whitespace(std::string_view sql) {
  std::string text(sql.size(), ' ');
  std::size_t size = 0;
  for (const char c : sql) {
    const bool is_blank = c == ' ' || (c >= '\t' && c <= '\r');
    if (!is_blank || (size > 0 && text[size - 1] != ' ')) text[size++] = is_blank ? ' ' : c;
  }
  text.resize(size);
  return text;
}

struct Object {
  std::string type;  // "table", "index", "trigger", "view"
  std::string sql;
};

std::map<std::string, Object> objects_of(const Database& database) {
  std::map<std::string, Object> objects;
  // Builds before 0.1.0 made a table `rivals`, which nothing reads.
  Query row = database.query(
      "SELECT name, type, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
      " AND tbl_name <> 'rivals'");
  while (row.step()) objects[row.text(0)] = {row.text(1), normalize_whitespace(row.view(2))};
  return objects;
}

// Each column with its declaration: "TEXT NOT NULL".
std::map<std::string, std::string> columns_of(const Database& database, const std::string& table) {
  std::map<std::string, std::string> columns;
  Query row = database.query(
      "SELECT name, type || iif(\"notnull\", ' NOT NULL', '') || iif(pk, ' PRIMARY KEY', '') ||"
      " coalesce(' DEFAULT ' || dflt_value, '') FROM pragma_table_xinfo(?, 'main')",
      table);
  while (row.step()) columns[row.text(0)] = row.text(1);
  return columns;
}

void compare_columns(const std::string& table, const std::map<std::string, std::string>& wanted,
                     const std::map<std::string, std::string>& found, Sentences& differences) {
  for (const auto& [name, declaration] : wanted) {
    const auto column = found.find(name);
    if (column == found.end()) {
      differences.push_back("the table " + table + " has no column " + name);
    } else if (column->second != declaration) {
      differences.push_back("the column " + table + "." + name + " is " + column->second + " instead of " +
                            declaration);
    }
  }
  for (const auto& [name, ignored] : found) {
    if (!wanted.contains(name)) differences.push_back("the table " + table + " has a strange column " + name);
  }
}

}  // namespace

std::string schema_digest(const Database& database) {
  DigestBuilder builder;
  for (const auto& [name, object] : objects_of(database)) builder.add(name).add(object.type).add(object.sql);
  return builder.finish();
}

std::vector<std::string> schema_differences(const Database& database) {
  const Database model(":memory:", Database::Access::create, std::chrono::milliseconds(0));
  model.execute(kSchema);
  const std::map<std::string, Object> tables = objects_of(model), found = objects_of(database);
  model.execute(kCacheSchema);
  std::map<std::string, Object> wanted = objects_of(model);
  const auto is_extra = [&](const auto& one) { return !tables.contains(one.first); };
  const bool has_extras =
      std::ranges::any_of(wanted, [&](const auto& one) { return is_extra(one) && found.contains(one.first); });
  if (!has_extras) std::erase_if(wanted, is_extra);

  Sentences differences;
  for (const auto& [name, object] : wanted) {
    const auto it = found.find(name);
    if (it == found.end() || it->second.type != object.type) {
      differences.push_back("the " + object.type + " " + name + " is missing");
      continue;
    }
    if (it->second.sql == object.sql) continue;
    const std::size_t before = differences.size();
    if (object.type == "table") {
      compare_columns(name, columns_of(model, name), columns_of(database, name), differences);
    }
    if (differences.size() == before) {
      differences.push_back("the " + object.type + " " + name + " is declared otherwise");
    }
  }
  for (const auto& [name, object] : found) {
    const auto it = wanted.find(name);
    if (it == wanted.end() || it->second.type != object.type) {
      differences.push_back("the " + object.type + " " + name + " is strange");
    }
  }
  return differences;
}

}  // namespace moetune
