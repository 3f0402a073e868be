#pragma once

#include "cleave/model/family.h"

namespace cleave::model {

/// From now on families() has it, and configs of this process know it by its name; it must live as
/// long. Before anything runs. Throws UserError if there is a family of that name.
void add_family(const Family& family);

}  // namespace cleave::model
