# What is to hold for ptb.pml, and which mistakes break what. For
# bazel/model_test.sh.

holds
holds -DBLOCKS=3 -DRESIDENT=1 -DSTOPS=3
holds -DBLOCKS=5 -DRESIDENT=2 -DSTOPS=3
holds -DBLOCKS=3 -DRESIDENT=3 -DSTOPS=2
holds -DBLOCKS=1 -DRESIDENT=3 -DSTOPS=2

twice='runs\[number\]==1'
lost='ran\[i\]==1'
breaks "$lost" -DTAKE_FIRST
breaks "$twice|$lost" -DTWO_STEPS
breaks all_ended -DFIRST_WATCHES -DRESIDENT=1
breaks "$lost|launch<=" -DNOT_CLEARED
breaks 'ended<=4' -DNOT_LIMITED
breaks "on_gpu==0|$twice" -DFIRST_LEAVES
breaks "on_gpu==0|$lost|$twice" -DSTOP_IS_END
