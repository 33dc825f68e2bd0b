// Compiled as if it were in the room `graph`, where this works, and in `symbolic` below it, where it must not.
#include "exporters/graph/graph.h"
