#pragma once

#include <memory>
#include <typeinfo>
#include <utility>

#include "cleave/base/check.h"

namespace cleave {

/// What a layer needs to know beyond its shapes: a value of whatever type its kind chose, one of
/// cleave's own or of a user's. The value does not change, so copies share it.
class Attributes {
 public:
  Attributes() = default;
  /// `T` must be copyable and have `==`.
  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Attributes>) Attributes(T&& value)
      : held_(std::make_shared<const Held<std::remove_cvref_t<T>>>(std::forward<T>(value))) {}

  /// The value, or null if it is of another type.
  template <class T>
  const T* get_if() const {
    const auto* held = dynamic_cast<const Held<T>*>(held_.get());
    return held == nullptr ? nullptr : &held->value;
  }

  template <class T>
  const T& as() const {
    const T* value = get_if<T>();
    CLEAVE_CHECK(value != nullptr, "the attributes are not of type ", typeid(T).name());
    return *value;
  }

  friend bool operator==(const Attributes& a, const Attributes& b) {
    if (a.held_ == b.held_) return true;
    return a.held_ != nullptr && b.held_ != nullptr && a.held_->equals(*b.held_);
  }

 private:
  struct Any {
    virtual ~Any() = default;
    virtual bool equals(const Any& other) const = 0;
  };
  template <class T>
  struct Held : Any {
    explicit Held(T given) : value(std::move(given)) {}
    bool equals(const Any& other) const override {
      const auto* same = dynamic_cast<const Held*>(&other);
      return same != nullptr && value == same->value;
    }
    T value;
  };

  // Shared, because a value that never changes needs no single owner.
  std::shared_ptr<const Any> held_;
};

}  // namespace cleave
