#include "cleave/comm/exchange_log.h"

#include "cleave/base/check.h"

namespace cleave::comm {

std::size_t ExchangeLog::begin(CollectiveKind kind) {
  CLEAVE_CHECK(stays_ > 0, name_of(kind), " outside of a stay");
  if (exchanges_.size() == exchanges_.capacity()) return kNone;
  const Clock::time_point now = Clock::now();
  exchanges_.push_back(
      {.kind = kind, .begin = now, .end = now, .spent_before = spent_ + (now - entered_)});
  return exchanges_.size() - 1;
}

void ExchangeLog::end(std::size_t entry, std::int64_t bytes) {
  if (entry >= exchanges_.size()) return;
  LoggedCollective& exchange = exchanges_[entry];
  exchange.end = Clock::now();
  exchange.spent = spent_ + (exchange.end - entered_) - exchange.spent_before;
  exchange.bytes = bytes;
}

}  // namespace cleave::comm
