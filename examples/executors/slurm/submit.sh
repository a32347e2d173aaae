#!/bin/sh
# Submits a job to Slurm for Vizier: see docs/user/executors.md. It needs jq.
set -eu
export LC_ALL=C
for name in $(env | sed -n 's/^\(SLURM_[A-Z_]*\)=.*/\1/p'); do # of the job that this may run in: sbatch would take them for its own
	case $name in SLURM_CONF*) ;; *) unset "$name" ;; esac
done
eval "$(jq -r '@sh "name=\(.name) dir=\(.dir) log=\(.log) argv=\(.argv | @sh) options=\(.options | @sh)"')"
answer() { jq -n --arg said "$2" "{$1: \$said}"; }

script="#!/bin/sh
export VIZIER_JOB_CORES=\${SLURM_CPUS_PER_TASK:-1}
VIZIER_JOB_UNTIL=\$(date -d \"\$(squeue -h -j \"\$SLURM_JOB_ID\" -o %e)\" +%s 2>/dev/null) && export VIZIER_JOB_UNTIL
exec $argv"
eval "set -- $options"
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
if id=$(printf '%s\n' "$script" | sbatch --parsable --no-requeue --job-name="$name" --chdir="$dir" \
	--output="$log" --open-mode=append --signal=B:TERM@30 "$@" 2>"$errors"); then
	answer id "${id%%;*}"
	exit
fi
said=$(sed 's/^sbatch: //; s/^error: //' "$errors" | tr '\n' ' ')
case $said in
*"Unable to contact"* | *"Connection refused"* | *"timed out"*) answer away "$said" ;;
*MaxSubmit* | *temporarily* | *"Too many"*) answer full "$said" ;;
*[Ii]nvalid* | *"not available"* | *"unrecognized option"* | *"not permitted"*) answer refused "$said" ;;
*) # Vizier tries that a few times
	printf '%s\n' "$said" >&2
	exit 1
	;;
esac
