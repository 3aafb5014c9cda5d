// Hardware transactions (RTM of x86-64), where the processor has them and the system allows them.
// Thread-safety: any thread. A system call aborts the transaction.
#pragma once

namespace near::design::super::transaction {

bool supported();

// Call it only if supported. True: a transaction runs. If it fails later, everything written since
// is undone, and `begin` returns a second time, with false.
bool begin();

void commit();
// Called in a transaction: makes it fail, so that it does not return.
void abandon();

}  // namespace near::design::super::transaction
