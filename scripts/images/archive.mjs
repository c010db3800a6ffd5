// An image as one file that is an OCI layout and a Docker archive at once, so every engine and tool can load it.
import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { packTar } from './tar.mjs'

const LAYER_TYPE = 'application/vnd.oci.image.layer.v1.tar+gzip'
const CONFIG_TYPE = 'application/vnd.oci.image.config.v1+json'
const MANIFEST_TYPE = 'application/vnd.oci.image.manifest.v1+json'
const EPOCH = '1980-01-01T00:00:00Z'

/** Layers are maps of entries (see tar.mjs), lowest first. */
export function packImage({ reference, config, layers }) {
  const packed = layers.map((entries) => {
    const tar = Buffer.concat(packTar(entries))
    const gzip = gzipSync(tar, { level: 6 })
    // Names the operating system that packed; 255 says unknown, the same everywhere.
    gzip[9] = 255
    return { diffId: digestOf(tar), data: gzip }
  })
  const configData = json({
    created: EPOCH,
    architecture: { x64: 'amd64' }[process.arch] ?? process.arch,
    os: 'linux',
    config,
    rootfs: { type: 'layers', diff_ids: packed.map(({ diffId }) => diffId) },
    history: packed.map(() => ({ created: EPOCH, created_by: 'tenon' })),
  })
  const manifest = json({
    schemaVersion: 2,
    mediaType: MANIFEST_TYPE,
    config: descriptor(CONFIG_TYPE, configData),
    layers: packed.map(({ data }) => descriptor(LAYER_TYPE, data)),
  })
  const blobs = [configData, manifest, ...packed.map(({ data }) => data)]
  const annotations = { 'org.opencontainers.image.ref.name': reference }
  const index = json({
    schemaVersion: 2,
    manifests: [{ ...descriptor(MANIFEST_TYPE, manifest), annotations }],
  })
  const forDocker = json([
    {
      Config: blobPath(configData),
      RepoTags: [reference],
      Layers: packed.map(({ data }) => blobPath(data)),
    },
  ])
  const files = [
    ['oci-layout', json({ imageLayoutVersion: '1.0.0' })],
    ['index.json', index],
    ['manifest.json', forDocker],
    ...blobs.map((data) => [blobPath(data), data]),
  ]
  const archive = packTar(new Map(files.map(([name, data]) => [name, { data }])))
  return { archive, digest: digestOf(manifest), imageId: digestOf(configData) }
}

function descriptor(mediaType, data) {
  return { mediaType, digest: digestOf(data), size: data.length }
}

function blobPath(data) {
  return `blobs/${digestOf(data).replace(':', '/')}`
}

function digestOf(data) {
  return `sha256:${createHash('sha256').update(data).digest('hex')}`
}

function json(value) {
  return Buffer.from(JSON.stringify(value))
}
