# Bash reads this before a command, through BASH_ENV. When the command ends, the trap writes the exit codes of the last
# pipe, the working directory and the exported variables to the descriptor in _AGENT_CARRY. Nothing here may affect the
# command.
\builtin trap "{ \\builtin printf '%s ' \"\${PIPESTATUS[@]}\"; \\builtin trap - DEBUG; \\builtin printf '\\0'; \\builtin unset _AGENT_COMMAND; \\builtin pwd -P; \\builtin printf '\\0'; \\builtin export -p; \\builtin printf '\\0'; } 2>/dev/null >&$_AGENT_CARRY || :" EXIT
\builtin unset BASH_ENV _AGENT_CARRY
# Restore $_.
\builtin : "$0"
