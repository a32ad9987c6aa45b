# What is to hold for task_table.pml, and which of its mistakes break what. For
# bazel/model_test.sh.

holds -DCOLUMNS=2 -DROWS=2 -DTASKS=3
holds -DCOLUMNS=2 -DROWS=2 -DTASKS=3 -DMAPPED
holds -DCOLUMNS=2 -DROWS=2 -DTASKS=3 -DSTUCK
holds -DCOLUMNS=2 -DROWS=1 -DTASKS=4
holds -DCOLUMNS=1 -DROWS=1 -DTASKS=3 -DEXECUTORS=2 -DWARPS=2
holds -DCOLUMNS=2 -DROWS=1 -DTASKS=3 -DWARPS=2
if [ -n "$full" ]; then
  holds -DCOLUMNS=2 -DROWS=2 -DTASKS=3 -DSTUCK -DWARPS=2
  holds -DCOLUMNS=2 -DROWS=2 -DTASKS=3 -DWARPS=2 -DMAPPED
fi

lost='runs\[n\]==|has_spawned'
early='task==expected|data\[e\]==task'
breaks 'ready\[e\]>1' -DLINE_6
breaks "$lost" -DNOT_COPIED
breaks "$lost|$early|runs\[task\]<=" -DROWS=1 -DWARPS=2 -DLAST_NOT_ONE
breaks "$lost" -DNO_EMPTY
breaks "$lost" -DNO_RESTART
breaks "$lost|$early|ready\[n\]==0" -DBLIND
breaks "ready\[n\]==0|$lost|$early|p>1" -DSCHED_ALONE
breaks "$lost|$early" -DTWO_STREAMS
breaks "$early|$lost" -DROWS=1 -DBACK_OVERTAKES
breaks 'home' -DWARPS=2 -DSTUCK -DHEAD_OF_LINE
breaks 'exec\[\(c' -DRUNS_EARLY
breaks "ready\[n\]==0|$lost|$early|runs\[task\]<=" -DRUNS_LATE
breaks "$early" -DMAPPED -DFLAG_FIRST
