#!/usr/bin/env bash
# A small Slurm cluster on this machine, for tests and for trying things out. It
# needs Debian's packages and nothing else: no systemd, no cgroups, no database.
#
#   slurm-cluster.sh install             install the packages, unless they are there
#   slurm-cluster.sh up DIR [NODES]      start it below DIR and wait for its nodes
#   slurm-cluster.sh down DIR            end its jobs and its daemons
#   slurm-cluster.sh lose DIR NODE       a node dies: its daemon and what runs on it
#   slurm-cluster.sh orphan DIR NODE     a node's daemon dies, what runs on it goes on
#   slurm-cluster.sh node DIR NODE       start a node's daemon again
#   slurm-cluster.sh cut DIR             nobody reaches the node that is apart, nor it anybody
#   slurm-cluster.sh join DIR            they do again
#   slurm-cluster.sh headless DIR        the controller dies
#   slurm-cluster.sh head DIR            start the controller again
#
# With SLURM_CLUSTER_APART=NODE, which takes root, up gives that node a network of its own.
# With SLURM_CONF=DIR/slurm.conf in the environment the client programs find it.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin

say() { echo "slurm-cluster: $*" >&2; }

install_packages() {
	if command -v slurmctld slurmd sbatch munged >/dev/null; then return; fi
	if ! command -v apt-get >/dev/null; then say "there is no apt-get here to install Slurm with"; exit 3; fi
	local as=() policy=/usr/sbin/policy-rc.d made=
	if [ "$(id -u)" != 0 ]; then
		sudo -n true 2>/dev/null || { say "installing Slurm takes root, or sudo without a password"; exit 3; }
		as=(sudo -n)
	fi
	if [ ! -e $policy ]; then # or the packages would start daemons of their own
		printf '#!/bin/sh\nexit 101\n' | "${as[@]}" tee $policy >/dev/null && "${as[@]}" chmod 755 $policy && made=1
	fi
	"${as[@]}" apt-get update -qq >/dev/null 2>&1 || true
	"${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
		slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge >/dev/null 2>&1 || true
	if [ -n "$made" ]; then "${as[@]}" rm -f $policy; fi
	command -v slurmctld slurmd sbatch munged >/dev/null || { say "Debian's packages of Slurm could not be installed"; exit 3; }
}

# running FILE PROGRAM prints the pid in FILE if it is that program's.
running() {
	local pid
	pid=$(cat "$1" 2>/dev/null | tr -cd 0-9) || return 0 # it may go at any moment
	case "$(readlink "/proc/${pid:-none}/exe" 2>/dev/null)" in */"$2"*) echo "$pid" ;; esac # Debian adds -wlm
}

# finish FILE PROGRAM SIGNAL ends that program and waits until it is gone.
finish() {
	local pid
	pid=$(running "$1" "$2")
	[ -n "$pid" ] || return 0
	kill "-$3" "$pid" 2>/dev/null || true
	for _ in $(seq 200); do
		[ -n "$(running "$1" "$2")" ] && ! grep -qs '^State:.*[ZX]' "/proc/$pid/status" || break
		sleep 0.05
	done
	if [ -n "$(running "$1" "$2")" ]; then kill -KILL "$pid" 2>/dev/null || true; fi
	rm -f "$1"
}

