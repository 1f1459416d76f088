# Runs next to the program, which reports the processes that it starts on standard input. When the input ends, the program
# has ended, and this script kills the processes that are left.
#   ? MARK       a process is being started; the mark is in its environment and that of its descendants
#   ! MARK       it could not be started
#   + PID MARK   it was started, as a group leader
#   ~ PID        the leader has ended; others of the group may still run
#   - PID        nothing is left
trap '' HUP INT TERM
groups=() marks=() starting=
while read -r what pid mark; do
    case $what in
        '?') starting+=" $pid" ;;
        '!') starting=${starting/ $pid/} ;;
        +) groups[pid]=$pid marks[pid]=$mark starting=${starting/ $mark/} ;;
        '~') unset "groups[pid]" ;;
        -) unset "groups[pid]" "marks[pid]" ;;
    esac
done
marks+=($starting)
[[ ${marks[*]} ]] || exit 0
# If no environment can be read, processes that left their group are found by their parents, while the leaders live.
proc=${1:-/proc} below=
if [[ ! -r $proc/self/environ ]]; then
    table=$(ps -A -o pid= -o ppid=) below=" ${groups[*]} " before=
    while [[ $before != "$below" ]]; do
        before=$below
        while read -r pid parent; do
            [[ $below == *" $parent "* && $below != *" $pid "* ]] && below+="$pid "
        done <<<"$table"
    done
fi
for pid in "${groups[@]}"; do kill -TERM -- "-$pid"; done
sleep 0.2
for pid in $below; do kill -KILL "$pid"; done
for pid in "${groups[@]}"; do kill -KILL -- "-$pid"; done
for mark in "${marks[@]}"; do
    for file in $(grep -lF ":$mark" "$proc"/[0-9]*/environ); do
        pid=${file#"$proc"/}
        kill -KILL "${pid%/environ}"
    done
done
