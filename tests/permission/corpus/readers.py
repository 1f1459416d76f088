"""Attacks by options of programs that only read, and by what they are told to read."""

from tests.permission.corpus import group

CASES = [
    *group(
        "unsafe or unknown options", "ask",
        "ls --unknown", "ls --col", "ls --colo=x", "ls -@", "cat --foo", "cat -x a.txt", "cat --hel", "head -z5x a.txt", "head --line 5 a.txt", "head --presume-input-pipe a.txt", "tail -f a.txt", "tail -F a.txt", "tail -fn5 a.txt", "tail -5f a.txt", "tail --follow a.txt", "tail --foll=name a.txt",
        "tail --retry a.txt", "tail --pid=1 a.txt", "tail -n5 -f a.txt", "nl --foo a.txt", "nl -q a.txt", "tac --foo a.txt", "tac -x a.txt", "rev -x a.txt", "rev --foo a.txt", "wc --files0-from=list.txt", "wc --files0=list.txt", "wc -x a.txt", "grep -R x .", "grep --dereference-recursive x .", "grep -d recurse x .",
        "grep --directories=recurse x .", "grep -f .env a.txt", "grep --file=.env a.txt", "grep -f.env a.txt", "grep -D read x", "grep --devices=read x", "grep --exclude-from=.env x a.txt", "grep --exclude-f=.env x", "grep -nf .env a.txt", "grep --unknown x", "rg --pre cat x", "rg --pre=./x x", "rg --pre-glob x y", "rg --hostname-bin x y", "rg -z x", "rg --search-zip x",
        "rg -u x", "rg -uu x", "rg -uuu x", "rg --unrestricted x", "rg -. x", "rg --hidden x", "rg -L x", "rg --follow x", "rg --no-ignore x", "rg --ignore-file .env x", "rg -f .env a.txt", "rg -nf.env", "rg -g .env x", "rg -g '.env*' x", "rg --glob=.env x", "rg --iglob .ENV x", "rg -ng.env x", "rg --type-add x:.env x", "rg --generate man", "rg --pr x",
        "rg x .env", "rg x -- .env", "rg --files --hidden", "rg -e x .env", "rg x ..", "rg x /etc", "sed s/a/b/ a.txt", "sed -i s/a/b/ a.txt", "sed -n -i p a.txt", "sed -ni p a.txt", "sed --in-place p a.txt", "sed --in-pl p a.txt", "sed -n 'w f' a.txt", "sed -n '1w f' a.txt", "sed -n 's/a/b/w f' a.txt", "sed -n 's/a/rm x/e' a.txt", "sed -n '1e rm x' a.txt", "sed -n e a.txt",
        "sed -n 'r .env' a.txt", "sed -n 'R .env' a.txt", "sed -n '1p;w f' a.txt", "sed -n '1p\nw f' a.txt", "sed -n -e 1p -e 'w f' a.txt", "sed -ne 'w f' a.txt", "sed -n --expression='w f' a.txt", "sed -n -f x a.txt", "sed -nf x a.txt", "sed --file=x a.txt", "sed -n '/a/w f' a.txt", "sed -n '/a\\/w f/p;w g' a.txt", "sed -n '1{p;w f' a.txt", "sed -n 's/x/y/p' a.txt", "sed 10q a.txt", "sed -n $x a.txt", "sed -n \"${x}p\" a.txt",
        "sed -n 1p .env", "sed --debug -n 1p a.txt", "sort -o f a.txt", "sort -of a.txt", "sort --output=f a.txt", "sort --outp f a.txt", "sort a.txt -o f", "sort -uo f a.txt", "sort --compress-program=rm a.txt", "sort --compress-prog rm a.txt", "sort --files0-from=list.txt", "sort -T /tmp a.txt", "sort -S 1 a.txt", "sort --temporary-directory=/tmp a.txt", "sort --random-source=.env a.txt", "sort --debug a.txt",
        "uniq a.txt f", "uniq -c a.txt f", "uniq a.txt -c f", "uniq - f", "uniq -- a.txt f", "uniq --foo a.txt", "uniq a.txt b.txt", "cut --foo a.txt", "tr -x a b", "comm --foo a.txt b.txt", "cmp --foo a.txt b.txt", "diff --from-file=.env a.txt", "diff --to-file=.env a.txt", "diff -l a.txt b.txt", "diff --paginate a.txt b.txt", "diff --foo a b", "diff a.txt .env", "diff . same", "diff -r . same", "diff -r a.txt ..", "diff -D x a b",
        "diff -X .env a b", "diff --exclude-from=.env a b", "stat --foo a.txt", "file -C", "file -C -m x", "file -m x a.txt", "file -f list.txt", "file --files-from list.txt", "file -z a.txt", "file -Z a.txt", "file --compile", "file -S a.txt", "file -s a.txt", "file .env", "du --files0-from=list.txt", "du --exclude-from=.env", "du -X .env", "du -L", "df --foo", "tree -o f", "tree -of", "tree -ao f", "tree -Lo 2 f", "tree -aLo 2 f", "tree --output=f", "tree -R -L 1 -H .", "tree --fromfile x", "tree -l", "tree --info", "tree -X",
        "date -s x", "date --set=x", "date --se=x", "date -us x", "date 01010000", "date -u 01010000", "date -f .env", "date --file=.env", "date -r .env", "date --reference=.env", "date -d x 0101", "uname --foo", "whoami x", "id root", "seq --foo", "basename --foo", "realpath --foo a", "realpath /etc/passwd", "readlink --foo", "readlink -f /etc/passwd", "which --foo ls", "which -x ls", "type -x ls",
        "printf -v x y", "printf -v PATH y", "printf -vx y", "command -x", "test -v x", "[ -v x ]", "[ -R x ]", "test -f /etc/passwd", "[ -e ../x ]", "set -o vi", "set -a", "set -- x", "set", "set -x -a", "exit x", "exit 1 2", "cd", "cd -", "cd a b", "cd -x", "pushd src", "popd", "dirs", "alias", "export", "export X=1", "declare -p", "readonly", "local x", "unset x", "read x", "hash", "jobs -x ls", "wait -n", "help", "times", "fc -l", "history", "ulimit -a", "umask", "shopt", "enable", "logout", "caller", "suspend",
        "find . -newer .env -delete", "find . -printf x -fprintf f x", "find . -regextype x -exec ls ;", "find -D exec .", "find -O3 .", "find . -samefile x", "find . -newerXY x", "find . -context x", "find .. -name x", "find / -name x", "find ~ -name x", "find -H out/ -name x", "find out/ -name x", "find . -name",
        "md5sum -c x", "sha256sum --check x", "md5sum .env", "sha1sum -x a.txt", "whoami --foo", "id -x", "egrep -R x .", "fgrep -f .env a.txt",
    ),
    *group(
        "secrets", "ask",
        "cat .env", "cat ./.env", "cat .//.env", "cat {root}/.env", "cat src/../.env", "cat .env.local", "cat .env.production", "cat .envrc", "cat .env-prod", "cat deploy/.env.production", "head -1 .env", "tail .env", "nl .env", "tac .env", "rev .env", "wc -l .env", "grep KEY .env", "grep -c KEY .env", "grep KEY -- .env", "grep -e KEY .env", "grep KEY a.txt .env", "sort .env", "uniq .env",
        "cut -d= -f2 .env", "comm .env a.txt", "cmp .env a.txt", "cat a.txt .env", "cat -- .env", "cat -n .env", "base64 .env", "xxd .env", "od .env", "cat < .env", "cat notes", "cat .keys/id_rsa", "cat id_rsa", "cat id_ed25519", "cat server.pem", "cat tls.key", "cat x.p12", "cat credentials", "cat credentials.json", "cat secrets.yaml", "cat .netrc", "cat .npmrc", "cat .pypirc", "cat .git-credentials", "cat .pgpass",
        "cat .aws/credentials", "cat .ssh/config", "cat ~/.ssh/id_rsa", "cat ~/.aws/credentials", "cat .kube/config", "cat .docker/config.json", "cat kubeconfig", "cat service-account.json", "cat .ENV", "cat ID_RSA", "cat x.env", "cat env.local", "md5sum .env", "git show HEAD:.env", "git diff .env", "git diff -- .env", "git log -p -- .env", "git blame .env", "git show :.env", "git cat-file -p HEAD:.env", "git grep KEY -- .env", "git diff HEAD -- deploy/.env.production",
        "grep -r KEY .", "grep -rn KEY", "grep -r KEY deploy", "grep -r KEY . src", "grep -rh '' .keys", "grep --recursive KEY .", "egrep -r KEY .", "diff -r . same", "rg KEY deploy/.env.production", "cd deploy && cat .env.production", "cd deploy; grep -r KEY .", "cat \"$(echo .env)\"", "cat .e\\nv", "cat '.env'", "cat .e''nv", "cat $'.env'", "x=.env; cat $x", "for f in a.txt .env; do cat $f; done",
    ),
    *group(
        "secrets", "allow",
        "cat .env.example", "head .env.example", "cat .env.sample", "cat .env.template", "ls .env", "ls -la .keys", "stat .env", "find . -name '.env*'", "test -f .env", "[ -f .env ] && echo yes", "cat id_rsa.pub", "rg KEY", "rg -n KEY src", "grep -rn KEY src docs", "wc -l .env.example", "rg -g '!*.md' TODO", "cat environment.md", "cat keys.md", "cat tokenizer.py", "cat src/env.py",
    ),
    *group("secrets", "allow", "cat .env", "head -1 .env", allow="Read(.env)"),
    *group("secrets", "ask", "cat .env", allow="Read"),
    *group("secrets", "allow", "cat .env", allow="Bash(cat .env)"),
    *group(
        "outside of the workspace", "ask",
        "cat /etc/passwd", "cat ../x", "cat ../../x", "cat src/../../x", "cat {out}/secret.txt", "cat out/secret.txt", "cat out_file", "cat ./out_file", "ls /", "ls ..", "ls ../", "ls out", "ls out/", "ls -la /etc", "ls src/../..", "head /etc/hosts", "grep x /etc/passwd", "grep -r x /etc", "grep -r x ..", "grep -r x src ..", "rg x /etc", "rg x ..", "rg x src ../..", "find / -name x",
        "find .. -name x", "find src .. -name x", "find out/ -name x", "wc /etc/passwd", "sort /etc/passwd", "diff a.txt /etc/passwd", "stat /etc/passwd", "file /etc/passwd", "du /", "du -sh ..", "df /etc", "tree /", "tree ..", "realpath ../x", "readlink /etc/mtab", "test -f /etc/passwd", "[ -d .. ]", "[[ -f /etc/passwd ]]", "[[ -e ../x ]]", "cat /etc/../{root}/../x", "cat /etc/./passwd", "cat /proc/self/cmdline",
        "cat -- /etc/passwd", "cat '/etc/passwd'", "cat /e''tc/passwd", "cat /etc\\/passwd", "cat a.txt /etc/passwd", "head -n1 -- ../x", "git diff /etc/passwd a.txt", "git diff --no-index a.txt b.txt", "git diff ../x ../y", "git show HEAD:../x", "git log -- ../x", "git blame /etc/passwd", "git -C .. status", "git -C src status", "git --git-dir=/x status", "git --work-tree=/ status", "cat ${x}/etc/passwd", "uniq /etc/passwd", "cut -c1 /etc/passwd", "nl ../x", "seq 1 2 | cat - /etc/passwd",
    ),
    *group("outside of the workspace", "allow", "cat /etc/hosts", "head -1 /etc/hosts", "cat < /etc/hosts", allow="Read(//etc/hosts)"),
    *group("outside of the workspace", "allow", "cat /etc/hosts", mode="plan", allow="Read(//etc/hosts)"),
    *group("outside of the workspace", "ask", "cat /etc/passwd", "cat /etc/hosts /etc/passwd", allow="Read(//etc/hosts)"),
    *group(
        "changing the directory", "ask",
        "cd .. && ls", "cd / && ls", "cd /etc; ls", "cd src/../.. && ls", "cd && ls", "cd ~ && ls", "cd - && ls", "cd $x && ls", "cd \"$x\" && ls", "cd s* && ls", "cd out && ls", "cd out_sub && cd .. && ls", "cd src && cd ../.. && ls", "cd src && cat ../../x", "cd src/top && cat ../x", "cd src/top && cd .. && cat ../x", "cd src && ls ../..", "(cd .. && ls)", "cd src; cat ../x",
        "cd nope; cat ../x", "cd nope || cat ../x", "! cd nope && cat ../x", "if ! cd nope; then cat ../x; fi", "cd src | cat ../x", "cd src & cat ../x", "false && cd src; cat ../x", "while cd ..; do cat x; done", "for i in 1 2; do cat x; cd ..; done", "f() { cd ..; }; f; cat x", "eval 'cd ..'; cat x", "command cd ..; cat x", "builtin cd ..; cat x", "pushd ..; cat x", "cd -P src/top && cd .. && cat x",
        "cd -P src && cat main.py", "cd out_sub/.. && ls", "cd out_sub/../sub && cat x", "cd src/top/.. && cat x", "cd deeper/../../x && ls", "CDPATH=/etc cd ssh && cat x", "cd src && git status", "cd nested && git status", "cd src && git log", "bash -c 'cd .. && ls'", "cd src/.. /etc && ls", "cd -- .. && ls", "cd -L .. && ls", "cd -e src && ls", "cd .git && cat ../../x", "cd src && cd $OLDPWD && ls",
        "set -P; cd src/top; cd ..; cat x", "shopt -s autocd; src", "shopt -s cdable_vars; cd x", "cd src && rm x", "cd ./../work/.. && ls",
    ),
    *group(
        "changing the directory", "allow",
        "cd src && ls", "cd src; ls", "cd src && cat main.py", "cd src && ls deep", "cd src/deep && ls ..", "cd src && cd .. && ls", "cd src && cat ../a.txt", "cd ./src && ls", "cd {root} && ls", "cd {root}/src && ls", "cd src && grep -n TODO *.py", "(cd src && ls); ls", "cd src && pwd", "cd src || exit 1", "cd src && ls && cd ../tests && ls", "cd -- src && ls", "cd src/.. && ls", "cd . && ls", "cd deeper && ls",
        "cd src/top && ls", "if cd src; then ls; fi", "cd src && { ls; pwd; }", "cd src && ls; true", "cd tests && wc -l test_main.py && cd ..",
    ),
    *group("changing the directory", "ask", "cd .. && cat x", "cd /etc && cat passwd", "cd out_sub/.. && cat secret.txt", "cd $x && cat passwd", allow="Bash(cd:*)"),
    *group("in a folder below", "allow", "ls", "cat main.py", "cat ../a.txt", "git status", "git diff", cwd="src"),
    *group("in a folder below", "ask", "cat ../../x", "cd ../.. && ls", cwd="src"),
    *group("in a nested repository", "ask", "git status", "git log", "git diff", cwd="nested"),
    *group("in a nested repository", "allow", "ls", "cat x.txt", cwd="nested"),
]  # fmt: skip
