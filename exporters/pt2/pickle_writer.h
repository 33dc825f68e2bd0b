#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace exporters::pt2 {

/// Text of a pickle, protocol 2 (Python's pickletools.py describes the opcodes): each call appends what puts one thing
/// on the reader's stack, or takes things from it.
class PickleWriter {
 public:
  void none() { op('N'); }
  void boolean(bool value) { op(value ? '\x88' : '\x89'); }
  void integer(int64_t value);
  void number(double value);
  void string(std::string_view value);
  /// A class or function: "torch._utils", "_rebuild_tensor_v2".
  void global(std::string_view module, std::string_view name);

  void mark() { op('('); }
  void empty_tuple() { op(')'); }
  void tuple() { op('t'); }  ///< of all since the mark
  void empty_list() { op(']'); }
  void appends() { op('e'); }  ///< all since the mark, to the list before it
  void empty_dict() { op('}'); }
  void set_items() { op('u'); }  ///< keys and values since the mark, into the dict before it

  void persistent() { op('Q'); }  ///< what the tuple on top stands for
  void reduce() { op('R'); }      ///< calls the function below the tuple on top
  void new_object() { op('\x81'); }
  void build() { op('b'); }  ///< gives the object below the state on top

  std::string finish() &&;

 private:
  void op(char code) { text_ += code; }

  std::string text_ = "\x80\x02";
};

}  // namespace exporters::pt2
