"""Everyday commands, which must not ask: none of them does more than read inside the workspace."""

from tests.policy.corpus import group

CASES = [
    *group(
        "everyday reading", "allow",
        "ls", "ls -l", "ls -la", "ls -lah", "ls -1", "ls -R src", "ls -lt src", "ls -lS src", "ls --color=never src",
        "ls -a .", "ls src tests docs", "ls -d src", "ls -ld src", "ls src/*.py", "ls -1 src | wc -l",
        "ls -la src | head -20", "ls nothing 2>/dev/null", "ls nothing 2>&1", "ls --all",
        "ls -lh --time-style=long-iso src", "ls -lai --group-directories-first src", "ls 'two words.txt'",
        "ls two\\ words.txt",
        "cat a.txt", "cat a.txt b.txt", "cat -n a.txt", "cat -A a.txt", "cat src/main.py | head -50",
        "cat a.txt | grep two", "cat a.txt | sort | uniq -c | sort -rn", "cat 'two words.txt'",
        "cat \"two words.txt\"", "cat ./a.txt", "cat nothing 2>/dev/null || true", "cat a.txt; echo; cat b.txt",
        "cat package.json | head -5", "cat -s a.txt", "cat README.md", "cat Makefile",
        "head a.txt", "head -5 a.txt", "head -n 5 a.txt", "head -n5 a.txt", "head -c 100 a.txt",
        "head --lines=5 a.txt", "head -n -1 a.txt", "head -20 src/main.py src/util.py", "head -qn1 a.txt b.txt",
        "tail a.txt", "tail -5 a.txt", "tail -n 5 a.txt", "tail -n +2 a.txt", "tail -c 10 a.txt",
        "tail --lines=3 a.txt", "tail -n1 a.txt b.txt", "head -30 a.txt | tail -10", "nl a.txt", "nl -ba a.txt",
        "tac a.txt", "rev a.txt",
        "wc a.txt", "wc -l a.txt", "wc -l src/*.py", "wc -lc a.txt b.txt", "wc -w README.md",
        "find src -name '*.py' | wc -l", "cat a.txt | wc -l", "wc -L a.txt", "grep two a.txt", "grep -n two a.txt",
        "grep -rn TODO src", "grep -rn TODO src tests", "grep -ri todo src", "grep -rl TODO src", "grep -c two a.txt",
        "grep -v two a.txt", "grep -w two a.txt", "grep -i TWO a.txt", "grep -o 't.o' a.txt",
        "grep -E 'one|two' a.txt", "grep -F 'a.b' a.txt", "grep -A2 -B2 two a.txt", "grep -A 2 two a.txt",
        "grep -C3 two a.txt", "grep -nE '^def ' src/main.py",
        "grep -e one -e two a.txt", "grep -q two a.txt && echo yes", "grep -l one a.txt b.txt", "grep -h one *.txt",
        "grep -rn --include='*.py' main src", "grep -rn --include=*.py main src", "grep -rnw src -e main",
        "grep -rn --exclude-dir=deep x src", "grep -m1 one a.txt", "grep --color=never two a.txt",
        "grep -P '\\d' b.txt", "grep -n 'a b' a.txt", "grep -n \"x\\\"y\" a.txt", "grep -- -x a.txt",
        "grep -s one nothing", "grep -c '' a.txt", "grep -x one a.txt", "egrep 'one|two' a.txt", "fgrep one a.txt",
        "grep -rc def src | head", "grep -L one a.txt b.txt", "grep -z one a.txt",
        "rg TODO", "rg -n TODO", "rg -i todo src", "rg -l TODO", "rg TODO src tests", "rg -w main src",
        "rg -g '!*.md' TODO", "rg -A2 -B2 main src", "rg -C 3 main src", "rg --files src", "rg --files", "rg -c one",
        "rg -o 'o.e' a.txt", "rg -F 'a.b'", "rg -e one -e two", "rg -v one a.txt", "rg -U 'one\\ntwo' a.txt",
        "rg --json one a.txt", "rg --type-list", "rg -n 'def \\w+' src | head -20", "rg one -m 1", "rg -S todo",
        "rg --no-heading -n TODO src", "rg --max-depth 2 one", "rg -nP '(?<=o)n' a.txt", "rg --stats one a.txt",
        "rg --sort path one", "rg -r x one a.txt",
        "find . -name '*.py'", "find src -type f", "find . -type d", "find . -maxdepth 2 -type f",
        "find . -name '*.py' -o -name '*.md'", "find . -not -path './.git/*' -name '*.txt'",
        "find . -path ./nested -prune -o -name '*.py' -print", "find src tests -name '*.py' -print0",
        "find . -iname 'READ*'", "find . -size +1k", "find . -mtime -1", "find . -newer a.txt", "find . -empty",
        "find src -type f | sort", "find . -name '*.py' | head -20", "find . \\( -name '*.py' -o -name '*.md' \\)",
        "find . ! -name '*.py' -type f", "find . -printf '%p\\n'", "find src -ls", "find . -regex '.*py'",
        "find . -type f -perm -100", "find . -mindepth 1 -maxdepth 1", "find . -type l", "find",
        "sed -n '1,10p' a.txt", "sed -n 5p a.txt", "sed -n '2,$p' a.txt", "sed -n '$p' a.txt",
        "sed -n '/one/p' a.txt", "sed -n '/one/,/three/p' a.txt", "sed -n '1,5p;8p' a.txt",
        "sed -n -e 1p -e 2p a.txt", "sed -ne '1,2p' a.txt", "sed -n '10,20p' src/main.py", "sed -n '2p;3q' a.txt",
        "sed -n '/a\\.b/p' a.txt", "cat a.txt | sed -n 1p", "sed -nE '/o+/p' a.txt", "sed --quiet 1p a.txt",
        "sed -n '1!p' a.txt", "sed -n '$=' a.txt",
        "sort a.txt", "sort -u a.txt", "sort -rn a.txt", "sort -k2 a.txt", "sort -k2,2n -t: a.txt",
        "sort -t, -k1 a.txt", "sort a.txt b.txt | uniq", "sort -h a.txt", "sort -V a.txt", "sort --reverse a.txt",
        "sort -c a.txt", "uniq a.txt", "uniq -c a.txt", "sort a.txt | uniq -d", "uniq -i a.txt", "cut -d: -f1 a.txt",
        "cut -c1-5 a.txt", "cut -f2 a.txt", "cut -d ' ' -f 1,3 a.txt", "cat a.txt | cut -d= -f2",
        "tr a-z A-Z < a.txt", "cat a.txt | tr -d '\\n'", "echo a | tr a b", "tr -s ' ' < a.txt", "comm a.txt b.txt",
        "comm -12 a.txt b.txt", "cmp a.txt b.txt", "cmp -s a.txt b.txt",
        "diff a.txt b.txt", "diff -u a.txt b.txt", "diff -q a.txt b.txt", "diff -r src tests", "diff -rq src docs",
        "diff -y a.txt b.txt", "diff --color=never a.txt b.txt", "diff -wB a.txt b.txt",
        "diff <(sort a.txt) <(sort b.txt)", "diff -U 5 a.txt b.txt", "stat a.txt", "stat -c %s a.txt",
        "stat --format=%Y a.txt", "file a.txt", "file -b src/main.py", "file --mime-type a.txt", "du -sh .",
        "du -sh src", "du -a src", "du -h --max-depth=1", "du -d 1 src", "df -h", "df -h .", "df", "tree",
        "tree -L 2", "tree src", "tree -a -I .git", "tree -d src", "tree --dirsfirst src", "md5sum a.txt",
        "sha256sum a.txt",
        "pwd", "pwd -P", "echo hi", "echo -n hi", "echo -e 'a\\tb'", "echo \"it's\"", "echo 'a \"b\"'", "echo a b c",
        "echo --- ; ls", "echo", "printf '%s\\n' a b", "printf 'x\\n'", "printf \"%d\\n\" 5", "true", "false", ":",
        "true && ls", "false || ls", "test -f a.txt", "test -d src && ls src", "[ -f a.txt ]",
        "[ -f a.txt ] && cat a.txt", "[ -d src ] || echo none", "[ ! -f nothing ]", "[ -n x -a -z '' ]",
        "[ 1 -eq 1 ]", "[ a = b ]", "[ a.txt -nt b.txt ]", "[[ -f a.txt ]] && cat a.txt", "[[ a == a* ]]",
        "[[ -d src && -f a.txt ]]", "[[ a =~ ^a ]]", "[[ -z '' ]] && echo x",
        "expr 1 + 2", "expr length abc", "seq 5", "seq 1 10", "seq -w 1 3", "seq -s, 3", "basename src/main.py",
        "basename src/main.py .py", "basename -a a b", "dirname src/main.py", "realpath a.txt", "realpath src/..",
        "readlink -f a.txt", "date", "date +%s", "date -u", "date '+%Y-%m-%d'", "date -d yesterday +%F",
        "date -d '2 days ago'", "date -Iseconds", "date -R", "date --iso-8601", "uname", "uname -a", "uname -sr",
        "whoami", "id", "id -u", "id -un", "which python3", "which -a ls", "which git node", "command -v git",
        "command -v node >/dev/null && echo yes", "type ls", "type -a git",
        "if [ -f a.txt ]; then cat a.txt; else echo none; fi", "for f in a.txt b.txt; do wc -l \"$f\"; done",
        "for i in 1 2 3; do echo $i; done", "for d in src tests; do echo \"== $d\"; ls \"$d\"; done",
        "case x in x) ls;; *) pwd;; esac", "{ ls; pwd; }", "(ls; pwd)", "(cd src && ls)", "! grep -q x a.txt", "ls &",
        "time ls", "ls || true", "ls; ls", "ls && pwd && git status", "ls\npwd\n", "ls # a comment",
        "ls \\\n  -l \\\n  src", "set -e\nls\ncat a.txt", "set -euo pipefail; ls | head -1", "cat a.txt || exit 1",
        "cd src || exit; ls", "test -f a.txt || { echo none; exit 1; }", "until true; do ls; done",
        "while false; do ls; done",
        "cat <<E\nhello\nE", "cat <<'E' | wc -l\na\nb\nE", "grep x <<< \"x y\"", "cat a.txt - < b.txt",
        "cat <(ls) <(pwd)", "timeout 10 grep -rn x src", "LC_ALL=C sort a.txt", "nice ls", "env LC_ALL=C ls",
        "bash -c 'ls src | head -3'", "ls src/ && cat src/main.py | head -5 && git log --oneline -3",
        "git status --short && git diff --stat && git log --oneline -5", "git log --oneline -5 2>/dev/null | cat",
        "head -c 200 a.txt | tail -c 50", "rg -n TODO src || echo 'no match'",
        "find . -name '*.py' -not -path '*/nested/*' | sort | head -50", "wc -l < a.txt",
        "cat a.txt 2>&1 | head -3; echo \"exit: $?\"", "[ -f package.json ] && head -3 package.json",
        "[ -e nothing ] || echo missing",
    ),
    *group(
        "everyday with rules", "allow", "npm run test", "npm run test -- --watch", "npm run test --silent",
        "npm run test 2>&1", "npm run test 2>&1 | tail -20", "npm run test > /dev/null", "npm run test && git status",
        "cd src && npm run test", "npm run test || true", "npm run test; echo $?", "time npm run test",
        "timeout 60 npm run test", "LC_ALL=C npm run test", "CI=1 npm run test", "NO_COLOR=1 npm run test | cat",
        "(npm run test)", "if npm run test; then echo ok; fi", "npm run test -- 'a b' \"c d\"",
        "npm run test | grep -c ok", "npm run test &", "for i in 1 2; do npm run test; done", "! npm run test",
        allow="Bash(npm run test:*)"
    ),
    *group(
        "everyday with rules", "allow", "python -m pytest", "python -m pytest -q tests",
        "python -m pytest -x 2>&1 | tail -5", "cd tests && python -m pytest -q", allow="Bash(python -m pytest:*)"
    ),
    *group(
        "everyday with rules", "ask", "python -m pip install x", "python -c 1", "python", "python -m pytesting",
        allow="Bash(python -m pytest:*)"
    ),
    *group(
        "everyday with rules", "allow", "git add -A && git commit -m 'a message; with signs && all'", "git add a.txt",
        "git commit -am \"x\"", "git status && git add . && git commit -m x",
        allow=("Bash(git add *)", "Bash(git commit *)")
    ),
    *group(
        "everyday with rules", "allow", "make", "make test", "make -j4 test 2>&1 | tail -3", "make && ls",
        allow="Bash(make:*)"
    ),
    *group(
        "everyday with rules", "allow", "cargo build --release", "cargo test -- --nocapture",
        "cargo test 2>&1 | grep FAILED", allow=("Bash(cargo build:*)", "Bash(cargo test:*)")
    ),
    *group(
        "everyday with rules", "allow", "ruff check . && ruff format --check . && mypy", "ruff check --fix src",
        allow=("Bash(ruff:*)", "Bash(mypy)")
    ),
    *group(
        "everyday with rules", "allow", "awk '{print $1}' a.txt", "cat a.txt | awk '{print $1}' | sort",
        "awk 'END { print NR }' a.txt", allow="Bash(awk:*)"
    ),
    *group(
        "everyday with rules", "allow", "mkdir -p build", "mkdir -p build && ls build", "cp a.txt build/", "touch x",
        allow=("Bash(mkdir:*)", "Bash(cp:*)", "Bash(touch:*)")
    ),
    *group("everyday with rules", "allow", "sed -i s/a/b/ a.txt", allow="Bash(sed:*)"),
    *group(
        "everyday with rules", "allow", "jq . package.json", "cat package.json | jq -r '.scripts | keys[]'",
        allow="Bash(jq:*)"
    ),
    *group(
        "everyday with rules", "allow", "find src -name '*.py' -print0 | xargs -0 wc -l", allow="Bash(xargs -0 wc:*)"
    ),
]  # fmt: skip
