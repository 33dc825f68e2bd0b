#include "exporters/graph/name_pool.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace exporters {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Sorted. Python's keywords and builtins, as far as an op could be called so.
constexpr std::string_view kPythonNames[] = {
    "False",   "None",      "True",      "abs",        "aiter",        "all",     "and",         "anext",
    "any",     "as",        "ascii",     "assert",     "async",        "await",   "bin",         "bool",
    "break",   "bytearray", "bytes",     "callable",   "chr",          "class",   "classmethod", "compile",
    "complex", "continue",  "def",       "del",        "delattr",      "dict",    "dir",         "divmod",
    "elif",    "else",      "enumerate", "eval",       "except",       "exec",    "filter",      "finally",
    "float",   "for",       "format",    "from",       "frozenset",    "getattr", "global",      "globals",
    "hasattr", "hash",      "help",      "hex",        "id",           "if",      "import",      "in",
    "input",   "int",       "is",        "isinstance", "issubclass",   "iter",    "lambda",      "len",
    "list",    "locals",    "map",       "max",        "memoryview",   "min",     "next",        "nonlocal",
    "not",     "object",    "oct",       "open",       "or",           "ord",     "pass",        "pow",
    "print",   "property",  "raise",     "range",      "repr",         "return",  "reversed",    "round",
    "set",     "setattr",   "slice",     "sorted",     "staticmethod", "str",     "sum",         "super",
    "try",     "tuple",     "type",      "vars",       "while",        "with",    "yield",       "zip",
};
static_assert(std::is_sorted(std::begin(kPythonNames), std::end(kPythonNames)));

}  // namespace

NumberedName split_number(std::string_view name) {
  size_t digits = name.size();
  while (digits > 0 && is_digit(name[digits - 1])) {
    --digits;
  }
  const size_t count = name.size() - digits;
  // Longer numbers are taken as part of the name: no counter gets there.
  if (count == 0 || count > 9 || digits < 2 || name[digits - 1] != '_') {
    return {name, -1};
  }
  int64_t number = 0;
  for (char c : name.substr(digits)) {
    number = number * 10 + (c - '0');
  }
  return {name.substr(0, digits - 1), number};
}

std::string to_identifier(std::string_view hint) {
  std::string name(hint);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !is_word(c); }, '_');
  if (name.empty()) {
    return "_unnamed";
  }
  return is_digit(name[0]) ? "_" + name : name;
}

bool is_identifier(std::string_view name) {
  return !name.empty() && !is_digit(name[0]) && std::all_of(name.begin(), name.end(), is_word);
}

std::string name_hint_of(std::string_view target) {
  const size_t first = target.find('.');
  if (first == std::string_view::npos) {
    return to_identifier(target);
  }
  const std::string_view space = target.substr(0, first);
  std::string_view rest = target.substr(first + 1);
  const bool keeps_overload = space == "aten" && rest.starts_with("sym_");
  if (space == "_operator" || space == "math" || space == "torch" || keeps_overload) {
    return to_identifier(rest);
  }
  return to_identifier(rest.substr(0, rest.rfind('.')));
}

bool is_python_name(std::string_view name) {
  return std::binary_search(std::begin(kPythonNames), std::end(kPythonNames), name);
}

}  // namespace exporters
