# What is to hold for ring.pml, and which of its mistakes break what. For
# bazel/model_test.sh. The larger configurations take about two minutes, 3 GB.

for flavour in '' -DEPOLL; do
  holds -DSLOTS=1 -DEVENTS=2 $flavour
  holds -DSLOTS=2 -DEVENTS=2 $flavour
done
if [ -n "$full" ]; then
  holds -DSLOTS=2 -DEVENTS=3
  holds -DSLOTS=2 -DEVENTS=3 -DEPOLL
  holds -DSLOTS=2 -DEVENTS=2 -DWORKERS=2
  holds -DSLOTS=2 -DEVENTS=2 -DWORKERS=2 -DEPOLL
fi

small='-DSLOTS=1 -DEVENTS=2'
# An endless sleep shows as a device or front-end that never leaves.
endless='device_left|front_end_left|consumed==2'
torn='esq_first|esq_second|ecq_state'
for mistake in WAKER_CLEARS NO_RECHECK SUMMARY_LATE NO_FENCE NO_WAKE_ON_DEATH; do
  breaks "$endless" $small -D$mistake=1
  breaks "$endless" $small -D$mistake=2
done
for mistake in WAKER_CLEARS NO_RECHECK NO_FENCE NO_WAKE_ON_DEATH; do
  breaks "$endless" $small -D$mistake=2 -DEPOLL
done
breaks "$torn" $small -DPUBLISH_FIRST=1
breaks "$torn" $small -DPUBLISH_FIRST=2
breaks "$torn|bell-seen" $small -DNO_FREE_CHECK=1
breaks bell-seen $small -DFREE_LATE=1
breaks "$endless" $small -DCLOSE_LATE=1
breaks "$endless" $small -DCLOSE_LATE=1 -DEPOLL
