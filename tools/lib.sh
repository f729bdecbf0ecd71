# Shared by tools/run, tools/test and tools/check: what has to be on the machine before anything can be
# built. Sourced, never run. Says what it does on stderr.

set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export COCOONBOX_CACHE="${COCOONBOX_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cocoonbox}"
# Kept outside the checkout, so that a fresh clone builds warm.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$COCOONBOX_CACHE/target}"
# Oldest compiler that builds the workspace (`rust-version` in Cargo.toml).
rust_oldest=1.92

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Runs a command as root.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else die "this needs root: run it as root or install sudo"; fi
}

# Installs the apt packages that are missing. Nothing is asked of the network when all are there.
need_packages() {
  command -v dpkg-query >/dev/null || die "this script knows Debian and Ubuntu; on others see README, “Other systems”"
  local missing=() package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return
  say "installing with apt: ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

rust_fits() {
  local version
  command -v cargo >/dev/null && version=$(rustc --version 2>/dev/null | cut -d' ' -f2) &&
    [ "$(printf '%s\n%s\n' "$rust_oldest" "$version" | sort -V | head -n1)" = "$rust_oldest" ]
}

# Makes sure of a Rust toolchain: the one that is there, else the distribution's rustup, else Rust's own installer.
need_rust() {
  export PATH="$HOME/.cargo/bin:$PATH"
  rust_fits && return
  if ! command -v rustup >/dev/null; then
    if [ -n "$(apt-cache policy rustup 2>/dev/null | sed -n 's/.*Candidate: *//p' | grep -v none)" ]; then
      need_packages rustup
    else
      say "installing Rust with its own installer"
      need_packages curl ca-certificates
      curl --proto '=https' --tlsv1.2 -fsS https://sh.rustup.rs | sh -s -- -y --profile minimal --no-modify-path >&2
    fi
  fi
  rustup toolchain install stable --profile minimal -c clippy -c rustfmt >&2
  rustup default stable >&2
  rust_fits || die "no Rust of at least $rust_oldest could be set up; see https://rustup.rs"
}

need_build() {
  need_packages gcc libc6-dev pkg-config git ca-certificates
  need_rust
}

# What boxes need on the host.
need_boxes() { need_packages runc erofs-utils mmdebstrap e2fsprogs mount; }

# What the tests run beside us: a PostgreSQL of their own, the verifier that goes with an export, what
# makes disks fail, and the browser that the agent is tried with outside of boxes.
need_tested() {
  need_packages postgresql python3 openssl strace e2fsprogs
  # A desktop, and programs of three kinds for it: the agent's computer tool is tried with them outside of boxes.
  need_packages tigervnc-standalone-server openbox at-spi2-core dbus dbus-bin xterm x11-utils x11-xserver-utils \
    x11-xkb-utils python3-gi gir1.2-gtk-3.0 gir1.2-gtk-4.0
  # On Ubuntu it is no package but a snap, and its tests say that they are left out.
  if grep -qx 'ID=debian' /etc/os-release; then need_packages chromium; fi
}

# A real server of S3 for the tests of the capsule, kept in the cache.
need_s3() {
  [ -x "$COCOONBOX_CACHE/tools/bin/s3s-fs" ] && return
  say "building a server of S3 for the tests (once)"
  CARGO_TARGET_DIR="$COCOONBOX_CACHE/tools/target" \
    cargo install s3s-fs@0.14.1 --locked --features binary --root "$COCOONBOX_CACHE/tools" >&2
  rm -rf "$COCOONBOX_CACHE/tools/target"
}

# What the console is built with: a Node of at least 18, which also checks the protocol files.
need_node() {
  command -v npm >/dev/null || need_packages npm
}

# Builds the console into the checkout, or takes it from the cache: it follows from its sources and the protocol.
build_console() {
  local console="$top/api/console" hash kept
  hash=$(cd "$top" && find api/console proto/cocoonbox -type f \
    -not -path '*/node_modules/*' -not -path 'api/console/dist/*' -not -path 'api/console/src/protocol/*' |
    LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c-16)
  kept="$COCOONBOX_CACHE/console/$hash"
  if [ ! -d "$kept" ]; then
    say "building the console"
    need_node
    (cd "$console" && npm ci --silent && npm run --silent build) >&2 || die "the console could not be built"
    mkdir -p "$COCOONBOX_CACHE/console"
    # Whole or not at all: another run may look at the same time.
    rm -rf "$kept.$$" && cp -r "$console/dist" "$kept.$$" && { mv -T "$kept.$$" "$kept" 2>/dev/null || rm -rf "$kept.$$"; }
  fi
  # Files that are as they were keep their times, so that nothing is compiled again.
  diff -rq "$kept" "$console/dist" >/dev/null 2>&1 || { rm -rf "$console/dist" && cp -r "$kept" "$console/dist"; }
  # What another checkout compiled with this build folder names that checkout's files.
  if [ "$(cat "$CARGO_TARGET_DIR/console-of" 2>/dev/null)" != "$console" ]; then
    touch "$console/dist/index.html.gz"
    mkdir -p "$CARGO_TARGET_DIR" && echo "$console" >"$CARGO_TARGET_DIR/console-of"
  fi
}

# Builds the programs; the agent a second time, linked statically, since it runs in the box's image and
# must not depend on the C library there. Sets `bin` and `COCOONBOX_AGENT`.
build_programs() {
  build_console
  say "building (the first time takes some minutes)"
  cargo build --manifest-path "$top/Cargo.toml" --locked --workspace --bins >&2
  cargo rustc --manifest-path "$top/Cargo.toml" --locked -p cocoonbox-agent --bin cocoonbox-agent -- \
    -C target-feature=+crt-static >&2
  bin="$CARGO_TARGET_DIR/debug"
  mkdir -p "$CARGO_TARGET_DIR/box"
  cmp -s "$bin/cocoonbox-agent" "$CARGO_TARGET_DIR/box/cocoonbox-agent" ||
    install -m 0755 "$bin/cocoonbox-agent" "$CARGO_TARGET_DIR/box/cocoonbox-agent"
  export COCOONBOX_AGENT="$CARGO_TARGET_DIR/box/cocoonbox-agent"
}

# Builds the programs with optimisation, for what is measured. Sets `bin` and `COCOONBOX_AGENT`.
build_release() {
  build_console
  say "building with optimisation (the first time takes some minutes)"
  cargo build --manifest-path "$top/Cargo.toml" --locked --workspace --bins --release >&2
  # By a profile of its own, which says why.
  cargo rustc --manifest-path "$top/Cargo.toml" --locked -p cocoonbox-agent --bin cocoonbox-agent --profile resident -- \
    -C target-feature=+crt-static >&2
  bin="$CARGO_TARGET_DIR/release"
  export COCOONBOX_AGENT="$CARGO_TARGET_DIR/resident/cocoonbox-agent"
}

# Builds the image that boxes start from unless another is asked for, or finds it in the cache. Sets
# COCOONBOX_IMAGE. Those of other flavours named are built beside it.
build_image() {
  COCOONBOX_IMAGE=$("$top/image/build" core) || die "the box image could not be built"
  export COCOONBOX_IMAGE
  local flavour
  for flavour; do
    "$top/image/build" "$flavour" >/dev/null || die "the image of \`$flavour\` could not be built"
  done
}
