"""What lines by chance are made of. In a form, §a, §b and §c stand for lists of commands, §n for a name.

The programs are markers that write down how they were started and do nothing; the harmful ones exist nowhere else.
"""

READERS = ("ls", "cat", "head", "grep", "git", "sort")
OTHERS = ("wipe", "copy", "fetch", "build")
# Its output is a command; the other two have a fixed outcome.
SPECIAL = ("say", "yep", "nope")
FILES = ("a", "b.txt", "sub", "sub/c", "two words", "-x", "f")
NAMES = ("x", "y", "z")

JOINS = ("; ", ";", " && ", " || ", " | ", "\n", " & ", " |& ", " ;\\\n", "\n\n", " &&\n")
BLANKS = (" ", " ", " ", "  ", "\t", " \\\n")
COMMENTS = ("wipe x", "$(wipe x)", "it is", "a \\", "a \\\\", '"')

WRAPPERS = (
    "env", "env A=1", "env -i PATH=$PATH", "env -u y", "env a-b=1", "timeout 5", "timeout -k 1 5",
    "timeout -s KILL 5",
    "nice", "nice -n 1", "nice -1", "nohup", "command", "builtin", "exec", "stdbuf -oL", "xargs", "xargs -n1",
    "xargs -I{}", "find a -exec", "env timeout 5", "time", "\\time", "!", "time -p", "time --", "eval --", "trap --",
    "setsid", "timeout $x", "env $x",
    "nice -n ${y}", "env -S", "exec -a n",
)  # fmt: skip
TAME_WRAPPERS = ("env", "timeout 5", "nice -n 1", "nohup", "command", "exec", "time", "!")

# §q: the code in single quotes, §d: in double quotes.
SHELL_CODE = (
    "bash -c §q", "bash -c §d", "sh -c §q", "eval §q", "eval §d", "eval §a", "bash -ec §q n x", "bash -c -e §q",
    "bash -o pipefail -c §q", "bash -O extglob -c §q", "trap §q EXIT;", "bash <<< §q", "bash <(echo §q)",
    "source <(echo §q)", "echo §q | bash", "xargs -I% bash -c §q < .in", "bash -s < .in", "bash < .in", "source .in",
    ". ./.in", "$(say) x", "`say`",
)  # fmt: skip
TAME_SHELL_CODE = ("bash -c §q", "bash -ec §q", "eval §q", "sh -c §q", "time §a;")

BUILTINS = (
    "echo", "printf '%s\\n'", "test", "[ -f a ] &&", "[[ -n $x ]] &&", "[[ -f a ]] ||", ":", "true", "cd sub",
    "cd sub &&", "cd sub;", "cd nope;", "cd nope ||", "! cd nope &&", "cd .. &&", "cd link &&", "cd link/.. &&",
    "cd -P link &&", "cd link && cd ..;", "(cd sub);", "cd - ;", "pushd sub;", "set -e;", "set -u;", "set -x;",
    "read x <<< 'wipe q';", "read -r x y < .in;", "mapfile x < .in;", "printf -v x wipe;", "unset x;",
    "export x=wipe;", "declare x=wipe;", "local x;", "let x=1;", "((x=1));", "shift;", "set -- wipe q;",
    "alias ls=wipe;", "shopt -s expand_aliases;", "hash -p bin/wipe ls;", "getopts ab x;", "wait;", "type ls;",
    "command -v ls;", "shopt -s dotglob;", "umask 077;", "test -v 'a[$(wipe q)]' ;", "[[ 'a[$(wipe q)]' -eq 1 ]];",
    "x='a[$(wipe q)]';", "declare -i x;", "declare -n y=x;", "exec 3< a;", "exec 3>&1;", "PS4='$(wipe q)';", "IFS=,;",
)  # fmt: skip
TAME_BUILTINS = (
    "cd sub &&", "cd sub;", "cd nope ||", "! cd nope &&", "cd .. &&", "cd link &&", "cd link && cd ..;", "(cd sub);",
    "set -e;", "x=a;", "y=b.txt;", "z=ls;", "echo x |", ":;", "[ -f a ] &&", "[[ -f a ]] ||", "cd sub & ", "true &&",
    "false ||",
)  # fmt: skip
DYNAMIC = (
    "$x", '"$x"', "${x}", "${x:-wipe}", "${y:=wipe}", "$(say)", "`say`", "wip{e,}", "{wipe,ls}", "?ipe", "wip[e]",
    "$x$y", "${!x}", "${x@P}", "~/wipe", "./bin/wipe", "../bin/wipe",
)  # fmt: skip

ODD_ARGUMENTS = (
    "*", "*.txt", "?", "[ab]", "sub/*", "-*", "{a,b}", "~", "~/a", "a~", "x=~", "$", "#", "a#b", "!", "-n", "--",
    "{}",
    "\\;", "+", "%", "^", "=",
)  # fmt: skip
KNOWN_VARIABLES = ("$x", '"$x"', "${y}", '"$z"')
VARIABLES = (
    "$§n", '"$§n"', "${§n}", '"${§n}"', "${§n:-a}", "${§n:=wipe}", "${§n//a/b}", "${!§n}", "${§n@P}", "${#§n}",
    "${§n[0]}", "$((§n))", "$((1+2))", "$?", "$#", "$@", '"$@"', "$1", "$_", "$-", "$IFS", "$HOME", "$$",
    "${§n:$(wipe q)}", "${§n[$(wipe q)]}", "$[1+1]", "$((a[$(wipe q)]))",
)  # fmt: skip
SUBSTITUTIONS = (
    "$(§a)", '"$(§a)"', "`§a`", "<(§a)", ">(§a)", "${x:-$(§a)}", '"a$(§a)b"', "$(( $(§a) ))", "'$(§a)'", '"`§a`"',
    '"${x:-$(§a)}"', "$(\n§a\n)",
)  # fmt: skip

