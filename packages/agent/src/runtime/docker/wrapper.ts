import { makeWrapper } from '../wrapper.ts'

/** Where the agent's own files are seen inside a container. */
export const INSIDE = {
  log: '/.tenon/log',
  status: '/.tenon/status',
  control: '/.tenon/control',
  files: '/.tenon/files',
} as const

/** Arguments: time limit, time limit plus grace, grace, variables to forget, the command. */
export const WRAPPER = makeWrapper({
  log: INSIDE.log,
  status: [INSIDE.status],
  stop: `${INSIDE.control}/stop`,
  settings: `
tenon_forget=$1
shift
unset $tenon_forget PWD OLDPWD`,
  files: `
if [ -d ${INSIDE.files} ]; then cp -R ${INSIDE.files}/. . || tenon_refuse "The files of the job do not fit in its folder."; fi`,
})
