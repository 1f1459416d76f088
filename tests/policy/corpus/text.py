"""Attacks by the text of a command line: what looks like one command and is several, or another one."""

from tests.policy.corpus import group

_ECHO = "Bash(echo:*)"

CASES = [
    *group(
        "more than the rule names", "ask",
        "git status; rm x", "git status && rm x", "git status || rm x", "git status | rm x", "git status |& rm x",
        "git status & rm x", "git status\nrm x", "git status\n\n\nrm x", "git status;rm x", "git status;;rm x",
        "git status # \nrm x", "git status" + " " * 500 + "; rm x", "git status" + "\t" * 50 + "&& rm x",
        "git status $(rm x)", "git status `rm x`", "git status <(rm x)", "git status > x", "git status >> x",
        "git status 2> x", "git status &> x", "git status >| x", "git status <> x", "(git status; rm x)",
        "{ git status; rm x; }", "git status && (rm x)", "! git status; rm x", "if git status; then rm x; fi",
        "git statusx", "git status-x", "gitx status", "git  stash", "git stash drop", "X=1 git statux",
        allow=("Bash(git status:*)", "Bash(git log:*)"),
    ),
    *group(
        "prefix by words", "ask",
        "npm run tests", "npm run test2", "npm runtest", "npm run", "npm  rune test", "npm run \"test x\"",
        "npm run 'testing'",
        "npm run test; npm publish", "npm run tes\\t\\ x",
        allow="Bash(npm run test:*)",
    ),
    *group("prefix by words", "ask", "npm run test -- -x", "npm run test ", allow="Bash(npm run tes)"),
    *group(
        "control and invisible characters", "ask",
        "ls\rrm x", "ls \rrm x", "ls\x00", "ls \x00rm x", "ls\x0brm", "ls\x0crm", "ls \x1b[2K", "ls \x7f",
        "ls \x08\x08rm",
        "ls \u202e", "ls \u200b", "l\u200bs", "ls\u00a0rm", "ls\u2028rm x", "ls\u2029rm x", "ls \ufeff", "\ufeffls",
        "ls \u2066x\u2069",
        "ls \U000e0041", "ls\u0085rm x", "ls \u00ad", "ls \u180e", "ls\u3000x", "l\u0455", "\uff4c\uff53",
        "ls \ud800",
    ),
    *group(
        "control and invisible characters", "ask", "npm\u00a0test", "npm test\r", "npm test\r\nrm x",
        "npm test \u202e", allow="Bash(npm test:*)"
    ),
    *group(
        "what no shell accepts", "ask", "", " ", "\n", ";", "&", "|", "ls &&", "ls |", "ls ||", "ls;;", "ls )", "(ls",
        "{ ls", "if ls",
           "ls '", 'ls "', "ls `", "ls $(", "ls <", "ls >", "for x in", "case x in", "&& ls", "| ls", "; ls", "do ls",
           "fi", "ls &;",
           "cat <<", "function", "[[ x", "((", "x=("),
    *group(
        "heredocs", "ask",
        "cat <<E\n$(rm x)\nE", "cat <<E\n`rm x`\nE", "cat <<-E\n\t$(rm x)\n\tE", "cat <<E\n${x@P}\nE",
        "cat <<E\n${x:=$(rm x)}\nE",
        "cat <<E\n$((a[$(rm x)]))\nE", "cat <<A <<B\n1\nA\n$(rm x)\nB", "cat <<A; rm x\nA", "cat <<'A'\nx\nA\nrm x",
        "cat <<A && rm x\nA", "cat <<A | sh\nrm x\nA", "bash <<'A'\nrm x\nA", "sh <<A\nrm x\nA", "python3 <<A\n1\nA",
        "cat <<'A' > x\n1\nA", "cat <<\\A\nx\nA\nrm x", "cat <<\"A B\"\nx\nA B\nrm x", "cat <<''\nx\n\nrm x",
        "cat <<E\n$(cat <<F\n$(rm x)\nF\n)\nE",
        "cat <<E\n\\$(ls)\n$(rm x)\nE", "cat <<'E'\n$(ls)\n E\nE\nrm x", "bash -c 'cat <<E\n$(rm x)\nE'",
        "cat 3<<E <&3\nx\nE",
        "cat <<$x\nrm\n$x\nrm x", "echo $(cat <<''\n$(rm x)\n\n)", "[[ $(cat <<''\n$(rm x)\n\n) ]]",
        "echo $(cat <<\"\"\n`rm x`\n\n)", "cat <<''\nx\n\n", "cat <<'a b'\nx\na b", "eval <<E\nx\nE\nrm x",
    ),
    *group(
        "heredocs", "allow", "cat <<E\nhello $x\nE", "cat <<'E'\n$(rm x) `rm x`\nE", "cat <<\\E\n$(rm x)\nE",
        "cat <<-E\n\thello\n\tE",
           "cat <<E | wc -l\na\nb\nE", "cat <<A <<B\n1\nA\n2\nB", "cat <<E\n\\$(rm x) \\`rm x\\`\nE",
           "cat <<E\n$(ls)\nE"),
    *group(
        "here-strings", "ask", "cat <<< $(rm x)", 'cat <<< "`rm x`"', "bash <<< 'rm x'", "cat <<< ${x@P}",
        "cat <<< $((a[x]))", "sh -s <<< ls"
    ),
    *group("here-strings", "allow", "cat <<< hello", 'wc -c <<< "$x"', "grep o <<< $(cat a.txt)"),
    *group(
        "spelled otherwise", "ask",
        "r\\m x", "'rm' x", '"rm" x', "r''m x", 'r"m" x', "$'rm' x", "$'r\\x6d' x", "r\\\nm x", "$(echo rm) x",
        "`echo rm` x", "${x}rm x",
        "r{m,} x", "{rm,x}", "${x:-rm} x", "${x-rm} x", "rm${IFS}x", "rm$IFS-x", "x=rm; $x y", "x=r; ${x}m y",
        "/bin/rm x", "//bin//rm x",
        "/bin/../bin/rm x", "./rm x", "~/rm x", "bin/rm x", "/???/rm x", "r? x", "[r]m x", "$_ x", "${0##*/} -c x",
        "busybox rm x", "\\\nrm x",
    ),
    *group(
        "spelled otherwise", "allow", "l\\s", "'ls'", '"ls" -l', "l''s", "$'ls'", "l\\\ns", "x=ls; $x", "x=l; ${x}s",
        "ls \\\n  -l", "/bin/ls", "/usr/bin/wc a.txt"
    ),
    *group(
        "longer than is parsed", "ask",
        "ls " + "a" * 5000 + " $x", "echo " + "x " * 3000, "ls;" * 2000, "echo '" + "x" * 300_000 + "'",
        "$(" * 1000 + ")" * 1000,
        "cat <<E\n" + "x\n" * 3000 + "E", ("ls;" * 500) + "rm x", "a=1;" * 900 + "rm $a",
    ),
    *group("longer than is parsed", "allow", "cat <<'E'\n" + "x $( `\n" * 3000 + "E", "ls;" * 100),
    *group("longer than is parsed", "ask", "cat <<'E' > f\n" + "x\n" * 3000 + "E"),
    *group(
        "longer than is parsed", "deny", "echo " + "x " * 3000, "echo " + "x" * 5000 + "; rm x", allow="Bash",
        deny="Bash(rm:*)"
    ),
    *group("longer than is parsed", "deny", "ls;" * 900 + "rm x", allow="Bash", deny="Bash(rm:*)"),
    *group(
        "lines that go on", "ask",
        "echo \"$\\\n(rm x)\"", "cat <<E\n$\\\n(rm x)\nE", "echo $\\\n(rm x)", "echo \"$\\\n\\\n(rm x)\"",
        "x=a; cat \"$x\\\ny\"",
        "x=a; cat $x\\\ny", "echo \"$\\\n{x:-$(rm x)}\"", "cat \"$\\\nx\"", "echo `\\\nrm x`", "ls &\\\n& rm x",
        "ls;\\\nrm x", "r\\\nm x",
        "cat <<E\nx\\\nE\n$(rm x)\nE", "cat <<E\nx\\\\\nE\nrm x", "ls \\\n;rm x", "echo \"${\\\nx@P}\"",
        "time -- rm x", "time -- rm x | ls", "time -p -- rm x && ls", "eval -- rm x",
        "trap -- 'rm x' EXIT", "command -- rm x", "exec -- rm x", "nohup -- rm x",
    ),
    *group("lines that go on", "allow", "ls \\\n -l", "cat \\\n a.txt \\\n b.txt", "ls | \\\n wc -l",
        "ls &&\\\nls src", "cat <<E\nx\\\nE\nrm x\nE", "l\\\ns", "echo \"a\\\nb\""),
    *group(
        "comments", "ask", "ls # x\nrm x", "# ls\nrm x", "ls #\\\nrm x", "ls # a\\\nrm x", "ls #\\\\\nrm x",
        "ls a#b; rm x", "ls ${x#y}; rm x",
    ),
    *group("comments", "allow", "ls # rm x", "# only words\nls", "ls a#b", "# nothing at all runs\ntrue"),
    *group(
        "echo is no licence", "ask", "echo $(rm x)", 'echo "$(rm x)"', "echo `rm x`", "echo x; rm x", "echo x > f",
        "echo x >> .bashrc",
           "echo ${x@P}", "echo \"${x@P}\"", "echo $((a[$(rm x)]))", "echo <(rm x)", "echo \\\\$(rm x)",
           "echo \"\\\\$(rm x)\"", allow=_ECHO),
    *group(
        "echo is no licence", "allow", "echo '$(rm x)'", "echo '`rm x`'", "echo \"\\$(rm x)\"", "echo \\`rm x\\`",
        "echo 'a;b'", "echo a\\;rm"
    ),
]  # fmt: skip
