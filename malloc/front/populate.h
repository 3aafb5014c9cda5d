// The option `populate_mib`: makes memory resident before it is needed, so that malloc waits for no
// page fault while that memory lasts.
// Thread-safety: any thread, without locks held.
#pragma once

namespace near {

// Makes as much free memory resident on each node as the option asks for; the nodes keep it. False
// if the system refused some.
bool obey_populate_option();

}  // namespace near
