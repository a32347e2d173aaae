#!/bin/sh
# Installs what building and testing Vizier need and this machine lacks, and
# says which git engine the build will use. It asks for nothing. Programs that are
# named as arguments are for some tests alone, which are skipped where these
# cannot be had: chromium, promtool, bindfs, sshfs, lsof.
set -u

need=""
command -v git >/dev/null 2>&1 || need="$need git"
command -v gcc >/dev/null 2>&1 || need="$need gcc libc6-dev"
command -v pkg-config >/dev/null 2>&1 || need="$need pkg-config"
command -v tmux >/dev/null 2>&1 || need="$need tmux"
command -v jq >/dev/null 2>&1 || need="$need jq"
pkg-config --exists 'libgit2 >= 1.5' 'libgit2 < 1.6' 2>/dev/null || need="$need libgit2-dev pkg-config"
# For tests of jobs on other hosts. Where its package would start a server for everybody, it is left to who owns the machine.
[ -e /usr/sbin/sshd ] || [ -d /run/systemd/system ] || need="$need openssh-server"
for program in "$@"; do
	command -v "$program" >/dev/null 2>&1 || case "$program" in
	chromium) need="$need chromium fonts-dejavu-core" ;;
	promtool) [ -d /run/systemd/system ] || need="$need prometheus" ;; # a server as well
	*) need="$need $program" ;;
	esac
done

if [ -n "$need" ] && command -v apt-get >/dev/null 2>&1; then
	as=""
	if [ "$(id -u)" != 0 ]; then
		if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then as="sudo -n"; else need=""; fi
	fi
	if [ -n "$need" ]; then
		echo "setup: installing$need"
		# shellcheck disable=SC2086
		{ $as apt-get update -qq && DEBIAN_FRONTEND=noninteractive $as apt-get install -y -qq --no-install-recommends $need; } >/dev/null 2>&1 ||
			echo "setup: some of$need could not be installed" >&2
	fi
fi

if ! command -v git >/dev/null 2>&1; then
	echo "setup: git is missing and could not be installed: install it and try again" >&2
	exit 1
fi
if ! command -v go >/dev/null 2>&1; then
	echo "setup: Go 1.26 or newer is missing: see https://go.dev/dl" >&2
	exit 1
fi
if pkg-config --exists 'libgit2 >= 1.5' 'libgit2 < 1.6' 2>/dev/null && command -v gcc >/dev/null 2>&1; then
	echo "setup: git through libgit2 $(pkg-config --modversion libgit2), with the git program behind it"
else
	echo "setup: git through the git program alone (libgit2 1.5 is not to be had here)"
fi
for program in "$@"; do
	command -v "$program" >/dev/null 2>&1 || echo "setup: no $program, so tests with it are skipped"
done
