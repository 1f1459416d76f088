"""What docs/security.md promised, and what it did not, before it was divided into pages.

Each line is terms that one paragraph, list item or table row of the documentation has to contain, so that a reader who
searches for them still finds the promise.
"""

PROMISES = """
written | command | allowed | answer | rule | mode
symbolic link | workspace | approved | opened
question | whole command | whole diff | resolved path
approval | changed since | again
trust | widen|stricter | requests | start
replaced whole | encoding | line endings|line ends | mode
changed since | model read it | not overwritten|overwritten
cannot be restored|could not be restored | named
_API_KEY | _TOKEN | _SECRET | _PASSWORD
ghp_ | sk- | AKIA | postgres://
env_pass | own settings | withheld
secret | exports | next | not stored
/proc | memory | environment | Linux
git | ripgrep | parsers | do not get|get no
bidirectional | invisible | escaped | markdown entities
HTML | source | link | address
lookalike | joiners | combining | named
timeout|time limit | Ctrl-C | children
editor | pager | start-up files
background | hook | ends with it|killed
HOME | LD_PRELOAD | bash | working directory
relative paths | session began
private folder | read | removed with | session
telemetry | update check | provider
gh pr view | docker ps | trusted
PDF | 20 seconds | 2 GB | 64 million
allowed-tools | turn | deny | ask
prompt file | own | protected
tool_packages | own settings
WebFetch | private network
/etc/agent/policy.toml | organization|organisation
root | writable | unknown key
AGENT_POLICY | --managed-settings | disableBypassPermissionsMode | strictKnownMarketplaces
allow list|allowed_ | every | empty list
--bare | sandbox | doctor | policy
deny | plan | dontAsk | fewer tools | lower limits | trust
memory files | imports | link | secret
asked once|asks once|ask you once|asks you once | y
standard error | --trust | CI
agent trust | --revoke | trusted = ["~/src/*"] | slash
hooks | refuse | change | input | allow nothing|cannot allow
your own hooks | deny or ask rule|deny rule | protected
agent tools run | agent mcp serve | hooks
.agentrc.local | .mcp.json | .claude/ | commands | skills
repository inside another | separately
trust.json | damaged | nothing is trusted
2,000 | 4 MiB
key_command | keyring | save_sessions | scripted: | bypassPermissions
OPENAI_BASE_URL | HTTPS_PROXY | SSL_CERT_FILE | NODE_EXTRA_CA_CERTS
addresses.json | project | value
GIT_* | hooks | file system monitors | pagers | submodules
git status | git log | model | needs trust
embedded repository | submodule | index | --patch
commondir | alternates | safe.directory
HEAD | small | untrusted|trust it
Git LFS | filters | turned off|off
filter | text conversion | external diff | submodule
cat-file -p | stash show -p | 1.5 seconds
format-patch | denied | ask
http.*.extraheader | github.token | git remote -v
grep -r | not checked
snapshots | index, HEAD | refs | 14 days
/commit | hooks | signing | submodules
while git reads it | not promised|stays
openat2 | descriptors | LS | undo
Glob | link | Grep
after_edit | snapshot of the whole folder
moved away | moved folder
pipe | device | gigabytes
regular files | time limit | own settings files
8 GB | 60 seconds | language servers | 30
hour | commit
ignore | attribute | two seconds | 64 MB
keep-alives | five times | idle_timeout
16 MB | nested | ends the call
dead network mount
project's server | exact declaration | trust
new | described differently | withheld
annotations | allow nothing
server | cannot use your model | sandbox
mcp-logins | 0700 | 0600
origin | token endpoint | redirect
issuer | PKCE | S256 | listener | loopback
https | server on this machine
outside the sandbox | home folder | network
acceptEdits | npm test | any code
BashInput | REPL | denied | nobody
formatters | linters | after_edit | own settings
checkers | read-only | no network | eslint
AGENTS.md | deny = ["Read(.env*)"]
after_turn | outside the sandbox
script | elsewhere | MCP server | changed script
.env | not loaded
key in a file | not withheld
mislead | guarantee
calls | as text | file | never read
every option | npx | uv run | substitutions
kubeconfig | bash -lc | git, ripgrep, docker
plain text | 0700 | --no-session-persistence
export | known keys | scripts | remote
--debug | redacted
worktree | branches | configuration
bypassPermissions | deny and ask rules|deny rules | protected
sandbox.mode | "auto" | "require" | "off"
sandbox.auto_allow | first start
sandbox.writable | temporary files | TMPDIR
sockets | /tmp | read-only
toolchains | caches | home
password stores | browser profiles
secrets | cannot be opened | masked
git's hooks | configuration | missing
caches | layer | session
network | loopback
Docker | D-Bus
traced | ended | 6.12
everything ends | process group
setuid | io_uring | bpf | keyrings
modes, owners and times
sandbox.landlock | 6.2
sandbox.domains | pypi.org
sandbox.ports | 5432
sandbox.sockets | /run/postgresql
sandbox.caches | "shared"
sandbox.readable
git push | ssh | gh | sudo
sandbox.outside | make e2e
127.0.0.1 | background | browser
.vscode | .idea | .husky | info/attributes | worktrees
.github/workflows
missing | created while | git ignores
index | HEAD | checkout | stays
moved/ | state folder
index lock | minute
user namespaces | nsenter | 5.11 | own network
Ubuntu 24.04 | AppArmor | apparmor-profiles
Read | masked|cannot be opened | root | empty
Edit | read-only | tracks
commit -a | stash | checkout | merge | fail
masked files | moved or removed
cp -r . x | mask
allow = ["Read(.env)"] | programs
200 | 100,000 | auto_allow
node_modules | .venv | site-packages | certificates
git checkout -f | reset --hard | halfway
sandbox.seatbelt | sandbox-exec | TMPDIR
experimental | Apple | auto_allow
hard links | same name
krb5cc | tmux-1000 | hidden names
second session | read-only
extended attributes
/var/tmp | TMPDIR
kernel | virtual machine
core.hooksPath | husky
protected name | symbolic link | warning
named pipes | read-only mount
proxy | shared server | encrypted
/etc | /usr | output | model
32-bit | devices
carrier-grade NAT | metadata services | web.allow_private
DNS rebinding | certificates | redirect
user names | backslashes | IPv4
another host | www. | https to http
cookies | credentials | referrer
random marker | hidden elements
only the model named | asks
sub-agents | gh | listings
search_url | private address
--fail-on-denied | token | pull requests
privately | maintainers
"""


def promises() -> list[list[str]]:
    """Return the terms of each promise; `a|b` in a term are spellings of it."""
    return [[term.strip() for term in line.split(" | ")] for line in PROMISES.strip().splitlines()]
