import { describe, expect, it } from 'vitest'
import { formatPlatform, mediaTypes, parsePlatform, selectPlatform, sha256Digest } from './index.ts'
import type { OciManifest } from './index.ts'

const indexOf = (...platforms: string[]): OciManifest => ({
  mediaType: mediaTypes.index,
  layers: [],
  manifests: platforms.map((text) => ({
    mediaType: mediaTypes.manifest,
    digest: sha256Digest(Buffer.from(text)),
    size: 1,
    ...(text === '' ? {} : { platform: parsePlatform(text) }),
  })),
})

describe('the platform of an index', () => {
  it.each([
    ['linux/amd64', ['linux/arm64', 'linux/amd64'], 'linux/amd64'],
    ['linux/arm64', ['linux/amd64', 'linux/arm64/v8'], 'linux/arm64/v8'],
    ['linux/arm64/v8', ['linux/arm64'], 'linux/arm64'],
    ['linux/arm', ['linux/arm/v5', 'linux/arm/v7', 'linux/arm/v6'], 'linux/arm/v7'],
    ['linux/arm/v6', ['linux/arm/v7', 'linux/arm/v5', 'linux/arm/v6'], 'linux/arm/v6'],
    ['linux/arm/v6', ['linux/arm/v7', 'linux/arm/v5'], 'linux/arm/v5'],
    ['linux/amd64', ['linux/amd64/v3', 'linux/amd64'], 'linux/amd64'],
    ['linux/amd64/v3', ['linux/amd64/v2', 'linux/amd64'], 'linux/amd64/v2'],
    ['linux/amd64', ['unknown/unknown', '', 'linux/amd64'], 'linux/amd64'],
  ])('for %s of %j is %s', (wanted, offered, expected) => {
    const { platform } = selectPlatform(indexOf(...offered), parsePlatform(wanted))
    expect(platform === undefined ? undefined : formatPlatform(platform)).toBe(expected)
  })

  it('that is not there is named with what there is', () => {
    const none = () => selectPlatform(indexOf('linux/amd64', 'linux/arm/v7'), parsePlatform('linux/arm/v6'))
    expect(none).toThrow(expect.objectContaining({ code: 'NOT_FOUND' }))
    expect(none).toThrow(/offers linux\/amd64, linux\/arm\/v7/)
  })

  it.each(['', 'linux', 'Linux/amd64', 'linux/amd64/v1/x', '../x'])('is refused when it reads %j', (text) => {
    expect(() => parsePlatform(text)).toThrow(expect.objectContaining({ code: 'NAME_INVALID' }))
  })
})
