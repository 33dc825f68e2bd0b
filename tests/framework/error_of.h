#pragma once

#include "tests/support/error_of.h"

namespace exporters {

using testing::error_of;

}  // namespace exporters
