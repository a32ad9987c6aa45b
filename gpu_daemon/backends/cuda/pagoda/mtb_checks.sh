# What is to hold for mtb.pml, and which of its mistakes break what. For
# bazel/model_test.sh.

holds -DTASKS=2 -DBLOCKS=1 -DWARPS=2 -DEXECUTORS=3 -DBARRIERS=2
holds -DTASKS=1 -DBLOCKS=3 -DWARPS=2 -DEXECUTORS=3 -DBARRIERS=1
holds -DTASKS=2 -DBLOCKS=2 -DWARPS=2 -DEXECUTORS=2 -DBARRIERS=2
holds -DTASKS=2 -DBLOCKS=2 -DWARPS=1 -DEXECUTORS=2 -DBARRIERS=2
if [ -n "$full" ]; then
  holds -DTASKS=1 -DBLOCKS=3 -DWARPS=2 -DEXECUTORS=3 -DBARRIERS=2
fi

shared='owner\[id\]==uid'
lost='runs\[n\]==|freed\[n\]==|gone=='
breaks 'freed\[row\]' -DTASKS=1 -DLAST_NOT_ONE
breaks "$shared|$lost" -DTASKS=1 -DBLOCKS=3 -DBAR_OF_ENTRY
breaks "$shared" -DTASKS=1 -DBLOCKS=3 -DNO_BLOCK_COUNT
breaks 'invalid array index' -DTASKS=1 -DROWS_FOR_WARPS
breaks 'exec\[i\]==0' -DTASKS=1 -DBLOCKS=4 -DWARPS=1 -DBARRIERS=3 -DTID_FOR_I
breaks "runs\[uid\]<=|$lost|$shared" -DTASKS=1 -DSIGN
breaks 'freed\[row\]' -DTASKS=1 -DREADS_ON
breaks "$lost" -DTASKS=1 -DLOOK_LATE
