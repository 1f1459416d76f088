# The editor of git in commands, which have none. $1: the file to edit.
#
# While git continues something (a merge, a rebase, ...), the file has a message, which stays as it is. A command that
# says with `-c core.editor=true` that texts stay as they are is believed, although GIT_EDITOR comes before it.

case $(git config core.editor 2>/dev/null) in
true | :) exit 0 ;;
esac
case ${1##*/} in
COMMIT_EDITMSG | MERGE_MSG)
  for state in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD rebase-merge rebase-apply; do
    if [ -e "$(dirname -- "$1")/$state" ] && grep -q '^[^#[:space:]]' "$1"; then
      echo 'There is no editor here: the message stays as it is (git commit --amend -m changes it).' >&2
      exit 0
    fi
  done
  ;;
git-rebase-todo)
  echo 'There is no editor here: GIT_SEQUENCE_EDITOR=true before the command keeps the list as it is,' \
    'and a command such as sed -i changes it.' >&2
  exit 1
  ;;
esac
echo 'There is no editor here: give the message or content as an argument (-m, -F, --no-edit);' \
  'GIT_EDITOR=true before the command keeps a text as it is.' >&2
exit 1
