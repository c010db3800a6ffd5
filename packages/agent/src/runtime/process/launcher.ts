/**
 * Two small POSIX shell programs stand between the agent and a job, so that a job needs no agent to end well.
 * The launcher (outside the confinement) enforces time limit and grace and writes the exit file; the starter
 * (inside it) checks the program, says `ready` and hands SIGTERM on to the program alone, as a container does.
 */

/**
 * Arguments: grace in seconds, file with the `oom_kill` counter or `-`, number of cgroup folders, those
 * folders, the command. Works in the job's `run` folder, with relative names: in a removed folder it can do nothing.
 * The exit file counts once its line is whole: an agent that is there acts on it while it still goes to the disk.
 * Lines on stdin: `go` from the agent; without it (the agent died before it wrote the pid file) nothing starts.
 */
export const LAUNCHER = `
umask 077
ulimit -c 0
ulimit -n 8192 2>/dev/null
read -r go || exit 0
grace=$1 oom_file=$2 count=$3
shift 3
cgroups=
while [ "$count" -gt 0 ]; do cgroups="$cgroups $1"; shift; count=$((count - 1)); done
cause=none killer= again= job=

kill_job() {
  kill -s KILL -- "-$job" 2>/dev/null
  for cgroup in $cgroups; do
    while read -r pid; do kill -KILL "$pid" 2>/dev/null; done <"$cgroup/cgroup.procs"
  done
}
main_pid() {
  main=$job
  [ -s info ] || return 0
  while read -r key value; do
    case "$key" in '"child-pid":') main=\${value%,} ;; esac
  done <info
}
stop_job() {
  again=1
  [ "$cause" = none ] || return 0
  cause=$1
  job=\${job:-$!}
  main_pid
  kill -TERM "$main" 2>/dev/null
  (
    sleep "$grace" &
    echo "$!" >nap
    wait "$!"
    kill_job
  ) 3>&- &
  killer=$!
}
trap 'stop_job timeout' USR1
trap '[ -s stop ] && read -r why grace <stop; stop_job stopped' TERM

(
  for cgroup in $cgroups; do echo 0 >"$cgroup/cgroup.procs" || exit 126; done
  if [ -e arguments ]; then exec "$@" 8>info 9<arguments; fi
  . ./environment
  cd ../work && exec "$@"
) </dev/null >>../log 2>&1 &
job=\${job:-$!}
echo "$job" >session
exec 3>&-

wait "$job"; code=$?
while [ "$again" ]; do
  again=
  wait "$job"; last=$?
  [ "$last" = 127 ] || code=$last
done
if [ "$killer" ]; then
  kill -KILL "$killer" 2>/dev/null
  [ -s nap ] && read -r nap <nap && kill -KILL "$nap" 2>/dev/null
fi

oom=0
[ "$oom_file" = - ] || while read -r key value; do [ "$key" = oom_kill ] && oom=$value; done <"$oom_file"
until echo "$code $cause $oom" >exit; do
  [ -e pid ] || exit 1
  sleep 1
done
sync exit
`

/**
 * Arguments: the job's command. File descriptor 3 leads to the agent. A background job of a shell ignores SIGINT and
 * SIGQUIT; Node sets them back, so the fixed program does not notice. The trap comes after the fork: a shell that
 * was forked with a trap and did not yet exec would swallow the signal.
 */
export const STARTER = `
case "$1" in
*/*) [ -f "$1" ] && [ -x "$1" ] ;;
*) command -v "$1" >/dev/null ;;
esac || { echo "The program $1 is not there or not executable." >&3; exit 127; }
unset PWD OLDPWD
(exec "$@") 3>&- &
main=$!
trap 'again=1; kill -TERM "$main" 2>/dev/null' TERM
trap '' PIPE
echo ready 2>/dev/null >&3
trap - PIPE
exec 3>&-
wait "$main"; code=$?
while [ "$again" ]; do
  again=
  wait "$main"; last=$?
  [ "$last" = 127 ] || code=$last
done
exit "$code"
`
