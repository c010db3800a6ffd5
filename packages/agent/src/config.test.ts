import { describe, expect, it } from 'vitest'
import { readConfig } from './config.ts'

const flags = ['--server', 'https://tenon.example', '--dir', '/var/lib/agent']

describe('the configuration', () => {
  it('has defaults for all but the server and the folder', () => {
    expect(readConfig(flags, {}, '/opt/tenon')).toMatchObject({
      serverUrl: 'https://tenon.example',
      dir: '/var/lib/agent',
      runtime: 'process',
      slots: 4,
      programs: '/opt/tenon',
      storeKeyFile: '/var/lib/agent/store.key',
      registry: undefined,
      joinToken: undefined,
    })
  })

  it('takes flags before variables', () => {
    const env = { TENON_SERVER_URL: 'https://other', TENON_SLOTS: '9', HTTPS_PROXY: 'http://proxy:1' }
    const config = readConfig([...flags, '--slots', '2'], env, '/opt')
    expect(config).toMatchObject({ serverUrl: 'https://tenon.example', slots: 2 })
    expect(config.proxy.httpsProxy).toBe('http://proxy:1')
  })

  it('takes a join token out of the environment at once, and has no flag for it', () => {
    const env: Record<string, string | undefined> = { TENON_JOIN_TOKEN: 'tenonjoin.x' }
    expect(readConfig(flags, env, '/opt').joinToken).toEqual({ value: 'tenonjoin.x' })
    expect(env).toEqual({})
    expect(() => readConfig([...flags, '--join-token', 'x'], {}, '/opt')).toThrow(/not usable/)
  })

  it.each([
    [[], {}, /--server/],
    [['--server', 'ftp://x', '--dir', '/d'], {}, /http or https/],
    [[...flags, '--slots', '0'], {}, /--slots/],
    [[...flags, '--runtime', 'magic'], {}, /--runtime/],
    [[...flags, '--nonsense'], {}, /nonsense/],
    [flags, { TENON_REGISTRY_URL: 'http://r' }, /belong together/],
  ])('refuses %o with %o', (argv, env, message) => {
    const read = () => readConfig(argv as string[], env, '/opt')
    expect(read).toThrow(message)
    expect(read).toThrow(expect.objectContaining({ code: 'bad_config', remedy: expect.any(String) }))
  })
})

describe('the docker runtime', () => {
  const image = `registry.example/tenon/job@sha256:${'a'.repeat(64)}`

  it('takes the first usual socket that is there, or the one it is told', () => {
    const env = { TENON_RUNTIME: 'docker', TENON_JOB_IMAGE: image }
    expect(readConfig(flags, { ...env, XDG_RUNTIME_DIR: '/run/user/7' }, '/opt').docker).toEqual({
      socketPaths: ['/var/run/docker.sock', '/run/podman/podman.sock', '/run/user/7/podman/podman.sock'],
      image,
      workBytes: undefined,
    })
    const told = { ...env, TENON_DOCKER_SOCKET: '/run/my.sock', TENON_WORK_BYTES: '2000000' }
    expect(readConfig(flags, told, '/opt').docker).toEqual({
      socketPaths: ['/run/my.sock'],
      image,
      workBytes: 2_000_000,
    })
  })

  it('is left out of the settings of another runtime', () => {
    expect(readConfig(flags, { TENON_JOB_IMAGE: image }, '/opt').docker).toBeUndefined()
  })

  it.each([undefined, 'tenon/job:latest', 'tenon/job@sha256:12'])('refuses the image %s', (named) => {
    const read = () => readConfig(flags, { TENON_RUNTIME: 'docker', TENON_JOB_IMAGE: named }, '/opt')
    expect(read).toThrow(/TENON_JOB_IMAGE must name the image of jobs by digest/)
  })
})

describe('the kubernetes runtime', () => {
  const image = `registry.example/tenon/job@sha256:${'a'.repeat(64)}`
  const env = {
    TENON_RUNTIME: 'kubernetes',
    TENON_JOB_IMAGE: image,
    TENON_KUBERNETES_NAMESPACE: 'jobs',
    TENON_JOB_API_URL: 'https://agent.tenon.svc:8443',
  }

  it('takes the cluster it runs in, and a service account for each kind of job that has one', () => {
    const told = {
      ...env,
      KUBERNETES_SERVICE_HOST: '10.0.0.1',
      KUBERNETES_SERVICE_PORT: '443',
      TENON_KUBERNETES_SERVICE_ACCOUNTS: 'deploy=cloud-admin, action=reader,',
      TENON_JOB_NETWORKS: 'action=cluster,logs=none',
    }
    const { networks, outdated } = readConfig(flags, told, '/opt')
    expect(networks).toEqual({ action: 'cluster', logs: 'internal' })
    expect(outdated).toEqual([expect.stringContaining('none, which is now called internal')])
    expect(readConfig(flags, told, '/opt').kubernetes).toMatchObject({
      kubeconfig: undefined,
      serviceHost: '10.0.0.1',
      namespace: 'jobs',
      image,
      serviceAccounts: { deploy: 'cloud-admin', action: 'reader' },
      api: { url: 'https://agent.tenon.svc:8443', host: '0.0.0.0', port: 8443 },
    })
  })

  it.each([
    [{ TENON_KUBERNETES_NAMESPACE: undefined }, /TENON_KUBERNETES_NAMESPACE is needed/],
    [{ TENON_KUBERNETES_NAMESPACE: 'Not One' }, /name of a namespace/],
    [{ TENON_JOB_API_URL: undefined }, /TENON_JOB_API_URL is needed/],
    [{ TENON_JOB_API_URL: 'http://plain' }, /https/],
    [{ TENON_JOB_API_LISTEN: 'nowhere' }, /address and a port/],
    [{ TENON_JOB_IMAGE: `sha256:${'a'.repeat(64)}` }, /by digest/],
    [{ TENON_KUBERNETES_SERVICE_ACCOUNTS: 'cook=x' }, /KIND=ACCOUNT/],
    [
      { TENON_JOB_NETWORKS: 'deploy=some' },
      /TENON_JOB_NETWORKS must be KIND=internal\|cluster\|egress\|open/,
    ],
  ])('refuses %o', (more, message) => {
    expect(() => readConfig(flags, { ...env, ...more }, '/opt')).toThrow(message)
  })
})
