#include "designs/super/settings.h"

#include "base/bits.h"
#include "designs/shared/machine.h"
#include "designs/super/transaction.h"
#include "platform/message.h"

namespace near::design::super {

Settings settings;

namespace {

constexpr size_t kL1List = 8 * kKiB;
constexpr size_t kLongList = kMiB;
constexpr unsigned kSocketListsOfThesis = 48;  // P_S: 192 processors on four sockets [Kim23 §3]

enum : unsigned { kConstants, kFill, kDrain, kThreadCache, kSync, kProcessors };

Switch table[] = {
    {"constants", "text|artifact", 1, 0, 1,
     "depth and list sizes: of the thesis's text, from P, or of its published binaries"},
    {"fill", "one|half|doubling", static_cast<long>(kVariant.fill), 0, 2,
     "what the global cache gets when it is empty"},
    {"drain", "off|on", kVariant.drain ? 1 : 0, 0, 1, "free a full global cache down to half"},
    {"threadcache", "off|on", 1, 0, 1, "whether threads have lists of their own"},
    {"sync", "mutex|tsx", 0, 0, 1, "critical sections: locks, or transactions where there are any"},
    {"processors", nullptr, 0, 0, 4096,
     "P: how many have caches, and with constants=text the depth of the global cache; 0: the "
     "machine's"},
};

bool want_transactions() {
  if (table[kSync].value == 0) return false;
  if (transaction::supported()) return true;
  message("%s: the processor has no transactions: sync is mutex", kVariant.name);
  return false;
}

// Constants from the symbols of the published binaries. None depends on the machine: a depth that
// does slows the whole family down on a small machine (two lists of 1 MiB where the original has
// eight).
void settle_as_published() {
  settings.unmap_huge = false;
  settings.socket_lists = kSocketListsOfThesis;
  const bool super3 = kVariant.equal_lists && kVariant.fill == Fill::one;
  const bool deep = kVariant.equal_lists || (kVariant.fill != Fill::one && !kVariant.drain);
  settings.global_lists = deep ? 192 : 8;
  if (super3) {
    settings.thread_list_bytes = settings.list_bytes = kL1List;
    settings.cpu_lists = 96;
  }
}

}  // namespace

std::span<Switch> switches() { return table; }

void apply_switches() {
  const auto given = static_cast<unsigned>(table[kProcessors].value);
  const unsigned processors = given != 0 ? given : design::processors();
  const unsigned sockets = design::topology().count;
  settings = {.processors = processors,
              .thread_list_bytes = kVariant.equal_lists ? kLongList : kL1List,
              .list_bytes = kLongList,
              .cpu_lists = 2,
              .socket_lists = static_cast<unsigned>(div_up(processors, sockets)),
              .global_lists = processors,
              .fill = static_cast<Fill>(table[kFill].value),
              .drain = table[kDrain].value != 0,
              .thread_cache = table[kThreadCache].value != 0,
              .unmap_huge = true,
              .transactions = want_transactions()};
  if (table[kConstants].value != 0) settle_as_published();
}

}  // namespace near::design::super
