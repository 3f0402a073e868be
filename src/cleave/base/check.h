#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace cleave {

/// The run cannot go on and the user can do something about it: a bad config, a missing file, a
/// hidden size that the tensor-parallel degree does not divide.
class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What was asked for needs more memory than a device has. The message has both numbers.
class DoesNotFit : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A device died or stopped answering; the message names it and what was waiting for it.
class DeviceLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A number became NaN or infinite; the message says where.
class NonFinite : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An invariant of this program was broken. Always our bug, never the user's.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// A place in the source. Stands in for std::source_location, which clang 14 does not have.
struct SourceLocation {
  const char* file;
  int line;

  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          int line = __builtin_LINE()) {
    return {file, line};
  }
};

namespace detail {

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

[[noreturn]] inline void fail_check(const char* expression, const std::string& details,
                                    SourceLocation where) {
  throw InternalError(
      concat(where.file, ":", where.line, ": check failed: ", expression, " | ", details));
}

}  // namespace detail

/// Throws UserError built from `parts` unless `ok`. For input we did not write ourselves.
template <class... Parts>
void require(bool ok, const Parts&... parts) {
  if (!ok) throw UserError(detail::concat(parts...));
}

}  // namespace cleave

/// Checks an invariant in every build type. The values after the condition go into the message and
/// are evaluated only on failure.
#define CLEAVE_CHECK(condition, ...)                                                  \
  do {                                                                                \
    if (!(condition)) [[unlikely]]                                                    \
      ::cleave::detail::fail_check(#condition, ::cleave::detail::concat(__VA_ARGS__), \
                                   ::cleave::SourceLocation::current());              \
  } while (false)
