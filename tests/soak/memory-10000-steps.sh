# SPDX-License-Identifier: Apache-2.0
# Ten thousand steps, with checkpoints and prunes, use no more memory at the end than after the first thousand.
cat >"$WORK/spec.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny","depth":1,"hidden":32,"heads":1},
 "data":{"path":"$TOP/templates/data/tango-icons","resolution":16,"caption_words":4},
 "batch":{"global":2},"steps":10000,"ema":0.99,"sample":{"after":false}},
 "checkpoint":{"every":{"steps":500},"keep":2,"dir":"$WORK/ckpt"}}
JSON
mkfifo "$WORK/events"
JOBCTL_EVENT_FD=9 jobctl-train train --spec "$WORK/spec.json" 9>"$WORK/events" >"$WORK/log" 2>&1 &
pid=$!
rss() { awk '/^VmRSS:/ {print $2}' "/proc/$pid/status"; }
first= last=
while read -r line; do
    case $line in
    *'"ev":"checkpoint"'*)
        step=${line#*\"step\":}
        step=${step%%,*}
        [ "$step" != 1000 ] || first=$(rss)
        [ "$step" != 9500 ] || last=$(rss)
        ;;
    *'"ev":"failed"'*) echo "$line" ;;
    esac
done <"$WORK/events"
wait $pid
echo "resident after 1,000 steps: $first KiB; after 9,500: $last KiB"
[ -n "$first" ]
[ "$last" -le $((first + 512)) ]
