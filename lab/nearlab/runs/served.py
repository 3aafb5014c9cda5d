"""Judges which allocator served a run: that of every process, by its link map at its exit."""

from nearlab import peers
from nearlab.measure import proof
from nearlab.measure.measure import Sample
from nearlab.peers import Allocator


def wrong_allocator(sample: Sample, allocator: Allocator) -> str | None:
    """Returns an error unless the allocator's library served every process."""
    plain = peers.switched(allocator.name)[0]
    wanted = proof.allocator_name(allocator.library) if allocator.library else plain
    served = {process.served_by for process in sample.processes} or {sample.served_by}
    return None if served == {wanted} else f"served by {', '.join(sorted(served))}"