# steps NODE prints the pids of the node's step daemons, which outlive its own
# daemon: each listens on a socket in the node's spool directory.
steps() {
	local inode pid link
	awk -v d="$DIR/spool/$1/" 'index($8, d) == 1 { print $7 }' /proc/net/unix | while read -r inode; do
		for pid in $(grep -ls '^slurmstepd' /proc/[0-9]*/comm | cut -d/ -f3); do
			for link in /proc/"$pid"/fd/*; do
				if [ "$(readlink "$link" 2>/dev/null)" = "socket:[$inode]" ]; then echo "$pid"; fi
			done
		done
	done | sort -u
}

below() { # PID: it and all that descends from it, the last born first
	local child
	for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do below "$child"; done
	echo "$1"
}

kill_steps() {
	local step pid
	for step in $(steps "$1"); do
		kill -STOP "$step" 2>/dev/null || true
		for pid in $(below "$step"); do kill -KILL "$pid" 2>/dev/null || true; done
	done
}

nodes() { sed -n 's/^# nodes: //p' "$CONF"; }

configure() { # NODES
	local host me base list i head=127.0.0.1 apart=${SLURM_CLUSTER_APART:-} net at
	host=$(hostname -s) me=$(id -un)
	base=${SLURM_CLUSTER_PORT:-$((20000 + RANDOM % 9000))}
	list=$(for i in $(seq "$1"); do printf 'n%s ' "$i"; done)
	for i in $list; do mkdir -p "$DIR/spool/$i"; done
	mkdir -p "$DIR/state" "$DIR/log" "$DIR/run" "$DIR/munge"
	chmod 755 "$DIR" && chmod 711 "$DIR/munge"
	head -c 1024 /dev/urandom >"$DIR/munge/key" && chmod 600 "$DIR/munge/key"
	# Without a plugin named here slurmd wants to have cgroups mounted.
	printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n' >"$DIR/cgroup.conf"
	if [ -n "$apart" ]; then
		net=vz$base head=10.213.$((base / 64 % 256)).$((base % 64 * 4 + 1)) at=10.213.$((base / 64 % 256)).$((base % 64 * 4 + 2))
		ip netns add "$net" && ip link add "${net}h" type veth peer name "${net}n" netns "$net" &&
			ip addr add "$head/30" dev "${net}h" && ip link set "${net}h" up && ip -n "$net" addr add "$at/30" dev "${net}n" &&
			ip -n "$net" link set "${net}n" up && ip -n "$net" link set lo up ||
			{ ip netns del "$net" || true; say "a node with a network of its own takes root and iproute2"; exit 3; } 2>&1
	fi
	cat >"$CONF" <<END
# nodes: $list
# apart: $apart ${net:-}
ClusterName=vizier
SlurmctldHost=$host($head)
SlurmctldPort=$base
SlurmUser=$me
SlurmdUser=$me
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$DIR/munge/socket,cred_expire=5
StateSaveLocation=$DIR/state
SlurmctldPidFile=$DIR/run/slurmctld.pid
SlurmctldLogFile=$DIR/log/slurmctld.log
SlurmdPidFile=$DIR/run/%n.pid
SlurmdLogFile=$DIR/log/%n.log
SlurmdSpoolDir=$DIR/spool/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=5,batch_sched_delay=0
DefMemPerCPU=50
MinJobAge=300
SlurmctldTimeout=10
SlurmdTimeout=10
InactiveLimit=0
KillWait=10
ReturnToService=2
UnkillableStepTimeout=20
PropagateResourceLimits=NONE
$(for i in $(seq "$1"); do
	addr=$head
	if [ "n$i" = "$apart" ]; then addr=$at; fi
	echo "NodeName=n$i NodeHostname=$host NodeAddr=$addr Port=$((base + i)) CPUs=${SLURM_CLUSTER_CPUS:-8} RealMemory=4000 State=UNKNOWN"
done)
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=main Nodes=n[1-$1] Default=YES MaxTime=INFINITE State=UP PreemptMode=OFF
PartitionName=short Nodes=n1 MaxTime=1 State=UP PreemptMode=OFF
PartitionName=spare Nodes=n$1 MaxTime=INFINITE State=UP
PartitionName=urgent Nodes=n$1 MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF
END
}

start_munge() {
	[ -z "$(running "$DIR/munge/munged.pid" munged)" ] || return 0
	munged --force --key-file="$DIR/munge/key" --socket="$DIR/munge/socket" --pid-file="$DIR/munge/munged.pid" \
		--seed-file="$DIR/munge/seed" --log-file="$DIR/munge/log" --num-threads=2 2>/dev/null
}

start_head() { [ -n "$(running "$DIR/run/slurmctld.pid" slurmctld)" ] || slurmctld -f "$CONF"; }

apart() { sed -n 's/^# apart: //p' "$CONF"; } # the node that has a network of its own, and that

start_node() {
	local node net
	[ -z "$(running "$DIR/run/$1.pid" slurmd)" ] || return 0
	read -r node net <<<"$(apart)" || true
	if [ "$1" = "$node" ]; then ip netns exec "$net" slurmd -N "$1" -f "$CONF"; else slurmd -N "$1" -f "$CONF"; fi
}

await_nodes() {
	local want
	want=$(nodes | wc -w)
	for _ in $(seq 300); do
		[ "$(sinfo -h -N -p main -o '%N %T' 2>/dev/null | grep -cE ' (idle|mixed|allocated)$')" = "$want" ] && return
		if grep -qs 'fatal: .*Address already in use' "$DIR"/log/*.log; then break; fi # said once it is in the background
		sleep 0.1
	done
	say "the nodes do not come up"
	tail -n 5 "$DIR"/log/*.log >&2
	return 1
}

down() {
	local node net
	[ -e "$CONF" ] || return 0
	for node in $(nodes); do
		finish "$DIR/run/$node.pid" slurmd KILL
		kill_steps "$node"
	done
	finish "$DIR/run/slurmctld.pid" slurmctld KILL
	finish "$DIR/munge/munged.pid" munged TERM
	read -r node net <<<"$(apart)" || true
	if [ -n "$net" ]; then ip netns del "$net" 2>/dev/null || true; fi
}

command=${1:-help}
if [ "$command" = install ]; then install_packages; exit; fi
if [ $# -lt 2 ]; then sed -n '2,/^set/{s/^# \{0,1\}//p}' "$0"; exit 2; fi
mkdir -p "$2"
DIR=$(cd "$2" && pwd)
CONF=$DIR/slurm.conf
export SLURM_CONF=$CONF
case "$command" in
up)
	for try in 1 2 3; do # the ports are drawn, and may be another's
		if [ ! -e "$CONF" ]; then configure "${3:-3}"; fi
		start_munge
		if start_head; then
			for node in $(nodes); do start_node "$node"; done
			await_nodes && exit 0
		fi
		if [ "$try" != 3 ]; then down; rm -rf "$CONF" "$DIR/log"; fi
	done
	exit 1
	;;
down) down ;;
lose)
	finish "$DIR/run/$3.pid" slurmd KILL
	kill_steps "$3"
	;;
orphan) finish "$DIR/run/$3.pid" slurmd KILL ;;
node) start_node "$3" ;;
cut | join)
	read -r _ net <<<"$(apart)"
	ip link set "${net}h" "$(if [ "$command" = cut ]; then echo down; else echo up; fi)"
	;;
headless) finish "$DIR/run/slurmctld.pid" slurmctld KILL ;;
head) start_head ;;
*) sed -n '2,/^set/{s/^# \{0,1\}//p}' "$0"; exit 2 ;;
esac
