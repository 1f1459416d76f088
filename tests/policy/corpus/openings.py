"""Paths that a command opens as another file than their words say: through /proc, a descriptor, another directory, or a
name that looks like one on another machine.
"""

from tests.policy.corpus import group

CASES = [
    # What is behind these names depends on the process that opens them.
    *group(
        "files behind a process", "ask",
        "cat /proc/self/cwd/a.txt", "cd src && cat /proc/self/cwd/util.py", "cat < /proc/self/cwd/a.txt",
        "cd /proc/self/cwd && cat a.txt", "cat /proc/thread-self/cwd/a.txt", "cat /proc/self/root/etc/passwd",
        "grep -r one /proc/self/cwd/src", "cat /proc/self/task/1/cwd/a.txt", "cat /dev/fd/../cwd/a.txt",
        "cat /dev/fd/3/a.txt", "cat process/a.txt", "cat process/../../x", "cd process && cat a.txt",
    ),
    *group(
        "files behind a process", "ask",
        "cd .git && touch /proc/self/cwd/hooks/x", "cd .git && mkdir /proc/self/cwd/hooks",
        "cd .git && mkdir -p /dev/fd/../cwd/hooks", "cd .git && touch ../process/hooks/x",
        "cd /proc/self/cwd/.git && touch x", "cd .git && echo x > ../process/hooks/x",
        mode="acceptEdits",
    ),
    # Under a rule for the program, too: it does not cover secrets, and what another process has is one.
    *group(
        "secrets behind a process", "ask",
        "cat /proc/1/environ", "cat /proc/self/environ", "cat /proc/1/task/1/environ", "cat /proc/*/environ",
        "cat /proc/1/mem", "cat /proc/self/cwd/.env", "cat process/.env", "cat /proc/1/root/etc/shadow",
        "cat process/../home/.ssh/x", "cat /proc/1/fd/3",
        allow="Bash(cat:*)",
    ),
    *group(
        "denied files behind a process", "ask",
        "cat /proc/self/cwd/data/f", "cd data && cat /proc/self/cwd/f", "cd /proc/self/cwd && cat data/f",
        "cat /proc/$$/cwd/data/f", "cat /proc/42/cwd/data/f", "cp /proc/self/cwd/data/f x", "cat process/data/f",
        "python3 /proc/self/cwd/data/f", "cd data && bat /proc/self/cwd/f", "tar cf x.tar process/data",
        "cat /dev/fd/3/data/f",
        allow="Bash", deny="Read(data/**)",
    ),
    *group(
        "denied files behind a process", "deny",
        "cat /proc/self/root{root}/data/f", "bash -c 'cat /proc/thread-self/root{root}/data/f'",
        allow="Bash", deny="Read(data/**)",
    ),
    *group(
        "files that were opened for reading", "ask",
        "tee /dev/stdin < .git/config", "tee /dev/fd/0 < .git/config", "cp a.txt /dev/stdin < .git/config",
        "sort -o /dev/stdin a.txt < a.txt", "dd of=/dev/stdin < .git/config", "truncate -s 0 /dev/stdin < .agentrc",
        "cp a.txt /dev/stdin < .git/hooks", "tee /dev/fd/0/x < .git/hooks", "tee /proc/self/fd/0 < .git/config",
        "{ tee /dev/fd/0; } < .git/config", "sed -i s/a/b/ /dev/stdin < .git/config",
        allow=("Bash", "Bash(dd:*)", "Bash(truncate:*)"),
    ),
    *group(
        "protected files behind a process", "ask",
        "cd .git && tee /proc/self/cwd/hooks/x", "cd .git && cp ../a.txt /proc/self/cwd/hooks/x",
        "cd .git && tee ../process/hooks/x", "tee /proc/42/cwd/x", "cd /proc/self/cwd/.git && tee x",
        allow="Bash",
    ),
    *group(
        "files behind a process", "allow",
        "cat < /dev/stdin", "cat /dev/stdin", "diff <(ls) <(ls src)", "echo x > /dev/stderr", "cat /dev/fd/0",
    ),
    *group(
        "files behind a process", "allow",
        "tee /dev/stderr", "tee /dev/fd/2", "cat /proc/cpuinfo", "cat /proc/self/status", "cp a.txt /dev/stdout",
        allow="Bash", deny="Read(data/**)",
    ),
    *group(
        "wrappers that change the directory", "ask",
        "env -C .git tee hooks/x", "env -C.git tee hooks/x", "env --chdir=.git cp ../a.txt hooks/x",
        "env --chdir .git tee hooks/x", "sudo -D .git tee hooks/x", "sudo --chdir=.git tee hooks/x",
        "env -C src -C .git tee hooks/x", "bash -c 'env -C .git tee hooks/x'", "env -C .git env -C hooks tee x",
        "timeout 5 env -C .git tee hooks/x", "git --work-tree=.git/hooks checkout a.txt",
        "git --work-tree .git/hooks checkout-index a.txt",
        allow="Bash",
    ),
    *group(
        "wrappers that leave the workspace", "ask",
        "env -C .. npm run test", "env --chdir=../outside npm run test", "timeout 5 env -C {out} npm run test",
        "env -C out npm run test", "bash -c 'env -C .. npm run test'",
        allow="Bash(npm run test:*)",
    ),
    *group(
        "wrappers that leave the workspace", "allow",
        "env -C src npm run test", "env --chdir={root}/src npm run test", "env -C src/deep npm run test",
        allow="Bash(npm run test:*)",
    ),
    *group(
        "wrappers that leave the workspace", "allow",
        "env -C .. npm run test", "cd .. && npm run test", "env -C src cat main.py",
        allow=("Bash(npm run test:*)", "Bash(cd:*)"),
    ),
    *group(
        "wrappers that change the directory", "deny",
        "env -C data cat f", "env --chdir=data cat f", "sudo -D data cat f", "env -C src -C data cat f",
        "timeout 5 env -C data head f", "env -C src cat {root}/data/f", "env -C src cat ../data/f",
        allow="Bash", deny="Read(data/**)",
    ),
    *group(
        "wrappers that change the directory", "ask",
        "env -S 'cat data/f'", "env -S'cat data/f'", "env -C src/.. cat data/f",
        "sudo --chroot=. cat data/f", "find data -execdir cat f \\;", "find . -name f -okdir cat f \\;",
        "find data -execdir sh -c 'cat f' \\;", 'env -C "$x" cat f', "timeout --weird 5 cat data/f",
        allow="Bash", deny="Read(data/**)",
    ),
    *group(
        "wrappers that change the directory", "ask",
        "env -C out cat x", "env -C / ls", "env -C .. ls", "env -C src git status", "env -C out ls",
        "env -C src ../x", "find src -execdir cat util.py \\;",
    ),
    *group("wrappers that change the directory", "allow", "env -C src cat util.py", "env --chdir=src ls"),
    *group(
        "wrappers that change the directory", "allow",
        "env -C src npm test", "env --chdir=src make", "env FOO=1 npm test",
        "git --work-tree=src status", "timeout -k 1 5 npm test",
        allow="Bash", deny="Edit(data/**)",
    ),
    # Only to scp and rsync is a name with a colon on another machine; a folder can have such a name.
    *group(
        "folders with a colon", "ask",
        "cp a.txt h:/../.git/hooks/x", "mv a.txt h:/../.git/hooks/x", "install a.txt h:/../.git/hooks/x",
        "cp h:/../.env x", "cp -t h:/../.git/hooks a.txt", "mv h:/../.env x", "cp a.txt 'u@h:/../.git/config'",
        "cp a.txt x://../.git/config", "ln a.txt h:/../.git/hooks/x", "dd of=h:/../.git/config",
        "cp a.txt '.git::$INDEX_ALLOCATION/config'", "pytest --weird=h:/../.git/hooks/x",
        allow=("Bash", "Bash(dd:*)"),
    ),
    *group(
        "folders with a colon", "ask",
        "cp a.txt h:/../../x", "mv a.txt h:/../../x", "install a.txt h:/../../x", "cp a.txt h:/../.git/hooks/x",
        allow=("Bash(cp:*)", "Bash(mv:*)", "Bash(install:*)"),
    ),
    *group(
        "folders with a colon", "deny",
        "cp h:/../data/f x", "mv h:/../data/f x", "cat h:/../data/f", "cp 'u@h:/../data/f' x",
        allow="Bash", deny="Read(data/**)",
    ),
    *group(
        "folders with a colon", "ask", "bat h:/../data/f", "bat 'x=/../data/f'", "mytool --in=h:/../data/f",
        allow="Bash", deny="Read(data/**)",
    ),
    *group(
        "folders with a colon", "allow",
        "cp a.txt x:y", "rsync a.txt host:x", "scp a.txt host:../x", "git push origin main:main", "mv a.txt b:c",
        "docker run -v /srv:/data img", "mytool user@host:dir", "cp h:x y",
        allow="Bash", deny="Read(data/**)",
    ),
    # bash's printf assigns a number to the variable that %n names, and words are split anew.
    *group(
        "printf assigns", "ask",
        "printf %n IFS; a=x0/etc/passwd; cat $a", "printf '12%n' IFS; a=x2id_rsa; cat $a",
        "printf '%5.3n' IFS; a=data/f0x; cat $a", "printf -- '%n' PATH; ls", "f=a.txt; printf %n f; cat $f",
        "printf '%(%s)T%n' 1 IFS; a=x; cat $a", "printf '%s%ln' a IFS; a=x1/etc/passwd; cat $a",
        "printf \"%'n\" IFS; a=x; cat $a", "printf '%% %n' IFS; ls", "printf %n x",
        "for i in 1 2; do a=x0/etc/passwd; cat $a; printf %n IFS; done", "{ printf %n IFS; }; a=x0/etc/passwd; cat $a",
    ),
    *group(
        "printf assigns", "ask",
        "printf %n IFS; a=b0.git/hooks/x; touch $a", "printf %n IFS; a=b0/etc/x; mkdir $a",
        mode="acceptEdits",
    ),
    *group(
        "printf assigns", "allow",
        "printf '%s\\n' a", "printf '%d%%\\n' 5; ls", "printf '%%n' x", "printf '%5.2f\\n' 1", "printf '%snext' a; ls",
        "printf '%b\\n' x; ls", "printf '%s' '100%n'; a=a.txt; cat $a",
    ),
    # What rides along with the rule that is proposed for a test runner.
    *group(
        "options of test runners", "ask",
        "npm test --script-shell=./x", "npm test --node-options=--import=data:text/javascript,x",
        "npm test -script-shell x", "npm test --script-sh ./x", "npm test --prefix ../x",
        "npm test --prefix=/tmp/x", "npm test -C ../x",
        "npm --prefix=../x test", "npm test --userconfig=x", "npm test --location=global", "npm test ../x",
        "pytest -o log_file=.git/config", "pytest -o log_file=../x", "pytest --override-ini log_file=.agentrc",
        allow=("Bash(npm test:*)", "Bash(npm:*)", "Bash(pytest:*)"),
    ),
    *group(
        "options of test runners", "ask", "npm install -g x", "npm install --registry=http://x y",
        "npm config set script-shell x --location=global", allow="Bash(npm:*)",
    ),
    *group(
        "options of test runners", "allow",
        "npm test", "npm test -- --watch=false", "npm test -- --script-shell x", "npm test --silent", "npm test -s",
        "npm test -w packages/a", "npm test --workspace=a --if-present", "npm test -- src/a.test.js", "npm test src/a",
        "pytest -o log_cli=true", "pytest -o log_file=out.log", "npm test --loglevel error",
        allow=("Bash(npm test:*)", "Bash(pytest:*)"),
    ),
    *group(
        "options of test runners", "allow", "npm run build --if-present", "npm ci", "npm install",
        "npm install left-pad", "npm run test:unit -- -t x", "npm audit --json",
        allow="Bash(npm:*)", deny="Read(data/**)",
    ),
    *group("options of test runners", "ask", "npm test data/f", allow="Bash", deny="Read(data/**)"),
    # Names of secret files are no secret, but those of files outside are read outside.
    *group(
        "names of secrets outside", "ask",
        "stat out/secret.txt", "ls ~/.ssh/id_rsa", "ls -R ~/.aws/sso", "du -a ~/.docker/x", "find ~/.kube/x",
        "test -f ../.env", "[ -e /etc/ssl/x.key ]", "echo ~/.ssh/id_*", "tree ~/.gnupg/x", "stat /proc/self/cwd/.env",
    ),
    *group("names of secrets outside", "allow", "ls .env", "stat .keys/id_rsa", "test -f .env", "find .keys"),
    # Options of `git config` end at its first other word.
    *group(
        "git config that sets", "ask",
        "git config alias.x '!id' --list", "git config core.fsmonitor ./x --get",
        "git config core.pager -- '--get; id'", "git config core.hooksPath x -l",
        "git config --add alias.x -- '--get-x; id'", "git config -- core.pager --get",
        "git config --local core.pager x --list", "git config -f .git/config core.pager x --get",
        "git config --replace-all core.pager x --get-all", "git config --type path core.hooksPath x --get",
        "git config -z core.pager x", "git config --unset core.pager --list", "git config -f --get core.pager x",
        allow=("Bash(git config:*)", "Bash(git:*)", "Bash"),
    ),
    *group(
        "git config that gets", "allow",
        "git config --get core.pager", "git config --list", "git config -l", "git config --local --get user.name",
        "git config user.name", "git config --global user.email", "git config -z --list", "git config list",
        "git config --get-all remote.origin.fetch", "git config --type bool --get core.bare",
        "git config --default x --get core.x", "git config get user.name", "git config --bool core.bare",
        allow="Bash(git config:*)",
    ),
    # git takes any beginning of an option that is no other's.
    *group(
        "shortened options of git", "ask",
        "git clone --u=./x . y", "git clone --u ./x . y", "git clone --co core.x=./y . y", "git rebase --ex ./x HEAD~1",
        "git push --ex=./x", "git grep --op=./x foo", "git diff --ou=.git/hooks/x", "git diff --o=../x",
        "git log --ou=../x", "git format-patch --ou=../x HEAD~1", "git init --te=x", "git clone --t=x . y",
        "git init --se=../x", "git apply --di=.git/hooks src.patch", "git apply --d=.git/hooks src.patch",
        "git apply --uns src.patch", "git am --d=.git/hooks src.patch", "git am --directory=.git src.patch",
        "git ls-remote --u=./x .", "git fetch-pack --e=./x", "git blame --c=../x a.txt", "git tag --fi=.env x",
        allow=("Bash(git:*)", "Bash(git diff:*)", "Bash(git grep:*)"),
    ),
    *group(
        "shortened options of git", "allow",
        "git log --cc", "git grep -e a --or -e b", "git log --stat", "git diff --cached", "git commit --amend",
        "git branch --contains x", "git log --first-parent", "git log --follow a.txt",
        "git fetch --prune", "git pull --rebase", "git commit --fixup=x", "git diff --color", "git log --oneline -3",
        "git add --patch", "git stash push --include-untracked", "git log --decorate", "git apply --check src.patch",
        allow="Bash(git:*)",
    ),
    *group(
        "shortened options that destroy", "ask",
        "git reset --hard", "git reset --har", "git reset --h HEAD~1", "git push --forc", "git push --fo",
        "git push -qf", "git push --del origin x", "git push -qd origin x", "git push --mir", "git push --m origin",
        "git push --pru",
        "git checkout --forc", "git checkout -qf", "git switch --disc other", "git switch --forc other",
        "git push --force-with-l", "git push --force-with-lease=x", "git -C . reset --har",
        allow=("Bash(git:*)", "Bash"),
    ),
    *group(
        "shortened options that destroy", "allow",
        "git reset --soft HEAD~1", "git reset a.txt", "git push -u origin x", "git push --tags", "git push --dry-run",
        "git checkout -b fix", "git checkout -bfix", "git switch -c fix", "git switch -cfix",
        "git checkout main", "git switch --detach", "git push --follow-tags", "git push --set-upstream origin x",
        allow="Bash(git:*)",
    ),
    *group(
        "shortened options that destroy", "allow", "git push --forc", "git reset --hard", "git checkout -qf",
        allow=("Bash(git push --forc:*)", "Bash(git reset --hard:*)", "Bash(git checkout -qf)"),
    ),
    *group(
        "operands that are more", "ask",
        "chmod --reference=a.txt .git/hooks/x", "chmod --ref a.txt ../x", "chown --ref=a.txt .git/hooks/x",
        "chgrp --reference=a.txt ../x", "vim '+!id' a.txt", "view '+!id' a.txt", "nvim '+lua x' a.txt",
        "vim '+w! .agentrc' a.txt", "vim '+/foo|!id' a.txt",
        allow=("Bash(chmod:*)", "Bash(chown:*)", "Bash(chgrp:*)", "Bash(vim:*)", "Bash(view:*)", "Bash(nvim:*)"),
    ),
    *group(
        "operands that are more", "allow",
        "chmod --reference=a.txt b.txt", "chmod +x b.txt", "vim +12 a.txt", "vim +/foo a.txt", "vim + a.txt",
        allow=("Bash(chmod:*)", "Bash(vim:*)"),
    ),
]  # fmt: skip
