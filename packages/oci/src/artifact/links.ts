/**
 * Pure: whether a symbolic link at `path` could lead out of the folder that holds it. It may go up first and then
 * down: with `..` after a name, which may be a link itself, its words would not tell where it ends.
 */
export const leadsOut = (path: string, linkname: string): boolean => {
  if (linkname === '' || linkname.startsWith('/') || /^[a-zA-Z]:|[\\\0]/.test(linkname)) return true
  const steps = linkname.split('/').filter((step) => step !== '' && step !== '.')
  const down = steps.findIndex((step) => step !== '..')
  const ups = down < 0 ? steps.length : down
  return steps.slice(ups).includes('..') || ups > path.split('/').length - 1
}
