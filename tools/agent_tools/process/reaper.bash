# Waits beside the program and is told of the processes it starts, on standard input. When that ends, so has the program,
# in whatever way: what is left of them is ended too.
#   ? MARK       a process is being started; the mark is in the environment of all that comes of it
#   ! MARK       it could not be started
#   + PID MARK   it was, as the leader of a group
#   ~ PID        its leader is gone, others of the group may be there
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
# Where no environment can be read, those who left their group are known by whose children they are: for as long as
# the leaders live.
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
