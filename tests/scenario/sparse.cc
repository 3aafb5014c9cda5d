// Large blocks of which a program writes little cost what is written, whatever the system does with
// huge pages. Invariant: at most a tenth more than the written pages, and the descriptors.
#include "scenario/scenario.h"

namespace near_test {
namespace {

TEST(Sparse, BuffersThatAreMostlyUnwrittenStaySmall) {
  constexpr size_t kDescriptor = 128;  // for each 64 KiB
  for (const size_t kib : {64, 256, 1000}) {
    const size_t size = kib << 10;
    Mapped<void*> blocks(2 * kGiB / size);
    const size_t before = resident_bytes();
    for (size_t i = 0; i < blocks.size(); ++i) {
      blocks[i] = StandardNames::malloc(size);
      static_cast<char*>(blocks[i])[0] = 1;
    }
    const size_t after = resident_bytes();
    const size_t written = blocks.size() * 4096 + 2 * kGiB / (size_t{64} << 10) * kDescriptor;
    report("buffers that are mostly unwritten", above(after, before));
    EXPECT_LE(above(after, before), written + written / 10 + 2 * kMiB) << size;
    for (size_t i = 0; i < blocks.size(); ++i) StandardNames::free(blocks[i]);
    StandardNames::malloc_trim(0);
    count_cases();
  }
  EXPECT_EQ(violations(), 0u);
}

}  // namespace
}  // namespace near_test
