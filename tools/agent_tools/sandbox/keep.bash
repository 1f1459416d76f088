# Runs a command in the sandbox. If it leaves processes running, this stays while they run, since all of them end with the
# sandbox's first process; the socket FD gets the exit code and some of their command lines, then an empty line. When the
# other side is closed, this ends.
#   bash -p keep.bash FD COMMAND...
fd=$1
shift
command=("$@")
# As if the command had been started directly.
SHLVL=$((SHLVL - 1))
exec {errors}>&2 2>/dev/null
eval "\"\${command[@]}\" 2>&$errors $errors>&- $fd>&-"
code=$?
exec {errors}>&-
# The others are the first process of the namespace and this one.
alone() { set -- /proc/[0-9]*; (($# <= 2)); }
# Returns false once the other side is closed.
pause() { read -rt "$1" -u "$fd" || (($? > 128)); }
for ((tries = 0; tries < 15; tries++)); do
    alone && exit $code
    pause 0.01 || exit $code
done
report=$code
count=0
for process in /proc/[0-9]*; do
    [[ $process == /proc/1 || $process == /proc/$$ ]] && continue
    words=()
    mapfile -d '' words <"$process/cmdline"
    line=${words[*]}
    line=${line//[[:cntrl:]]/ }
    [[ $line ]] && ((count++ < 5)) && report+=$'\n'${line:0:200}
done
printf '%s\n\n' "$report" >&"$fd"
until alone; do
    pause 0.5 || break
done
exit $code
