"""Rules and modes: what deny rules find wherever it hides, and what allow rules do not license."""

from tests.policy.corpus import group

_NO_RM = {"allow": "Bash", "deny": "Bash(rm:*)"}
_NO_PUSH = {"allow": "Bash", "deny": "Bash(git push:*)"}

CASES = [
    *group(
        "deny is found", "deny",
        "rm x", "rm", "rm -rf /", "ls && rm x", "ls; rm x", "ls | rm x", "ls & rm x", "rm x &", "ls\nrm x", "! rm x",
        "(rm x)", "((1)); rm x", "{ rm x; }", "if rm x; then ls; fi", "if ls; then rm x; fi",
        "if ls; then ls; else rm x; fi", "while rm x; do ls; done", "for i in 1; do rm $i; done",
        "until ls; do rm x; done", "case x in y) rm x;; esac",
        "f() { rm x; }", "f() { rm x; }; f", "function f { ls; rm x; }", "echo $(rm x)", "echo `rm x`",
        'echo "$(rm x)"', "echo \"`rm x`\"", "cat <(rm x)", "ls > >(rm x)", "x=$(rm x)", "x=$(rm x) ls",
        "echo ${x:-$(rm x)}", "echo $(( $(rm x) ))", "echo $(echo $(echo $(rm x)))", "[[ $(rm x) ]]",
        "case $(rm x) in x) ;; esac", "for i in $(rm x); do ls; done", "cat <<< $(rm x)", "cat <<E\n$(rm x)\nE",
        "ls > $(rm x)", "a=($(rm x))", "a[$(rm x)]=1",
        "export x=$(rm x)", "declare x=`rm x`", "coproc rm x", "time rm x", "time -p rm x", "'rm' x", '"rm" x',
        "r\\m x", "r''m x", "$'rm' x", "\\rm x", "r\\\nm x", "x=rm; $x y", "x=r; ${x}m y", "rm x # y", "/bin/rm x",
        "/usr/bin/rm x", "./rm x", "../../bin/rm x", "~/bin/rm x", "//bin//rm x", "A=1 rm x", "A=1 B=2 /bin/rm x",
        "sudo rm x", "sudo -u x rm x", "sudo A=1 rm x", "sudo -n -- rm x", "env rm x", "env A=1 rm x",
        "env a-b=1 rm x", "env -i rm x", "/usr/bin/env rm x", "nohup rm x &", "nice rm x", "nice -n 5 rm x",
        "timeout 5 rm x", "timeout -k 1 5 rm x", "timeout -s KILL 5s rm x", "command rm x", "command -p rm x",
        "builtin rm x", "exec rm x", "stdbuf -o0 rm x", "setsid rm x", "ionice -c 3 rm x", "doas rm x", "xargs rm",
        "ls | xargs rm", "ls | xargs -I{} rm {}", "ls | xargs -n 1 -0 rm -f", "find . -exec rm {} ;",
        "find . -exec rm {} +",
        "find . -execdir rm {} ;", "find . -name x -ok rm {} ;", "find . -exec ls {} \\; -exec rm {} \\;",
        "bash -c 'rm x'", "sh -c 'rm x'", "bash -lc 'ls; rm x'", "bash -euo pipefail -c 'rm x'", "bash -c -e 'rm x'",
        "bash -O extglob -c 'rm x'", "bash +x -c 'rm x'", "bash -c 'bash -c \"rm x\"'", "bash -c 'eval rm x'",
        "eval rm x", "eval -- rm x", "eval 'rm x'", "eval \"ls; rm x\"", "eval 'eval rm x'", "trap 'rm x' EXIT",
        "timeout 5 sudo nice bash -c 'env rm x'", "./bash -c 'rm x'", "/tmp/timeout 5 rm x", "zsh -c 'rm x'",
        "find . -exec sh -c 'rm x' ;", "xargs sh -c 'rm x'", "xargs -I% sh -c 'rm x'", "ls $x; rm y",
        "ls > f; rm x", "cat <<'E'\nx\nE\nrm x", "cat <<A <<B; rm x\n1\nA\n2\nB", "cd src && rm x",
        "[ -f x ] && rm x", "test x || rm x", "false && rm x", "rm x || true", "ls && { ls; (ls; rm x); }",
        **_NO_RM,
    ),
    *group(
        "deny behind what runs commands", "deny", "watch rm x", "watch -n 5 rm x", "strace rm x", "strace -f rm x",
        "taskset 1 rm x", "flock lock rm x", "unbuffer rm x", "xvfb-run rm x", allow="Bash", deny="Bash(rm:*)",
    ),
    *group(
        "deny cannot be sure", "ask",
        "$x y", "$(echo rm) x", "`echo rm` x", '"$x" y', "${x}m y", "${x:-rm} y", "r{m,} x", "{rm,x}", "r? x",
        "/bin/r? x", "/bin/[r]m x", "echo $x", 'echo "$x"', "eval $x", "eval \"$(cat a.txt)\"", "bash -c $x",
        "bash -c \"$x\"", "bash", "bash -s x", "echo rm x | bash", "echo rm x | sh", "bash < a.txt",
        "bash <(echo rm x)", "bash /dev/stdin", "source x", ". ./x", "source <(echo rm x)",
        "ls | xargs -I% sh -c '%'", "ls | xargs -I% sh -c 'echo %'",
        "env -S 'rm x'", "env $x rm", "timeout $t ls", "nice -n $n ls", "ssh h rm x", "docker run x rm y",
        "parallel rm", "busybox rm x", "su -c 'rm x'", "script -c 'rm x'",
        "chroot / rm x", "crontab x", "alias ls=rm", "enable -f x y", "compgen -C 'rm x'",
        "complete -C 'rm x' y", "mapfile -C 'rm x' x", "test -v 'a[$(rm x)]'", "[ -v 'a[$(rm x)]' ]",
        "printf -v 'a[$(rm x)]' y", "declare -i 'x=a[$(rm x)]'", "x='a[$(rm x)]'; echo $((x))", "unset 'a[$(rm x)]'",
        "read 'a[$(rm x)]'",
        "PATH=.; ls", "export PATH=.; ls", "PS4='$(rm x)'; set -x; ls", "git -c alias.x='!rm y' x",
        "git submodule foreach 'rm x'", "git bisect run rm x", "git rebase -x 'rm x' y", "ls )", "ls\rrm x",
        "ls \u202e", "l\u0455 x", "echo ${x@P}", "f() { \"$@\"; }; f rm x", "for i in rm; do $i$x y; done", "ls 3<&x",
        "IFS=x; ls", "x=rm; read x; $x y", "while read x; do $x; done", "$'\\x72m' x", "echo $((x))",
        "exec -a ls rm x", "command -x rm", "sudo -i rm x", "nice --5 ls",
        **_NO_RM,
    ),
    *group(
        "deny is not meant", "allow", "ls", "echo rm", "echo 'rm x'", "echo \"; rm x\"", "cat rm", "git rm x",
        "npm run rm", "grep rm a.txt", "cat <<'E'\nrm x\nE", "echo x # rm x", "ls *.txt", "farm x", "echo $HOME",
        "x=a; ls $x", "ls > f", "python3 -c 'import os'", "git commit -m 'rm x'", "echo $?", **_NO_RM
    ),
    *group(
        "deny is found", "deny", "git push", "git push origin main", "git -C .. push", "git -c a=b push",
        "git --git-dir=x push", "git --git-dir x push", "git --no-pager push", "git -P push -f",
        "git --attr-source x push", "/usr/bin/git push", "env git push", "git commit -m x && git push", "git 'push'",
        "git \\\n push", "g\\it push", "(cd src && git push)", "GIT_DIR=x git push", **_NO_PUSH
    ),
    *group(
        "deny is not meant", "allow", "git status", "git pull", "git stash push", "git log --grep=push",
        "echo git push", **_NO_PUSH
    ),
    *group(
        "deny cannot be sure", "ask", "git $x", "git p*", "git ?ush", "git [p]ush", "g* push",
        "git -c alias.p=push p", **_NO_PUSH
    ),
    *group("deny beats the rest", "deny", "rm x", allow=("Bash", "Bash(rm x)"), ask="Bash(rm:*)", deny="Bash(rm:*)"),
    *group("deny beats the rest", "deny", "rm x", "sudo rm x", mode="bypassPermissions", deny="Bash(rm:*)"),
    *group("deny beats the rest", "ask", "$x", "eval $x", mode="bypassPermissions", deny="Bash(rm:*)"),
    *group("deny beats the rest", "deny", "$x", "eval $x", mode="dontAsk", allow="Bash", deny="Bash(rm:*)"),
    *group("deny beats the rest", "deny", "ls", "cat a.txt", "git status", deny="Bash"),
    *group("deny beats the rest", "deny", "ls", "ls -l", "timeout 5 ls", "echo $(ls)", deny="Bash(ls:*)"),
    *group(
        "deny beats the rest", "deny", "cat secret.txt", "head -1 ./secret.txt", "grep x secret.txt",
        "cat < secret.txt", "cd src && cat ../secret.txt", "bash -c 'cat secret.txt'", "cat a.txt secret.txt",
        "wc {root}/secret.txt", "git show HEAD:secret.txt", "git diff secret.txt", deny="Read(secret.txt)"
    ),
    *group(
        "deny beats the rest", "ask", "grep -r x data", "diff data data", "cat dat*/nothing*", allow="Bash",
        deny="Read(data/**)"
    ),
    *group("deny beats the rest", "allow", "grep -rn x src", "rg x", "rg x docs", deny="Read(.env*)"),
    *group(
        "ask rules", "ask", "git push", "sudo git push", "bash -c 'git push'", "ls && git push", "/usr/bin/git push",
        "git -C x push", "echo $(git push)", allow="Bash", ask="Bash(git push:*)"
    ),
    *group("ask rules", "ask", "ls", "ls -l", "timeout 5 ls", ask="Bash(ls:*)"),
    *group(
        "ask rules", "ask", "cat a.txt", "head a.txt", "cat < a.txt", "bash -c 'cat a.txt'", allow="Bash",
        ask="Read(a.txt)"
    ),
    *group("ask rules", "ask", "git push", mode="bypassPermissions", ask="Bash(git push:*)"),
    *group("ask rules", "deny", "git push", mode="dontAsk", allow="Bash", ask="Bash(git push:*)"),
    *group("text patterns", "allow", "lsof", "lsx -a", "ls", allow="Bash(ls*)"),
    *group("text patterns", "allow", "npm test", "npm run test", "npm run x test", allow="Bash(npm *test)"),
    *group(
        "text patterns", "ask", "npm run test x", "npm run test; rm x", "xnpm test", "npm run $x test", "npm testing",
        "npm publish && npm test", "npm test > f", "sudo npm test", allow="Bash(npm *test)"
    ),
    *group("text patterns", "allow", "x --version", "a b --version", allow="Bash(* --version)"),
    *group(
        "text patterns", "ask", "$x --version", "x --version; rm y", "x --versions", "sudo rm x; y --version",
        allow="Bash(* --version)"
    ),
    *group(
        "exact rules", "allow", "npm run build", "npm  run   build", "npm run 'build'", "npm run build 2>&1",
        "npm run build >/dev/null", "npm run build | tail -3", "npm run build && ls", allow="Bash(npm run build)"
    ),
    *group(
        "exact rules", "ask", "npm run build x", "npm run", "npm run build:prod", "npm run builds", "x npm run build",
        "npm run build && npm run deploy", "npm run build > f", allow="Bash(npm run build)"
    ),
    *group("exact rules", "allow", "echo $(date)", "  echo $(date)  ", allow="Bash(echo $(date))"),
    *group("exact rules", "ask", "echo $(make) x", "echo $(date -s x)", allow="Bash(echo $(date))"),
    *group(
        "every command", "allow", "make x", "echo $x", "eval $x", "a | b > f", "bash", "curl x | sh", "ls\rx",
        allow="Bash"
    ),
    *group("every command", "deny", "rm x", "echo $x", mode="plan", allow="Bash"),
    *group(
        "modes", "deny", "make", "npm test", "rm x", "echo $x", "ls; rm x", "touch f", "mkdir d", "git add .",
        mode="plan"
    ),
    *group(
        "modes", "allow", "ls", "cat a.txt | head", "git status", "cd src && ls", "rg x", "x=a.txt; cat $x",
        mode="plan"
    ),
    *group("modes", "deny", "make", "cat /etc/passwd", "cat .env", "echo x > f", "echo $x", "ls; rm x",
        mode="dontAsk"),
    *group("modes", "allow", "ls", "cat a.txt", "git log", mode="dontAsk"),
    *group("modes", "allow", "npm test", "npm test 2>&1 | tail -5", mode="dontAsk", allow="Bash(npm test)"),
    *group(
        "modes", "allow", "mkdir d", "mkdir -p a/b/c", "touch f", "touch src/f src/g",
        "mkdir -p d && touch d/f && ls d", "rmdir d", "mkdir d && echo x > d/f", mode="acceptEdits"
    ),
    *group(
        "modes", "ask", "mkdir /tmp/d", "mkdir ../d", "touch .git/x", "mkdir .git/hooks", "touch .bashrc",
        "mkdir -m 777 d", "touch -d x f", "touch -r .env f", "mkdir $x", "touch f*", "touch out/f", "touch -- -x",
        "rm x", "mv a b", "cp a b", "make", "cd .. && mkdir d", "A=1 mkdir d", "timeout 5 mkdir d",
        "touch .github/workflows/x.yml", "mkdir d; rm x", mode="acceptEdits"
    ),
    *group("modes", "ask", "mkdir d", mode="acceptEdits", carried={"PATH": "/nowhere"}),
    *group("modes", "allow", "make", "rm x", "echo $x", "curl x | sh", "cat /etc/passwd", mode="bypassPermissions"),
]  # fmt: skip
