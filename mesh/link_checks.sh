# What is to hold for link.pml, and which of its mistakes break what. For
# bazel/model_test.sh.

holds -DCUTS=2
holds -DCUTS=1 -DNEAR_DEATHS=1
holds -DCUTS=1 -DFAR_DEATHS=1
holds -DCUTS=0 -DNEAR_DEATHS=1 -DFAR_DEATHS=1
holds -DCUTS=1 -DSLOTS=1 -DEVENTS=3 -DNEAR_DEATHS=1
if [ -n "$full" ]; then
  holds -DCUTS=2 -DNEAR_DEATHS=1 -DFAR_DEATHS=1
  holds -DCUTS=3 -DSLOTS=3 -DEVENTS=5
fi

next='n==\(accepted\+1\)'
breaks "$next" -DHELLO_RACE
breaks "$next" -DSTALE_EPOCH
breaks "$next|completed==" -DNO_REPLAY
breaks 'sent>freed|acked>=freed|freed<=n' -DEARLY_FREE
breaks 'sent>freed|freed<=n' -DNEAR_DEATHS=1 -DACK_BEFORE_STORE
breaks 'sent>freed|n==\(completed' -DHELLO_BEFORE_STORE
breaks "$next|freed<=n" -DLATE_CONNECTION
