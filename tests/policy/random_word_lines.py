"""Command lines by chance whose words are spelled in every way that bash knows: for the comparison with the real shell.

They call `rec`, or programs that do not exist; all that they write stays below the folder that they run in.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from agent_tools.record import Value

VARIABLES = ("x", "y", "z", "e", "u", "v")
_NAMES = VARIABLES[:4]
_PLAIN = (
    "a", "b.txt", "sub", "rec", ".env", "w", "/", ".", "-n", "=", ":", ",", "%", "+", "@", "#", "^", "!", "]", "0",
    "7", "x=", "a=b", "--k=", "é", "{}", "{", "}", "sub/c", "..",
)  # fmt: skip
_QUOTED = (
    "'a b'", "''", '""', '"a  b"', "'*'", '"$x"', '"${y}"', '"\\$x"', '"a\\b"', '"a\\\nb"', "\\a", "\\ ", "\\*",
    "\\$", "\\\\", "a\\\nb", "\\~", "'\\'", '"\\\\"', '"\\`"', '"<()"', "'$x'", '"\'"', "'\"'", '"~"', '"é"', "\\é",
    '"!"', "$'a'", "$'a\\tb'", "$'\\x61'", "$'\\141'", "$'\\u61'", "$'\\cA'", "$'\\e'", "$'\\''", "$'a\\0b'",
    "$'\\q'", "$''", "$'\\x'", "$'\\n'", '$"a"', '$"$x"', '$""', "\\{a,b}", "{a\\,b}", "'{a,b}'", "\\'", '"$\'a\'"',
    '"$"', "$", '"a$"',
)  # fmt: skip
_EXPANDED = (
    "\"$(cat <<'E'\na  b\n$x \\\n\nE\n)\"", "\"a$(cat <<'E'\n'*\\n\"\nE\n) b\"", "$(cat <<'E'\na b\nE\n)",
    "\"$(cat <<E\n$x\nE\n)\"", "\"$(cat <<'E'\nE\n)\"", "\"$(cat <<-'E'\n\ta\n\tE\n)\"",
    "\"$(cat <<'E' | cat\na\nE\n)\"", "<()", ">()", "<( )", ">(\n)", "<(:)", ">(:)", "<(rec q)", "<(<())", "$x",
    "${x}", "$y", "$z", "${z}", "$e", "${e}", "$u", "${u-a}", "${x:-a}", "${e:-a}", "${e-a}", "${x:+a}", "${e:+}",
    "${x:=q}", "${u:=q}", "${x#a}", "${x##*}", "${x%b}", "${y%%.*}", "${x/a/b}", "${x//a}", "${x/#a/}", "${x^}",
    "${x^^}", "${x,,}", "${x@Q}", "${x@P}", "${x@a}", "${!x}", "${!x*}", "${#x}", "${#}", "${x:1}", "${x:0:1}",
    "${x: -1}", "${x[0]}", "${x[1]}", "${x[@]}", "${x[*]}", '"${x[@]}"', "${#x[@]}", "${!x[@]}", "$@", '"$@"', "$*",
    '"$*"', "$1", "${1}", '"$2"', "${10}", "$#", "$?", "$-", "$!", "$_", "$0", "$IFS", "${IFS}", "$HOME", "$((1+1))",
    "$((7/2))", "$((-7/2))", "$((-7%3))", "$((010))", "$((0x1f))", "$((2**3))", "$((1,2))", "$((x))", "$((1<2))",
    "$((3-5*2))", "$((!0))", "$(( 1 + 1 ))", "$[1+1]", "$((1/0))", "$((9999999999))", "$((1_0))", "$((2#11))",
    "$((+3))", "$((- 3))", "$(( (1+2)*3 ))", "$((1?2:3))", "$(printf a)", "$(printf 'a b')", "`printf a`", "$(:)",
    "``", "$()", "$(<a)", '"$(printf "a b")"', "$(\n)", "${ }", "${x-$(printf a)}", '"${x:-"a b"}"', "${e:-'a b'}",
    '"${e:-\'a\'}"', "${e:-a<()b}", '"${e:-<()}"', "$((`:`1))", "~", "~/a", "~root", "~nobody/x", "~+", "~-", "~0",
    ":~", "=~/a", "x=~", "a:~/b", "x=~:~", "\\~/a", "*", "?", "[ab]", "a*", "*.txt", "s*/c", "[!a]", "[^a]*",
    "[[:alpha:]]", "**", "sub/*", "*nope*", "[", "[a", "a]", "+(a)", "@(a|b)", "!(a)", "*(a)", "?(a)", ".*", "\\[ab]",
    "[a\\]", "'['ab]", "[a'b'", "*\\*", "{a,b}", "{a,}", "{,}", "{a}", "{}", "{a,b", "a,b}", "{1..3}", "{a..c}",
    "{1..}", "{1..3..2}", "{a,{b,c}}", "${x,}", "{$x,b}", "{a,$x}", "{'a',b}", "{a' 'b}", "{a\\ b,c}", '{"a,b"}',
    "{a,b}{c,d}", "$x{a,b}", "{a,\\}}", "{..}", "{x..}", "{a,<()}", "{<(),b}", "{-1..1}", "{01..3}", "{a..3}",
    "{~,a}", "{a$(:),b}", "{''a,b}", "{1'..'3}", "{1..$x}",
)  # fmt: skip
_VALUES = (
    "$(cat <<'E'\na *\nE\n)", "", "a", "ab", "'a b'", "*", "'*'", "~", "~/a", "a:~", "{a,b}", "$x", '"$x"', "$x$x",
    "<()", "a<()b", "<(:)", "b.txt", "$'a\\tb'", "5", "\\a", "'\\a'", "''", '""', "' a'", "'a '", "[ab]", "(a b)",
    "()", "(<() a)", "([1]=a)", "$(printf ab)", "`printf a`", "$((1+1))", "é", "sub", "a\\ b", "'~'", "$u", "${e}a",
    "-n", "a=b", "=", '"a\\\nb"', "$'\\x61'",
)  # fmt: skip
_BEFORE = (
    "cat() { printf q; }", "set -- a 'b c' d", "set -- $x", "set -- <()", "shift", "set -f", "set -u", "set -B",
    "set +B", "set -o noglob", "set -o posix", "set -k", "set -n", "shopt -s nullglob", "shopt -s dotglob",
    "shopt -s extglob", "shopt -s failglob", "shopt -s globstar", "shopt -s nocaseglob",
    "shopt -s expand_aliases\nalias rec='rec al'", "shopt -s expand_aliases\nalias al='rec b'\nal", "alias rec=no",
    "shopt -u sourcepath", "IFS=a", "IFS=", "IFS=:", "IFS=$'\\n'", "HOME=sub", "HOME=", "unset HOME", "unset x",
    "unset IFS", "unset -v y", "export x=q", "readonly x=q", "declare x=q", "declare -i x=1+1", "declare -u x=q",
    "declare -n x=y", "local x=q", "typeset -l y=Q", "x+=b", "y+=$x", "x[0]=q", "x=(a b)", "x+=(c)", "read x <<< q",
    "read -r x y <<< 'p q'", "printf -v x q", "let x=1", "((x=5))", "((x++))", "eval x=q", "eval 'x=q'",
    "trap 'rec t $x' EXIT", "trap 'x=q' DEBUG", "f() { x=q; }; f", "f() { rec in $x; }; f a", "rec() { no $x; }",
    "cd sub", "cd sub && cd ..", "cd nope", "cd nope || x=q", "true && x=q", "false && x=q", "false || x=q", "(x=q)",
    "{ x=q; }", "{ x=q & }", "x=q | :", ": ${x:=q}", ": ${u:=q}", ": $((x=5))", "for x in p q; do :; done", "e=",
    "if true; then x=q; fi", "case a in a) x=q ;; esac", "while false; do x=q; done", "select x in; do :; done",
    "mapfile x < a", "x=$(printf q)", "x=<()", "y=a<()b", "x=$x", "x=$y y=$x", "x=a x=b", "x= rec one",
    "x=q rec one $x", "x=$y rec $y", "x=a rec $x; rec $x", "coproc :", "getopts a x", ". ./b.txt", "source <(:)",
    "exec 5< a", "umask 022", "command x=q", "builtin eval x=q", "command eval x=q", "command cd sub", "pushd sub",
    "CDPATH=sub", "GLOBIGNORE=a", "BASH_ENV=a", "time x=q", "! x=q", "x=q; unset x", "until true; do x=q; done",
    "[[ a =~ (a) ]]", "[[ -v x ]]", "hash -p a rec", "for ((x=0;x<1;x++)); do :; done", "enable -n printf", "x=<(:)",
    "unset -f rec", "x=a'b'\"c\"\\d", "export x", "set +f",
)  # fmt: skip
# §: a command, ¶: one in single quotes.
_WRAPS = (
    "§", "§", "§", "§", "§", "§", "(§\n)", "{ §\n}", "if :; then §\nfi", "for x in a 'b c'; do §\ndone",
    "for z in {a,b}; do §\ndone", "for x; do §\ndone", "for z in <(); do §\ndone", "for z in $x b; do §\ndone",
    "case $x in a) §\n;; *) §\n;; esac", "case a in *) §\n;; esac", "eval ¶", "eval § ", "f() { §\n}; f a b",
    "§ &\nwait", "§ | :", ": | §", "! §", "time §", "§ && rec two", "false || §", ": \"$(§\n)\"", ": <(§\n)",
    "while §\nfalse; do :; done", "command §", "trap ¶ EXIT", "x=$(§\n)", "[[ -n $(§\n) ]]", ": $(( $(§\n) + 1 ))",
    "select x in a; do §\nbreak; done <<< 1", "until §\ntrue; do :; done", "function f { §\n}\nf", "f() ( §\n); f q",
    "cat <<E\n$(§\n)\nE\n", "cat <<'E'\n§\nE\n", ": ${e:-$(§\n)}", "x=(a b); §", "for z in \"$@\"; do §\ndone",
    "x=b; { x=c; §\n}; §", "(x=c; §\n); §", "builtin §", "exec §", "if §\nthen §\nelse §\nfi",
)  # fmt: skip
_TARGETS = (
    "f", "'f g'", "sub/f", "$x", "$y", '"$x"', "f<()", "<()f", "f$((1))", "~/f", "{f}", "f\\ g", "$'f'", "f$e",
    "${x}f", "f*", "*",
)  # fmt: skip
_OPERATORS = (
    "> ", ">", ">>", ">|", "&> ", "2> ", "<> ", "&>>", ">& ", "{v}> ",
)  # fmt: skip
_BODIES = (
    "$x", "a", "$(rec in)", "`rec in`", "<(rec in)", "\\$x", "${x:=q}", "'", '"', "$'a'", "E ", "~", "*", "${x@P}",
    "\"$(cat <<'E'\na  b\n$x \\\n\nE\n)\"", "\"a$(cat <<'E'\n'*\\n\"\nE\n) b\"", "$(cat <<'E'\na b\nE\n)",
    "\"$(cat <<E\n$x\nE\n)\"", "\"$(cat <<'E'\nE\n)\"", "\"$(cat <<-'E'\n\ta\n\tE\n)\"",
    "\"$(cat <<'E' | cat\na\nE\n)\"", "<()",
)  # fmt: skip


_PROGRAMS = (
    "r<()ec", "wi<()pe", "'rec'", "re\\c", 'r""ec', "$'rec'", "wipe", "w'i'pe", "{rec,wipe}", "$x", "<()rec", "rec$e",
    "$z", "re''c", "wip?", "\\rec", "rec<()",
)  # fmt: skip


class Line(Value):
    """One line. plain: it changes nothing of the shell but the variables that are named here."""

    text: str
    plain: bool = False


class WordLines:
    """Draws lines from a source of chance."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def line(self) -> Line:
        """Some assignments and settings, then commands with odd words; of half the lines only the words are odd."""
        tame = self._chance.random() < 0.5
        before = [f"{self._pick(_NAMES)}={self._pick(_VALUES)}" for _ in range(self._chance.randint(0, 2))]
        if not tame:
            before += self._chance.choices(_BEFORE, k=self._chance.choice((0, 0, 1, 1, 2)))
        self._chance.shuffle(before)
        text = self._pick(_WRAPS) if not tame else "§"
        text = text.replace("¶", "'" + self._command(tame=tame).replace("'", "'\\''") + "'")
        while "§" in text:
            text = text.replace("§", self._command(tame=tame), 1)
        join = "\n" if any("\n" in b for b in before) else self._pick(("; ", "\n", "; ", " && "))
        return Line(join.join([*before, text]), plain=tame)

    def _pick(self, of: Sequence[str]) -> str:
        return self._chance.choice(of)

    def _command(self, *, tame: bool) -> str:
        found = [self._program(), *(self._word(tame=tame) for _ in range(self._chance.choice((1, 1, 2, 2, 3))))]
        if self._chance.random() < 0.1:
            found.insert(0, f"{self._pick(_NAMES)}={self._pick([v for v in _VALUES if v[:1] != '('])}")
        if self._chance.random() < 0.12:
            found.append(self._pick(_OPERATORS) + self._pick(_TARGETS))
        elif self._chance.random() < 0.05:
            found.append(f"<<< {self._word(tame=tame)}")
        elif self._chance.random() < 0.07:
            end, closing = self._pick(("E", "'E'", '"E"', "\\E", "-E", "E''", "$'E'")), "E"
            body = "\n".join(self._chance.choices(_BODIES, k=self._chance.randint(0, 2)))
            return f"{' '.join(found)} <<{end}\n{body}\n{closing}\n"
        return self._pick((" ", " ", "  ", "\t", " \\\n")).join(found)

    def _program(self) -> str:
        kind = self._chance.random()
        if kind < 0.8:
            return "rec"
        return self._pick(_PROGRAMS)

    def _word(self, *, tame: bool) -> str:
        if self._chance.random() < 0.3:
            return self._pick(_PLAIN + _QUOTED)
        pieces = [self._pick(_PLAIN + _QUOTED) for _ in range(self._chance.choice((0, 1, 1, 2)))]
        pieces.insert(self._chance.randint(0, len(pieces)), self._pick(_EXPANDED))
        if not tame and self._chance.random() < 0.3:
            pieces.insert(self._chance.randint(0, len(pieces)), self._pick(_EXPANDED))
        return "".join(pieces)
