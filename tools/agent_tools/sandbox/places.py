"""Paths that the sandbox knows by name: visible parts of the home folder, caches with a layer, and secrets.

All but SYSTEM_SECRETS are relative to the home folder; they need not exist.
"""

from __future__ import annotations

# The rest of the home folder is hidden: other projects, documents, histories, unknown files.
SHOWN = tuple(
    # Toolchains and their version managers.
    ".cargo .rustup .elan .ghcup .stack .cabal .opam .juliaup .julia .nvm .fnm .volta .n .nodenv .bun .deno .npm-global"
    " .npm-packages .yarn .pyenv .venv .venvs .virtualenvs .conda miniconda3 miniforge3 mambaforge anaconda3 micromamba"
    " .rbenv .rvm .gem .bundle .local/bin .local/lib .local/pipx .local/share/mise .local/share/uv .local/share/pipx"
    " .local/share/virtualenv .local/share/virtualenvs .local/share/fnm .local/share/pnpm .local/share/rtx"
    " .local/share/cargo .local/share/rustup .local/share/go .local/share/gem .local/state/mise .mise .asdf .proto"
    " .sdkman .jenv .jabba .m2 .ivy2 .sbt .gradle .dotnet .nuget .composer go .go .goenv sdk .gvm .swiftly .flutter"
    " flutter .pub-cache .luarocks .mix .hex .kiex .zig .zvm .nimble .nix-profile .nix-defexpr .linuxbrew .conan"
    " .conan2 .vcpkg .platformio .emsdk emsdk .wasmtime .wasmer .foundry Android/Sdk bin"
    # Their configuration; credentials in it are hidden by the list below.
    " .gitconfig .config/git .gitignore .gitignore_global .gitattributes .hgrc .config/hg .condarc .config/mise"
    " .config/uv .config/pdm .config/black .config/ruff .config/flake8 .config/pylintrc .tool-versions .editorconfig"
    " .config/nextest.toml .config/yamllint .config/shellcheckrc .shellcheckrc .config/bat .config/ripgreprc".split()
)

# Written by builds, of no value by themselves.
CACHES = tuple(
    ".cache .npm .pnpm-store .local/share/pnpm/store .yarn/berry/cache .bun/install/cache .deno .cargo/registry"
    " .cargo/git go/pkg .go/pkg .local/share/go/pkg .m2/repository .m2/wrapper .gradle/caches .gradle/daemon"
    " .gradle/native .gradle/wrapper .gradle/notifications .ivy2 .sbt .nuget/packages .composer/cache .bundle/cache"
    " .conan2/p .stack .cabal/packages .pub-cache .julia/compiled .julia/scratchspaces .ccache .sccache .hex"
    " .mix/archives .cpan .cpanm .terraform.d/plugin-cache .matplotlib .ipython .jupyter/runtime .pylint.d .node-gyp"
    " .electron-gyp .local/share/jupyter/runtime .local/share/virtualenv .swiftpm .zig-cache"
    " .platformio/.cache .vcpkg-cache".split()
)

# Caches that exist in the sandbox even if the home folder has none: programs fail without them.
NEEDED = (".cache", ".npm")

# Keys, tokens, passwords and histories. Most are hidden anyway, but not if the home folder is the workspace.
SECRETS = tuple(
    ".ssh .gnupg .aws .azure .kube .oci .bluemix .aliyun .tencentcloud .scw .linode-cli .vultr-cli.yaml .civo.json"
    " .config/doctl .config/hcloud .config/scw .config/exoscale .config/gcloud .config/gh .config/glab-cli .config/hub"
    " .config/op .config/rclone .config/heroku .config/netlify .config/configstore .config/vercel .config/stripe"
    " .config/ngrok .config/cloudflared .config/wrangler .config/sops .config/age .config/keybase .config/helm"
    " .config/containers .config/fly .config/railway .config/pypoetry .config/1Password .config/Bitwarden"
    " .config/BraveSoftware .config/chromium .config/google-chrome .config/microsoft-edge .config/opera .config/vivaldi"
    " .config/Slack .config/discord .config/Signal .config/git/credentials .config/github-copilot .config/hub"
    " .config/composer/auth.json .config/msmtp .config/mutt .config/neomutt .config/isync .config/filezilla"
    " .config/DBeaverData .config/JetBrains .config/solana .config/gspread .config/openstack .config/sourcegraph"
    " .netrc .authinfo .authinfo.gpg .npmrc .yarnrc .yarnrc.yml .pypirc .pgpass .my.cnf .mylogin.cnf .s3cfg .boto"
    " .vault-token .git-credentials .gitcookies .password-store .mozilla .thunderbird .1password .fly .ngrok2"
    " .terraformrc .terraform.d/credentials.tfrc.json .docker/config.json .docker/contexts .cargo/credentials"
    " .cargo/credentials.toml .gem/credentials .bundle/config .m2/settings.xml .m2/settings-security.xml"
    " .gradle/gradle.properties .gradle/init.d .sbt/credentials .ivy2/.credentials .nuget/NuGet/NuGet.Config"
    " .nuget/NuGet.Config .composer/auth.json .hex/hex.config .pub-cache/credentials.json .sentryclirc .databrickscfg"
    " .snowsql .dbt/profiles.yml .kaggle .huggingface .cache/huggingface/token .cache/huggingface/stored_tokens"
    " .jupyter/jupyter_server_config.json .streamlit/credentials.toml .wrangler .netlify .heroku .expo .cloudflared"
    " .vagrant.d .chef .puppetlabs .ansible .circleci .travis .jenkins .minikube .lein/credentials.clj.gpg"
    " .electrum .bitcoin .ethereum .solana .claude .claude.json .codex .gemini .kimi .qwen .cursor"
    " .aider.conf.yml .config/opencode .local/share/opencode .copilot .continue .codeium .tabnine .config/zed"
    " .local/share/keyrings .local/share/kwalletd .local/share/gh .local/share/gnupg .local/share/fly .bash_history"
    " .zsh_history .local/share/fish/fish_history .python_history .psql_history .mysql_history .sqlite_history"
    " .node_repl_history .irb_history .lesshst .viminfo .wget-hsts .config/rstudio .Rhistory .Xauthority .ICEauthority"
    " .local/share/recently-used.xbel".split()
)
SYSTEM_SECRETS = tuple(
    "/etc/shadow /etc/gshadow /etc/shadow- /etc/gshadow- /etc/security/opasswd /etc/sudoers /etc/sudoers.d"
    " /etc/ssl/private /etc/pki/tls/private /etc/letsencrypt /etc/krb5.keytab /etc/wireguard /etc/openvpn"
    " /etc/ipsec.secrets /etc/ppp/chap-secrets /etc/ppp/pap-secrets /etc/NetworkManager/system-connections"
    " /etc/wpa_supplicant /etc/mysql/debian.cnf /etc/postfix/sasl_passwd /etc/msmtprc /etc/exim4/passwd.client"
    " /etc/kubernetes /etc/rancher /etc/docker/key.json /etc/containers/auth.json /etc/boto.cfg /etc/cloudflared"
    " /var/lib/kubelet /var/lib/docker /var/lib/containers /var/lib/cloud /var/lib/NetworkManager /var/lib/bluetooth"
    " /var/spool/cron /var/mail /var/log/auth.log /var/backups".split()
)
