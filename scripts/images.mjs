// Builds the images that jobs and agents run in, from this machine's own programs: see images/README.md.
import { execFile } from 'node:child_process'
import { access, constants, mkdir, open, readdir, readFile, realpath, rename } from 'node:fs/promises'
import { delimiter, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs, promisify } from 'node:util'
import { packImage } from './images/archive.mjs'

const run = promisify(execFile)
const root = dirname(dirname(fileURLToPath(import.meta.url)))
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt'

/**
 * Writes `NAME.tar` into `outdir`, for a folder of `images`. `dist` holds the programs. A bare image has BusyBox alone: enough to try a runtime with.
 * @param {{ name?: string, dist?: string, outdir?: string, withTools?: boolean, isBare?: boolean }} [options]
 * @returns {Promise<{ file: string, reference: string, digest: string, imageId: string }>}
 */
async function buildImage(options = {}) {
  const { name = 'job' } = options
  const { dist = join(root, 'dist'), outdir = join(root, 'dist/images'), withTools = true, isBare } = options
  const image = JSON.parse(await readFile(join(root, `images/${name}/image.json`), 'utf8'))
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  const layers = [await baseLayer(image)]
  if (!isBare) layers.push(await nodeLayer(image))
  if (!isBare && withTools) layers.push(await toolsLayer(image.tools))
  if (!isBare) layers.push(await programLayer(dist, image.programs))
  const config = {
    User: image.user,
    Env: image.env,
    Entrypoint: image.entrypoint,
    WorkingDir: image.workingDir,
    Labels: { 'org.opencontainers.image.title': image.name, 'org.opencontainers.image.version': version },
  }
  const reference = `${image.name}:${version}`
  const filled = layers.filter((layer) => layer.size > 0)
  const { archive, digest, imageId } = packImage({ reference, config, layers: filled })
  const file = await writeWhole(join(outdir, `${name}.tar`), archive)
  return { file, reference, digest, imageId }
}

async function baseLayer(image) {
  const layer = await readFolder(join(root, 'images/job/rootfs'))
  await addProgram(layer, image.applets, 'busybox')
  await addApplets(layer, image.applets)
  await addCertificates(layer)
  return layer
}

async function nodeLayer(image) {
  const layer = new Map()
  await addProgram(layer, image.node, 'node')
  return layer
}

/** Of programs that stand in for each other, the first that is here. */
async function toolsLayer(tools) {
  const layer = new Map()
  for (const names of tools.map((tool) => [tool].flat())) {
    for (const name of names) {
      if ((await which(name)) === undefined) continue
      await addProgram(layer, `/usr/local/bin/${name}`, name)
      break
    }
  }
  return layer
}

async function programLayer(dist, programs) {
  const layer = new Map()
  for (const program of programs) {
    const data = await readFile(join(dist, program)).catch((cause) => {
      throw new Error(`${join(dist, program)} is not there. Run npm run build first.`, { cause })
    })
    layer.set(`opt/tenon/${program}`, { data })
  }
  return layer
}

/** The program and what it is linked with, each at the place where its loader looks. */
async function addProgram(entries, target, name) {
  const found = name === 'node' ? process.execPath : await which(name)
  if (found === undefined)
    throw new Error(`${name} is not on the PATH. Install it: apt-get install ${packageOf(name)}.`)
  const data = await readFile(await realpath(found))
  entries.set(target.slice(1), { data, mode: 0o755 })
  for (const library of await librariesOf(found)) {
    entries.set(library.slice(1), { data: await readFile(await realpath(library)), mode: 0o755 })
  }
}

async function librariesOf(program) {
  const printed = await run('ldd', [program]).then(
    ({ stdout }) => stdout,
    // A static program is none for ldd.
    () => '',
  )
  return [...printed.matchAll(/(?:=> )?(\/\S+) \(0x/g)].map((match) => match[1])
}

async function addApplets(entries, busybox) {
  const { stdout } = await run((await which('busybox')) ?? 'busybox', ['--list'])
  if ((await librariesOf((await which('busybox')) ?? '')).length > 0) {
    throw new Error('BusyBox is not a static program here. Install one: apt-get install busybox-static.')
  }
  for (const applet of stdout.split('\n').filter((line) => line !== '' && line !== 'busybox')) {
    entries.set(`bin/${applet}`, { link: busybox })
  }
  entries.set('usr/bin/env', { link: busybox })
}

async function addCertificates(entries) {
  const data = await readFile(CERTIFICATES).catch(() => undefined)
  if (data !== undefined) entries.set(CERTIFICATES.slice(1), { data })
}

async function readFolder(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  const read = files.map(async (file) => [relative(folder, file), { data: await readFile(file) }])
  return new Map(await Promise.all(read))
}

async function writeWhole(file, chunks) {
  await mkdir(dirname(file), { recursive: true })
  const draft = `${file}.${process.pid}`
  const handle = await open(draft, 'w')
  try {
    for (const chunk of chunks) await handle.writeFile(chunk)
  } finally {
    await handle.close()
  }
  await rename(draft, file)
  return file
}

async function which(name) {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const file = join(folder, name)
    const isThere = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    )
    if (folder !== '' && isThere) return file
  }
  return undefined
}

function packageOf(name) {
  return name === 'busybox' ? 'busybox-static' : name
}

const { values } = parseArgs({
  options: {
    image: { type: 'string' },
    dist: { type: 'string' },
    outdir: { type: 'string' },
    'no-tools': { type: 'boolean', default: false },
    bare: { type: 'boolean', default: false },
  },
})
const { dist, outdir } = values
const built = await buildImage({
  name: values.image,
  dist,
  outdir,
  withTools: !values['no-tools'],
  isBare: values.bare,
})
console.log(JSON.stringify(built))
