"""Attacks by commands that run others, and shell code in arguments."""

from tests.policy.corpus import group

CASES = [
    *group(
        "wrappers", "ask",
        "env rm x", "env A=1 rm x", "env -i rm x", "env -S 'rm x'", "env -S'rm x'", "env --split-string='rm x'",
        "env -vS 'ls'", "env -C / ls", "env --chdir=/ ls", "env -u A rm x", "env a-b=c rm x", "env", "env A=1",
        "printenv", "env - rm x", "env -- rm x", "env -a x ls",
        "timeout 5 rm x", "timeout -k 1 5 rm x", "timeout -s KILL 5 rm x", "timeout --kill-after=1 5 rm x",
        "timeout --kill 1 5 ls", "timeout -x 5 ls", "timeout 5", "nice rm x", "nice -n 5 rm x", "nice -5 rm x",
        "nice --adjustment=5 rm x", "nice --5 ls", "nohup rm x", "stdbuf -oL rm x",
        "stdbuf --output=L rm x", "setsid rm x", "setsid -f ls", "ionice -c2 rm x", "ionice -p 1", "time rm x",
        "command time -o f ls", "\\time -o f ls", "command rm x", "command -p rm x", "command -x ls",
        "builtin eval 'rm x'", "builtin . ./x", "exec rm x", "exec -a ls rm x", "exec -a rm ls x", "exec -l rm x",
        "exec",
        "sudo ls", "sudo rm x", "sudo -u x ls", "sudo -n cat a.txt", "sudo -i", "sudo -s ls", "sudo A=1 rm x",
        "sudo --preserve-env=PATH ls", "sudo -e a.txt", "doas ls", "su -c ls", "su x", "pkexec ls", "chroot / ls",
        "unshare ls", "nsenter ls", "strace ls", "ltrace ls", "gdb ls", "script -c ls", "watch ls",
        "xargs rm", "xargs", "xargs ls", "ls | xargs rm", "ls | xargs cat", "ls | xargs -I{} rm {}",
        "ls | xargs -n1 cat", "xargs -a list.txt cat", "xargs --arg-file=list.txt cat", "ls | xargs sh -c 'rm x'",
        "ls | xargs -I% sh -c 'echo %'", "ls | xargs -P4 -n1 wc -l", "find . | xargs grep x", "parallel ls",
        "ls | parallel cat",
        "find . -exec rm {} ;", "find . -exec cat {} +", "find . -exec sh -c 'rm x' ;", "find . -execdir ls {} +",
        "find . -ok ls {} ;", "find . -okdir ls {} ;", "find . -delete", "find . -fprint f", "find . -fprint0 f",
        "find . -fprintf f x", "find . -fls f", "find . -name x -delete", "find . ! -name x -delete",
        "find . -files0-from list.txt", "find -L . -name x", "find . -exec echo {} \\; -exec rm {} \\;", "find . $x",
        "find . \\( -exec rm {} + \\)", "busybox ls", "busybox sh -c 'rm x'", "toybox ls", "flock f ls", "entr ls",
        "tmux new ls", "screen ls", "at now", "crontab -l", "systemd-run ls", "docker run x", "kubectl exec x",
        "ssh host ls", "npx x", "make", "make -n", "awk 'BEGIN{system(\"rm x\")}'", "awk '{print > \"f\"}' a.txt",
        "perl -e 1", "python3 -c 1", "python3 x.py", "node -e 1", "ruby -e 1",
        "php -r 1", "lua x", "sed -i s/a/b/ a.txt", "ed a.txt", "vim a.txt", "ex a.txt", "less a.txt", "more a.txt",
        "man ls", "man -P 'rm x' ls", "man -H'rm x' ls", "man --html=x ls", "tar xf x",
        "tar cf x . --checkpoint-action=exec=rm", "zip x . -T -TT rm", "rsync -e 'rm x' a b", "tee f", "ls | tee f",
        "ls | tee -a f", "dd if=a.txt of=f", "cp a.txt f", "mv a.txt f", "ln -s a f", "touch f", "mkdir d",
        "rm a.txt", "rmdir d", "chmod +x a.txt",
        "chown x a.txt", "truncate -s0 a.txt", "install a b", "split a.txt", "csplit a.txt 1", "shred a.txt",
        "kill 1", "kill -9 $$", "pkill x", "curl x", "wget x", "nc x 1", "ping x", "dig x", "host x", "nslookup x",
        "getent hosts x", "telnet x", "ftp x", "nohup", "yes", "strings /etc/passwd", "xxd -r a b",
        "base64 -d a.txt > f",
        "./script.sh", "bash script.sh", "sh ./x", "source x", ". x", "exec bash", "bash", "sh", "zsh",
        "ld.so /bin/rm x", "/lib64/ld-linux-x86-64.so.2 /bin/rm x", "taskset 1 rm x", "chrt 1 rm x", "prlimit ls",
        "setarch x rm", "unbuffer ls", "chronic ls", "expect x", "valgrind ls", "perf stat ls",
    ),
    *group(
        "wrappers", "allow",
        "env ls", "env LC_ALL=C sort a.txt", "env -i ls", "env -u A ls", "timeout 5 ls", "timeout -k 1 5s ls",
        "timeout --signal=KILL 5 cat a.txt", "nice ls", "nice -n 10 ls", "nice -10 ls", "nohup ls",
        "stdbuf -oL cat a.txt", "time ls", "time -p ls", "command ls", "command -p ls", "command -v git",
        "command -V git",
        "builtin echo x", "exec ls", "timeout 5 nice -n 1 env LC_ALL=C ls", "bash -c ls", "bash -c 'ls; cat a.txt'",
        "bash -c 'ls | wc -l'", "bash -euo pipefail -c 'cat a.txt | head -1'", "bash -lc 'ls src'",
        "bash --norc -c 'ls 2>/dev/null'", "sh -c 'ls src'", "sh -c 'ls && pwd'", "eval ls", "eval 'ls src'",
        "eval \"ls; pwd\"",
        "ionice -c2 -n7 ls", "/usr/bin/env ls", "/bin/bash -c 'ls'", "bash -c 'cd src && ls'",
        "bash -c 'x=a.txt; cat $x'", "timeout 5 bash -c 'ls'",
    ),
    *group(
        "shell code", "ask",
        "bash -c 'rm x'", "sh -c 'rm x'", "dash -c 'rm x'", "bash -lc 'rm x'", "bash -ic ls", "bash -c 'ls; rm x'",
        "bash -c \"ls $x\"", "bash -c \"$x\"", "bash -c $x", "bash -c \"$(cat a.txt)\"", "bash -c 'ls $1' x a.txt",
        "bash -c 'bash -c \"rm x\"'", "bash -c -e 'rm x'", "bash -c -- 'rm x'", "bash -o posix -c ls > f",
        "bash -O extglob -c 'rm x'", "bash +x -c 'rm x'", "bash -s", "bash -s x", "echo ls | bash", "echo ls | sh",
        "cat a.txt | bash -x", "bash < a.txt", "bash <(echo ls)", "bash /dev/stdin", "bash -c ''",
        "bash --rcfile x -c ls", "bash --init-file x -c ls", "sh -c 'echo $0'", "sh -c 'ls 2>/dev/null'",
        "sh -c '[[ x ]]'", "eval rm x", "eval 'rm x'", "eval \"$x\"",
        "eval \"$(cat a.txt)\"", "eval ls \\; rm x", "eval eval rm x", "eval 'ls' '; rm x'",
        "eval \"echo \\$(rm x)\"", "eval 'echo `rm x`'", "trap 'rm x' EXIT", "trap ls EXIT", "./bash -c ls",
        "./env ls", "./timeout 5 ls", "/tmp/env ls", "src/nice ls", "./bash -c '# nothing'", "~/bin/env ls",
        "coproc rm x", "coproc ls", "coproc x { ls; }", "bash -c 'ls' > f", "sudo bash -c ls", "sudo sh -c 'ls src'",
        "sudo -u x bash -c 'cat a.txt'", "sudo eval ls", "./timeout 5 bash -c ls", "env PATH=. bash -c ls",
        "env LD_PRELOAD=x bash -c ls", "xargs bash -c ls", "find . -exec bash -c ls ;",
        "env GIT_PAGER=x bash -c 'git log'", "env -i bash -c 'git log'", "timeout 5 ./bash -c ls",
        "env BASH_ENV=x bash -c ls", "nice env ENV=x sh -c ls", "env $x bash -c ls", "timeout $t bash -c ls",
        "zsh -c 'echo $x'", "ksh -c 'rm x'", "fish -c ls", "csh -c ls", "pwsh -c ls", "mapfile -C 'rm x' -c1 < a.txt",
        "readarray -C 'rm x' -c1 x < a.txt", "compgen -C 'rm x'", "compgen -F f", "complete -C 'rm x' y",
        "bind -x '\"a\":rm x'", "fc -s", "history -s rm x", "enable -f ./x.so y", "exec -a x", "hash -p ./x ls",
    ),
    *group(
        "rules and wrappers", "allow", "npm test", "timeout 5 npm test", "nice -n 5 npm test",
        "env LC_ALL=C npm test", "nohup npm test", "bash -c 'npm test'", "bash -c 'npm test | tail -5'",
        "time npm test", "command npm test", "npm test &", "eval npm test", allow="Bash(npm test)"
    ),
    *group(
        "rules and wrappers", "ask", "sudo npm test", "env A=1 npm test", "A=1 npm test", "PATH=. npm test",
        "LD_PRELOAD=x npm test", "xargs npm test", "find . -exec npm test ;", "./timeout 5 npm test",
        "./bash -c 'npm test'", "npm test x", "npm", "env -S 'npm test'", "NODE_OPTIONS=x npm test",
        "bash -c 'npm test; rm x'", "sudo bash -c 'npm test'", "./timeout 5 bash -c 'npm test'",
        "env A=1 bash -c 'npm test'", "A=1 bash -c 'npm test'", "A=1 eval npm test", "env PATH=. bash -c 'npm test'",
        "ls | xargs bash -c 'npm test'", "doas sh -c 'npm test'", allow="Bash(npm test)"
    ),
    *group("rules and wrappers", "allow", "sudo apt update", "sudo apt update -q", allow="Bash(sudo apt update:*)"),
    *group(
        "rules and wrappers", "ask", "sudo apt install x", "sudo rm x", "sudo -u x apt update", "A=1 sudo apt update",
        "PATH=. sudo apt update", allow="Bash(sudo apt update:*)"
    ),
    *group("rules and wrappers", "ask", "sudo rm x", "sudo cat a.txt", allow="Bash(sudo:*)"),
    *group("rules and wrappers", "ask", "xargs rm", "ls | xargs rm", allow="Bash(xargs:*)"),
    *group("rules and wrappers", "ask", "find . -exec rm {} +", "find . -exec sh -c 'rm x' \\;",
        allow="Bash(find:*)"),
    *group("rules and wrappers", "allow", "ls | xargs wc -l", "ls | xargs wc -l -c", allow="Bash(xargs wc:*)"),
    *group(
        "rules and wrappers", "ask", "ls | xargs wc -l; rm x", "ls | xargs wcx",
        "LD_PRELOAD=./x ls | LD_PRELOAD=./x xargs wc", "ls | xargs rm", allow="Bash(xargs wc:*)"
    ),
    *group(
        "rules and wrappers", "ask", "timeout 5 rm x", "env rm x", "nohup rm x", "bash -c 'rm x'",
        allow=("Bash(timeout:*)", "Bash(env:*)", "Bash(nohup:*)", "Bash(bash:*)")
    ),
    *group("rules and wrappers", "allow", "FOO=1 npm test", allow="Bash(FOO=1 npm test)"),
    *group(
        "rules and wrappers", "ask", "FOO=2 npm test", "FOO=1 BAR=2 npm test", "FOO=$x npm test",
        allow="Bash(FOO=1 npm test)"
    ),
    *group("rules and wrappers", "allow", "docker ps", "docker ps -a", allow="Bash(docker ps:*)"),
    *group("rules and wrappers", "ask", "docker run x", "docker psx", allow="Bash(docker ps:*)"),
    *group(
        "rules and wrappers", "allow", "source .venv/bin/activate && pytest -q",
        allow=("Bash(source .venv/bin/activate)", "Bash(pytest:*)")
    ),
    *group(
        "rules and wrappers", "ask", "source other && pytest", "source .venv/bin/activate && rm x",
        allow=("Bash(source .venv/bin/activate)", "Bash(pytest:*)")
    ),
]  # fmt: skip
