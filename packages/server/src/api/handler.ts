import type { CallOutput, RouteName, Routes } from '@tenon/protocol'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { Context } from '../context.ts'
import type { Caller } from '../people/actor.ts'

type Out<T> = T extends z.ZodType ? z.output<T> : T extends 'bytes' ? AsyncIterable<Uint8Array> : undefined

/** What a handler gets: everything parsed by the route's schemas, and a caller who may. */
export interface Call<N extends RouteName> {
  context: Context
  caller: Caller
  /** Asks for what the route names as `elevated`, where the call does that; throws for who may not. */
  elevate: () => void
  params: z.output<Routes[N]['params']>
  query: z.output<Routes[N]['query']>
  body: Out<Routes[N]['body']>
  request: FastifyRequest
  reply: FastifyReply
}

type Result<N extends RouteName> = CallOutput<N> extends Response ? void : CallOutput<N>

export type Handlers = { [N in RouteName]: (call: Call<N>) => Promise<Result<N>> }

/** One row more than asked for tells whether there is a next page. */
export function pageOf<R extends { id: string }, V>(
  rows: R[],
  limit: number,
  view: (row: R) => V,
): { items: V[]; next: string | null } {
  const items = rows.slice(0, limit)
  return { items: items.map(view), next: rows.length > limit ? items.at(-1)!.id : null }
}
