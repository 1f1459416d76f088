"""Attacks by redirections: writes that no rule names, protected files, devices and descriptors."""

from tests.policy.corpus import group

CASES = [
    *group(
        "writes by redirection", "ask",
        "echo x > f", "echo x >> f", "echo x >| f", "echo x &> f", "echo x &>> f", "echo x >& f", "echo x <> f",
        "echo x 1> f", "echo x 2> f", "> f", ">> f", "ls > f 2>&1", "cat a.txt > src/new", "cat < a.txt > f",
        "(ls) > f",
        "{ ls; } > f", "if true; then ls; fi > f", "for i in 1; do ls; done > f", "while false; do ls; done > f",
        "[[ x ]] > f", "echo $(ls > f)", "f() { ls; } > f", "ls | cat > f", "cat <(ls > f)", "time ls > f",
        "! ls > f", "bash -c 'ls > f'",
        "eval 'ls > f'", "ls 2>/dev/null > f", "exec > f", "exec 3> f", "echo x > 'f'", "echo x > \"f\"",
        "echo x > f\\ g", "echo x 3> f", "echo x >f", "case x in x) ls;; esac > f", "coproc ls > f",
        "(echo x > f) | cat", "command ls > f", "true > f",
    ),
    *group(
        "writes by redirection", "ask", "echo x > f", "echo x >> src/f", "npm test > f",
        allow=("Bash(echo:*)", "Bash(npm test)")
    ),
    *group(
        "writes by redirection", "allow", "echo x > f", "echo x >> f", "cat a.txt > src/new", "> f", "ls 2> err",
        "cat <<'E' > f\nx\nE", "{ ls; } > f", "for i in 1; do ls; done > f", mode="acceptEdits"
    ),
    *group(
        "writes by redirection", "allow", "echo x > build/f", "npm test > build/log 2>&1",
        allow=("Bash(echo:*)", "Bash(npm test)", "Edit(build/**)")
    ),
    *group(
        "writes by redirection", "ask", "echo x > f", "echo x > build/../f", "npm test > build/log && rm x",
        allow=("Bash(echo:*)", "Bash(npm test)", "Edit(build/**)")
    ),
    *group(
        "writes by redirection", "ask", "echo x > $f", "echo x > \"$f\"", "echo x > $(echo f)", "echo x > f*",
        "echo x > ~root/f", "echo x > ~/f", "echo x > /tmp/f", "echo x > ../f", "echo x > out/f", "echo x > out_file",
        "cd .. && echo x > f", "cd nope || echo x > ../f", "cd src; echo x > ../f", "! cd src && echo x > ../f",
        "cd nope || touch ../f", "cd $d; echo x > f", "echo x > a$((x))", "echo x > {a,b}", "echo x > f$$",
        mode="acceptEdits"
    ),
    *group("writes by redirection", "deny", "echo x > f", "ls > f", "cat a.txt >> f", mode="plan"),
    *group("writes by redirection", "deny", "echo x > f", "echo x > $f", mode="dontAsk"),
    *group("writes by redirection", "allow", "echo x > f", "echo x > $f", "echo x > /tmp/f",
        mode="bypassPermissions"),
    *group(
        "writes by redirection", "deny", "echo x > data/f", "ls >> data/f", "{ ls; } &> data/f",
        "bash -c 'ls > data/f'", "cd data && ls > f", "ls > ./data/../data/f", allow="Bash", deny="Edit(data/**)"
    ),
    *group(
        "writes by redirection", "ask", "echo x > $f", "echo x > $(echo data/f)", "cd $d; echo x > f", allow="Bash",
        deny="Edit(data/**)"
    ),
    *group(
        "writes by redirection", "deny", "cat < data/f", "cat data/f", "head -5 ./data/f", "cd data; cat f",
        "wc -l < data/f", "grep x data/f", "cat da*/f", allow="Bash", deny="Read(data/**)"
    ),
    *group("writes by redirection", "ask", "cat $f", "cat < $f", "grep x \"$f\"", allow="Bash", deny="Read(data/**)"),
    *group(
        "protected files", "ask",
        "echo x > .git/config", "echo x > .git/hooks/pre-commit", "echo x >> .git/info/exclude",
        "echo x > .GIT/config", "echo x > .git./config", "echo x > .agentrc", "echo x > .agentrc.local",
        "echo x > .agent/settings.json", "echo x > .claude/settings.json",
        "echo x > .mcp.json", "echo x > .bashrc", "echo x >> .zshrc", "echo x > .profile",
        "echo x > .ssh/authorized_keys", "echo x > .gnupg/x", "echo x > .vscode/tasks.json", "echo x > .idea/x.xml",
        "echo x > .envrc", "echo x > .gitattributes",
        "echo x > .gitmodules", "echo x > .npmrc", "echo x > .github/workflows/ci.yml", "echo x > .gitlab-ci.yml",
        "echo x > .circleci/config.yml", "echo x > .husky/pre-commit", "echo x > .pre-commit-config.yaml",
        "echo x > sub/.git/config", "cd .git && echo x > config",
        "cat a.txt > .git/hooks/x", "ls >| .git/HEAD", "> .git/index", "echo x > src/top/.git/config",
        "cd src/top && echo x > .git/config", "echo x > .git/../.git/config", "echo x > Jenkinsfile",
        mode="acceptEdits",
    ),
    *group(
        "protected files", "ask", "echo x > .git/config", "echo x >> .git/hooks/pre-push", "echo x > .agentrc",
        "echo x > .claude/settings.local.json", "echo x > .bashrc", "echo x > .github/workflows/ci.yml",
        allow=("Bash", "Edit")
    ),
    *group(
        "protected files", "ask", "echo x > .git/config", "echo x > .agentrc", "echo x > .bashrc",
        mode="bypassPermissions"
    ),
    *group(
        "protected files", "deny", "echo x > .git/config", "echo x > .agentrc", mode="dontAsk", allow=("Bash", "Edit")
    ),
    *group(
        "protected files", "allow", "echo x > .github/workflows/ci.yml",
        allow=("Bash(echo:*)", "Edit(.github/workflows/ci.yml)")
    ),
    *group(
        "protected files", "ask", "echo x > .github/workflows/other.yml",
        allow=("Bash(echo:*)", "Edit(.github/workflows/ci.yml)")
    ),
    *group("protected files", "ask", "echo x > .github/workflows/ci.yml", allow=("Bash(echo:*)", "Edit(.github/**)")),
    *group(
        "protected files", "ask", "echo x > .git/config", "echo x > .agentrc",
        allow=("Bash(echo:*)", "Edit(.git/config)", "Edit(.agentrc)")
    ),
    *group(
        "devices and descriptors", "ask",
        "exec 3<>/dev/tcp/example.org/80", "echo x > /dev/tcp/example.org/80", "cat < /dev/tcp/example.org/80",
        "cat </dev/udp/8.8.8.8/53", "echo x >&/dev/tcp/a/1", "bash -c 'cat < /dev/tcp/a/1'", "ls 3<>/dev/tcp/a/1",
        "(ls) > /dev/tcp/a/1",
        "echo x > /dev/stdin < a.txt", "echo x < a.txt > /dev/stdin", "{ echo x > /dev/stdin; } < a.txt",
        "echo x < a.txt > /dev/fd/0", "echo x < a.txt > /proc/self/fd/0", "echo x 3< a.txt > /dev/fd/3",
        "echo x 1< a.txt > /dev/stdout", "echo x < a.txt 1>&0 > /dev/stdout",
        "echo x 1<&0 < a.txt > /dev/stdout", "echo x >&200", "echo x >&10", "ls <&200", "ls 200>&1", "exec {fd}> f",
        "exec {fd}< a.txt", "ls {fd}>&1", "echo x > /dev/sda", "echo x > /dev/tty", "cat /dev/tty", "cat < /dev/tty",
        "cat /dev/fd/../environ", "cat /dev/fd/../../../etc/passwd",
        "cat /proc/self/environ", "cat /proc/1/environ", "cat /dev/sda", "cat /dev/mem", "ls >&$x", "ls 2>&$x",
        "ls <&$x", "ls >&-x", "ls >&1x", "coproc cat; echo x >&${COPROC[1]}",
    ),
    *group(
        "devices and descriptors", "allow",
        "ls 2>/dev/null", "ls >/dev/null 2>&1", "ls &>/dev/null", "ls 2>&1 | head", "ls >&2", "ls 2>&1",
        "ls 3>&1 1>&2 2>&3 3>&-", "ls < /dev/null", "ls <&-", "echo x > /dev/stderr", "echo x 1>&2",
        "{ ls; } 2>/dev/null", "(ls) >/dev/null", "ls >/dev/null | cat",
        "diff <(sort a.txt) <(sort b.txt)", "cat <(ls)", "ls > >(cat)", "cat /dev/null", "cat < a.txt",
        "wc -l < a.txt", "while false; do ls; done < a.txt", "ls >> /dev/null", "ls >| /dev/null", "[ -t 0 ]",
        "cat /dev/stdin < a.txt", "echo x | cat /dev/fd/0",
    ),
    *group(
        "reads by redirection", "ask", "cat < /etc/passwd", "cat < .env", "wc < ../x", "cat < out_file",
        "cat < notes", "cat < $x", "cat < ~/.ssh/id_rsa", "sort < .keys/id_rsa", "while true; do ls; done < .env",
        "cat 0< .env", "cat < .env*", "cat <.env.local"
    ),
    *group("reads by redirection", "allow", "cat < .env.example", "head -1 < src/main.py", "cat 0< a.txt"),
]  # fmt: skip
