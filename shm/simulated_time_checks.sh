# What is to hold for simulated_time.pml, and which of its mistakes break what.
# For bazel/model_test.sh.

holds
if [ -n "$full" ]; then holds -DUNTIL=5; fi

past='rung_at|least>=clock'
breaks "$past|finished" -DLOOK_FIRST=1
breaks "$past|finished" -DANSWER_FIRST=1
breaks finished -DNO_TURN=1
breaks "$past|finished" -DSTALE_NEXT=1
