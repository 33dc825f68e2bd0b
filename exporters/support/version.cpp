#include "exporters/support/version.h"

namespace exporters {

std::string_view version() { return EXPORTERS_VERSION; }

}  // namespace exporters
