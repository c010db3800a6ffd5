/** Where the agent's own files are seen inside a container. */
export const INSIDE = {
  log: '/.tenon/log',
  status: '/.tenon/status',
  control: '/.tenon/control',
  files: '/.tenon/files',
} as const

/** Processes that the wrapper needs besides the job's own. */
export const WRAPPER_PIDS = 8

/**
 * The first process of a job's container, in plain POSIX shell, so that a job needs no agent to end well: it writes
 * the log to a file of exact bytes (engines keep lines), hands SIGTERM on to the program alone, holds the time limit
 * and the grace, and says how it ended. Its end takes every process of the container with it.
 * It must be process 1: its `kill -1` reaches everything else that it can see.
 * Arguments: time limit, time limit plus grace, grace, variables to forget, the command.
 *
 * The trap comes after the fork: a shell that was forked with a trap and did not yet exec would swallow the signal.
 * Limits of the shell and not of the engine's spec: Podman adds some of its own there that a host may not allow.
 * A SIGTERM before the trap is lost (this is process 1), so the file that comes with it is looked at once after.
 */
export const WRAPPER = `
umask 077
ulimit -c 0
ulimit -n 8192 2>/dev/null
exec >>${INSIDE.log} 2>&1 </dev/null
tenon_limit=$1 tenon_end=$2 tenon_grace=$3 tenon_forget=$4
shift 4
unset $tenon_forget PWD OLDPWD
tenon_refuse() { echo "refused $1" >>${INSIDE.status}; exit 127; }
[ $$ = 1 ] || tenon_refuse "The engine gives jobs no process namespace of their own; its configuration must not change that."
cd "$HOME" || tenon_refuse "The folder of the job cannot be entered."
if [ -d ${INSIDE.files} ]; then cp -R ${INSIDE.files}/. . || tenon_refuse "The files of the job do not fit in its folder."; fi
[ -d tmp ] || mkdir tmp
case "$1" in
*/*) [ -f "$1" ] && [ -x "$1" ] ;;
*) command -v "$1" >/dev/null ;;
esac || tenon_refuse "The program $1 is not in the image or not executable."
unset PWD OLDPWD
tenon_cause=none tenon_again= tenon_oom=0
echo ready >>${INSIDE.status}

(exec "$@") &
tenon_main=$!
tenon_stop() {
  tenon_again=1
  [ "$tenon_cause" = none ] || return 0
  tenon_cause=$1
  kill -TERM "$tenon_main" 2>/dev/null
  [ "$1" = stopped ] || return 0
  [ -s ${INSIDE.control}/stop ] && read -r tenon_why tenon_grace <${INSIDE.control}/stop
  (sleep "$tenon_grace" && kill -KILL -1) &
}
trap 'tenon_stop timeout' USR1
trap 'tenon_stop stopped' TERM
(sleep "$tenon_limit" && kill -USR1 1) &
(sleep "$tenon_end" && kill -KILL -1) &
[ -s ${INSIDE.control}/stop ] && tenon_stop stopped

wait "$tenon_main"; tenon_code=$?
while [ "$tenon_again" ]; do
  tenon_again=
  wait "$tenon_main"; tenon_last=$?
  [ "$tenon_last" = 127 ] || tenon_code=$tenon_last
done
for tenon_file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
  [ -r "$tenon_file" ] || continue
  while read -r tenon_key tenon_value; do
    [ "$tenon_key" = oom_kill ] && tenon_oom=$tenon_value
  done <"$tenon_file"
done
echo "ended $tenon_cause $tenon_oom" >>${INSIDE.status}
exit "$tenon_code"
`
