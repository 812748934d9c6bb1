// Numbers and tables as people read them. Pure functions and a plain value type; no errors, no state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/format.h"
#include "cli/output.h"
#include "tuner/ceilings.h"

namespace moetune {

// Rows of a table on a terminal of which nobody said how many to show.
inline constexpr std::size_t kMostRows = 100;

std::string time_text(double microseconds);  // "9.21 µs", "1.24 ms"; "-" where there is none
std::string bytes_text(double bytes);        // "512 MiB"
std::string count_text(double count);        // "10,000,000", "2.4e+19"
std::string counted_text(std::int64_t count, const std::string& noun);  // "1 winner", "2 winners"
std::string rate_text(const Rate& rate);                                // "4.21 TB/s", "612 TFLOP/s"
std::string ceiling_text(const CeilingFigure& figure, double value);    // the same, or "1.62 µs"
std::string percent_text(double fraction);                              // "89.6%"
std::string duration_text(double seconds);                              // "0:08", "1:02:11"

// A problem as a table shows it: brief unless --wide, "-" if there is none.
std::string shown_problem(const std::string& kernel, const std::string& problem, const Output& output);
// A family likewise: without what is the kernel's default.
std::string shown_family(const std::string& kernel, const std::string& family, const Output& output);

// "  a server launches it here: table:3, its cell batch=16\n"; "" without a table. Without a cell the choice is
// expected.
std::string served_line(const std::string& table, const std::string& cell);

// How many of the device's own programs (references and harness) had to be compiled.
std::string programs_text(std::size_t compiled);

// The columns a text takes on a terminal (UTF-8, no double-width characters).
std::size_t display_width(const std::string& text);
// Cut to `columns`, with "…" at the end where something was cut.
std::string fit(const std::string& text, std::size_t columns);

// Pieces of at most `width` columns, broken behind a comma or a space if there is one; else, within a word, behind one
// of "_=-/:".
std::vector<std::string> wrapped(const std::string& text, std::size_t width);
// The same as lines, each with its newline; one line if `columns` is 0.
std::string paragraph(const std::string& text, std::size_t columns);
// The same of a text whose own line ends mean nothing; "" for an empty one.
std::string prose(const std::string& text, std::size_t columns);

// The meaning of a line of text, shown in colours of the terminal's own palette.
enum class Paint { none, heading, good, warning, bad, faint };
// The text as it is without colours. It holds no line ends.
std::string painted(const std::string& text, Paint paint, bool colours);

// Left-aligned columns, two spaces apart; columns named in `right` are right-aligned. Where lines are longer than the
// screen the widest cells go on in further lines, broken behind commas and spaces.
class Table {
 public:
  explicit Table(std::vector<std::string> header, std::vector<std::size_t> right = {});
  void add(std::vector<std::string> row, Paint paint = Paint::none);
  // Leaves out the columns of these names, one by one, while the text would break a word there, or while rows take
  // more than a line.
  enum class Keep { words, rows };
  void give_way(const std::vector<std::string>& names, const std::string& indent, std::size_t columns,
                Keep keep = Keep::words);
  // Ends with a newline. `columns` of the screen; 0 for no end.
  std::string text(const std::string& indent = "", std::size_t columns = 0, bool colours = false) const;
  // That text would break a word, or be wider than the screen.
  bool breaks_words(const std::string& indent, std::size_t columns) const;

 private:
  std::vector<std::size_t> longest_parts(bool (*ends)(char)) const;  // by column
  bool is_right(std::size_t column) const;
  std::vector<std::size_t> widths(std::size_t columns) const;

  std::vector<std::vector<std::string>> rows_;  // the header first; an empty header prints none
  std::vector<Paint> paints_;                   // by row
  std::vector<std::size_t> right_;
};

}  // namespace moetune
