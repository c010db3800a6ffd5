import { makeWrapper } from '../wrapper.ts'

/** Where things are inside a job's pod. */
export const INSIDE = {
  /** Shared by the two containers: log, status and stop. */
  run: '/.tenon/run',
  files: '/.tenon/files',
  /** The kubelet puts what is written here into the container's end. */
  last: '/.tenon/last',
} as const

/**
 * Arguments: time limit, time limit plus grace, grace, processes, variables to keep, names of files (one a line), the
 * command. The pod's user is the job's alone on its node, so the limit of processes counts the job's own.
 */
export const WRAPPER = makeWrapper({
  log: `${INSIDE.run}/log`,
  status: [`${INSIDE.run}/status`, INSIDE.last],
  stop: `${INSIDE.run}/stop`,
  settings: `
ulimit -p "$1" 2>/dev/null || ulimit -u "$1" 2>/dev/null
tenon_keep=" $2 " tenon_names=$3
shift 3
for tenon_name in $(env | sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/\\1/p'); do
  case "$tenon_keep" in *" $tenon_name "*) ;; *) unset "$tenon_name" ;; esac
done
unset PWD OLDPWD`,
  files: `
tenon_index=0
while read -r tenon_file; do
  [ "$tenon_file" ] || continue
  case "$tenon_file" in */*) mkdir -p "\${tenon_file%/*}" ;; esac
  cat "${INSIDE.files}/$tenon_index" >"$tenon_file" || tenon_refuse "The files of the job cannot be placed in its folder."
  tenon_index=$((tenon_index + 1))
done <<TENON
$tenon_names
TENON`,
})

/** How much longer than the job the keeper lives when the whole pod is taken away: time to read the rest of the log. */
export const KEEPER_SECONDS = 3

/**
 * The second container: while it lives the log can be read, also when the job has ended and no agent was there. When
 * the pod is taken away it ends at once if all was read, and otherwise a little after the job.
 */
export const KEEPER = `
trap 'done=1' USR1
trap 'over=1' TERM
while [ -z "$over" ]; do sleep 3600 & wait $!; done
cd ${INSIDE.run} && [ -s status ] || exit 0
tenths=0
while [ -z "$done" ] && [ "$tenths" -lt ${KEEPER_SECONDS * 10} ]; do
  grep -q '^ended ' status && tenths=$((tenths + 1))
  sleep 0.1
done
`

/**
 * In the keeper. Argument: how many bytes of the log are known. First it says on stderr what the wrapper said first.
 * Each line on stdin is answered with the bytes that are new. It ends by itself when the job has ended and all of its log
 * was read, or after the line `end`. Without a reader its stdin ends too.
 */
export const FOLLOW = `
cd ${INSIDE.run} || exit 1
until [ -s status ]; do sleep 0.05; done
read -r first <status
echo "$first" >&2
exec 3<log
dd bs=1 skip="$1" count=0 <&3 2>/dev/null
while read -r word; do
  [ "$word" = end ] || while read -r line; do case "$line" in ended*) word=last ;; esac; done <status
  cat <&3
  [ "$word" = last ] && { sleep 0.1; cat <&3; kill -USR1 1; exit 0; }
  [ "$word" = end ] && { kill -USR1 1; exit 0; }
done
exit 1
`

/** In the keeper, of a job whose wrapper never spoke: what there is of its log. Argument: how many bytes are known. */
export const REST = `cd ${INSIDE.run} && [ -e log ] || exit 0; exec tail -c "+$(($1 + 1))" log`

/** In the job's container. Arguments: reason, grace in seconds. */
export const STOP = `
[ -e ${INSIDE.run}/stop ] || echo "$1 $2" >${INSIDE.run}/stop
kill -TERM 1
`

/** In the job's container: ends everything but the wrapper, which then ends by itself. */
export const KILL = 'kill -KILL -1'
