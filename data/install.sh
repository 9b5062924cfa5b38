#!/bin/sh
# Installs proxylist from a release: picks the archive for this machine, verifies its sum, and unpacks the program.
# Needs no root, and changes nothing but one file.
set -eu

usage() {
	cat <<TEXT
usage: install.sh --from URL|DIR [--to DIR]

  --from URL|DIR   where the files of a release are: SHA256SUMS and an archive for this machine
  --to DIR         where to put the program (default: \$HOME/.local/bin)
TEXT
}

fail() {
	echo "install.sh: $1" >&2
	exit 1
}

from=''
to="${HOME:-}/.local/bin"
while [ $# -gt 0 ]; do
	case "$1" in
	--from | --to)
		[ $# -ge 2 ] || fail "$1 needs a value; see --help"
		if [ "$1" = --from ]; then from=$2; else to=$2; fi
		shift 2
		;;
	-h | --help)
		usage
		exit 0
		;;
	*) fail "there is no option $1; see --help" ;;
	esac
done
[ -n "$from" ] || fail '--from is needed, the URL or the folder of a release; see --help'

case "$(uname -s)" in
Linux) system=linux ;;
Darwin) system=macos ;;
*) fail "there is no archive for $(uname -s) that this script could install" ;;
esac
case "$(uname -m)" in
x86_64 | amd64) machine=x64 ;;
aarch64 | arm64) machine=arm64 ;;
*) fail "there is no archive for $(uname -m)" ;;
esac
target="$system-$machine"
if [ "$system" = linux ] && ls /lib/ld-musl-* >/dev/null 2>&1 && ! ls /lib*/ld-linux-* >/dev/null 2>&1; then
	target="$target-musl"
fi

if [ "$system" = linux ] && [ ! -e /proc/self/exe ]; then
	fail 'the program reads itself from /proc/self/exe: mount /proc first'
fi

# Not in /tmp: the program is moved from here, and arrives whole.
mkdir -p "$to" || fail "cannot make the folder $to"
work=$(mktemp -d "$to/.proxylist-install-XXXXXX") || fail "cannot write to $to"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

get() {
	case "$from" in
	http://* | https://*)
		if command -v curl >/dev/null; then
			curl -fsSL -o "$work/$1" "${from%/}/$1" || fail "cannot download ${from%/}/$1"
		elif command -v wget >/dev/null; then
			wget -q -O "$work/$1" "${from%/}/$1" || fail "cannot download ${from%/}/$1"
		else
			fail 'curl or wget is needed to download'
		fi
		;;
	*) cp "$from/$1" "$work/$1" 2>/dev/null || fail "there is no $1 in $from" ;;
	esac
}

sum() {
	if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1
}

get SHA256SUMS
line=$(grep -E "^[0-9a-f]{64}  proxylist-[0-9][0-9A-Za-z.-]*-$target\.tar\.gz\$" "$work/SHA256SUMS" | head -n 1) || true
[ -n "$line" ] || fail "the release has no archive for $target"
archive=${line#*  }
get "$archive"
[ "$(sum "$work/$archive")" = "${line%% *}" ] ||
	fail "$archive is not what SHA256SUMS says: download it again; nothing was installed"

folder=${archive%.tar.gz}
tar -xzmf "$work/$archive" -C "$work" "$folder/proxylist"
hint=''
case "$target" in *-musl) hint=' (on Alpine it needs: apk add libstdc++)' ;; esac
version=$("$work/$folder/proxylist" version) ||
	fail "the program does not run on this machine$hint; nothing was installed"
mv -f "$work/$folder/proxylist" "$to/proxylist"

echo "installed $to/proxylist: $version"
case ":${PATH:-}:" in
*":$to:"*) ;;
*) echo "$to is not in PATH: call it as $to/proxylist" ;;
esac
echo "to undo: rm $to/proxylist"