NUMBERED_REDIRECTS = (
    "2>/dev/null", ">/dev/null", "2>&1", ">&2", "&>/dev/null", "<&-", "< /dev/null", "3>&1", "1>&2", "< a", "<a",
    "2>&-", "3>&2", ">>/dev/null", "< b.txt",
)  # fmt: skip
TAME_REDIRECTS = (
    ">f", "> sub/f", "< a", "<b.txt", ">>f", "2>f", "&>f", "> 'two words'", ">|f", "<>f", "> ../f", "> $x", ">&f",
)  # fmt: skip
OPERATORS = (">", ">>", ">|", "&>", "<>", "2>", "3>", "{fd}>", ">&", "&>>")
TARGETS = (
    "f", "sub/f", "'f g'", "$x", "*", "../f", "/dev/stdin", "/dev/fd/0", "/dev/stdout", "&3", "&0", ">(cat)", "{f}",
    "~/f", "f$((1))", "$(say)",
)  # fmt: skip
# The end of a here-document as it is written, and as it must stand alone.
ENDS = {
    "E": "E", "EOF": "EOF", "'E'": "E", '"E"': "E", "\\E": "E", "E'O'F": "EOF", "$'E'": "E", "-E": "-E",
    "'a b'": "a b", "''": "", "E$x": "E$x",
}  # fmt: skip
DOCUMENT_LINES = (
    "wipe q", "$(wipe q)", "`wipe q`", "$x", "E ", " E", "\\$(wipe q)", "${x:=wipe}", "'", '"', "\\", "x\\", "E\\",
    "$((1))", "\tE",
)  # fmt: skip

VALUES = (
    "", "a", "wipe", "ls", "'wipe q'", '"ls a"', "$x", "$y", "~", "b.txt", "'*'", "5", "(wipe q)", "$(say)",
    "'a[$(wipe q)]'", "5' wipe'",
)  # fmt: skip
TAME_ASSIGNMENTS = ("x=a", "y=ls", "z='b.txt'", "x=$y", 'y="$z"', "x=$x.txt", "LC_ALL=C")
FUNCTIONS = ("§n() { §a\n}; §n a", "function §n { §a\n}; §n", "§n() ( §a\n); §n", "§n() { §a\n}")

COMPOUNDS = (
    "(§a\n)", "{ §a\n}", "if §a\nthen §b\nelse §c\nfi", "if §a\nthen §b\nelif §c\nthen §a\nfi",
    "while nope; do §a\ndone", "until yep; do §a\ndone", "while §a\ndo §b\nbreak; done",
    "for §n in a b.txt; do §a\ndone", "for §n in wipe 'wipe q'; do $§n z; done", "for §n in $(say); do §a\ndone",
    "for §n in *; do §a\ndone", "for §n in ${y:=wipe} ${z[0]}; do §a\ndone", "case $x in a) §a\n;; *) §b\n;; esac",
    "case §n in §n) §a\n;& q) §b\n;; esac", "case x in @(x|$(wipe q))) §a\n;; esac", "! { §a\n}", "time { §a\n}",
    "coproc §a", "coproc C { §a\n}", "[[ -n $x && §n == a* ]] && §a", "[[ $(§a\n) ]]", "(( $(§a\n) 1 ))",
    "{ §a\n} && §b", "(§a\n) || §b", "{ cd sub; §a\n} && §b", "while read §n; do §a\ndone <<< 'wipe q'",
    "for ((i=0;i<2;i++)); do §a\ndone", "{ §a\n} && { §b\n} || §c",
)  # fmt: skip
AFTER_COMPOUNDS = ("", "", "", " > f", " < a", " 2>/dev/null", " | cat", " &", " >/dev/null")

# What is put into the text of a line to break it.
PIECES = (
    "'", '"', "\\", "\n", ";", "#", " ", "$", "`", "(", ")", "{", "}", "&", "|", "<", ">", "\\\n", " #", "<<E\n",
    "\t",
    "*", "!", "~", "=", "\\\\", "$'", "$(", "${", "[[", "]]", "\r", "\xa0", "é",
)  # fmt: skip
# What bash takes away, so that a parser may read on where bash does not, or the other way round.
JOINERS = ("\\\n", "\\\n", "\\\n\\\n", "\\", "''", '""', " ", "\n", "$", "\\\\\n")
# Put together without any grammar; no loops and no functions, which might go on for ever.
SOUP = (
    '"', "'", "`", "$", "(", ")", "{", "}", "\\", "\\\n", "\n", " ", " ", " ", "#", " #", ";", "&", "|", "<", ">",
    "<<E", "<<'E'", "<<-E", "\nE\n", "E", "$(wipe q)", "`wipe q`", "wipe q", "wipe", "ls", "cat", "x=", "$x", "${x",
    "}", "[", "]", "[[", "]]", "!", "! ", "((", "))", "&&", "||", ";;", "<(", "$((", "time ", "if ", "then ", "fi",
    "for x in ", "do ", "done", "case x in", "esac", "a", "*", "?", "~", "=", "\t", "eval ", "coproc ", "$'", "\\'",
    '\\"', "\\`", "\\$", "^", "%", "@(", "|&", "<<<", ">&", "2>", "{ ", "; }", "-- ", "in ", "select ",
)  # fmt: skip
