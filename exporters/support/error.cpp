#include "exporters/support/error.h"

namespace exporters {
namespace {

std::string paragraph(const std::string& what, const std::string& where, const std::string& hint) {
  std::string text = what;
  if (!where.empty()) {
    text += " (" + where + ")";
  }
  if (!hint.empty()) {
    if (text.back() != '.') {
      text += '.';
    }
    text += " " + hint;
  }
  return text;
}

}  // namespace

Error::Error(std::string what, std::string where, std::string hint)
    : std::runtime_error(paragraph(what, where, hint)),
      what_(std::move(what)),
      where_(std::move(where)),
      hint_(std::move(hint)) {}

Error Error::with_context(std::string_view context) const {
  std::string where(context);
  if (!where_.empty()) {
    where += ", " + where_;
  }
  return Error(what_, std::move(where), hint_);
}

}  // namespace exporters
