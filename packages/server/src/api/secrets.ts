import { findInstall } from '../installs/views.ts'
import { listSecrets } from '../secrets/list.ts'
import { putSecret } from '../secrets/put.ts'
import type { Handlers } from './handler.ts'

export const secretHandlers = {
  'secrets.put': async ({ context, params, body, caller }) => {
    const install = await findInstall(context.db, params.ref)
    return putSecret(
      context,
      install,
      { name: params.name, ciphertext: Buffer.from(body.ciphertext, 'base64') },
      caller,
    )
  },
  'secrets.list': async ({ context, params }) =>
    listSecrets(context, (await findInstall(context.db, params.ref)).id),
} satisfies Partial<Handlers>
