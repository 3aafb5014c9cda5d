// Hardware transactions (RTM of x86-64), where the processor has them and the system allows them.
// Thread-safety: any thread. A call of the system ends the transaction.
#pragma once

namespace near::transaction {

bool supported();

// Only if supported. True: a transaction runs; if it fails later, `begin` returns once more, then
// false, and all that was written since is undone.
bool begin();

void commit();
// In a transaction; does not return.
void abandon();

}  // namespace near::transaction
