import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { dependencyOrder, graphProblems, type Component } from './app.ts'

function component(name: string, dependencies: string[] = []): Component {
  return { name, type: 'script', dependencies, config: {} }
}

function hasOrder(components: Component[]): boolean {
  try {
    return dependencyOrder(components).length === components.length
  } catch {
    return false
  }
}

const anyGraph = fc.array(
  fc
    .tuple(
      fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
      fc.array(fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'x'), { maxLength: 3 }),
    )
    .map(([name, dependencies]) => component(name, dependencies)),
  { maxLength: 7 },
)

describe('graphProblems', () => {
  it('names every mistake at once', () => {
    const problems = graphProblems([component('a', ['b']), component('b', ['a', 'x']), component('b', ['a'])])
    expect(problems).toEqual([
      { code: 'duplicate_component', component: 'b' },
      { code: 'unknown_dependency', component: 'b', dependency: 'x' },
      { code: 'dependency_cycle', path: ['a', 'b', 'a'] },
    ])
  })

  it('finds a component that depends on itself', () => {
    expect(graphProblems([component('a', ['a'])])).toEqual([{ code: 'dependency_cycle', path: ['a', 'a'] }])
  })

  it('is empty exactly when there is an order (and no name twice)', () => {
    fc.assert(
      fc.property(anyGraph, (graph) => {
        const distinct = [...new Map(graph.map((c) => [c.name, c])).values()]
        expect(graphProblems(distinct).length === 0).toBe(hasOrder(distinct))
        const twice = graphProblems(graph).filter((p) => p.code === 'duplicate_component')
        expect(twice).toHaveLength(graph.length - distinct.length)
      }),
    )
  })

  it('shows a cycle that is really one', () => {
    fc.assert(
      fc.property(anyGraph, (graph) => {
        const byName = new Map(graph.map((c) => [c.name, c]))
        for (const problem of graphProblems(graph)) {
          if (problem.code !== 'dependency_cycle') continue
          const { path } = problem
          expect(path.at(0)).toBe(path.at(-1))
          for (const [i, name] of path.slice(0, -1).entries()) {
            expect(byName.get(name)?.dependencies).toContain(path[i + 1])
          }
        }
      }),
    )
  })
})

describe('dependencyOrder', () => {
  it('puts every dependency first and does not depend on the order it is given', () => {
    fc.assert(
      fc.property(anyGraph, fc.infiniteStream(fc.nat()), (graph, random) => {
        const distinct = [...new Map(graph.map((c) => [c.name, c])).values()]
        fc.pre(graphProblems(distinct).length === 0)
        const order = dependencyOrder(distinct)
        for (const { name, dependencies } of distinct) {
          for (const d of dependencies) expect(order.indexOf(d)).toBeLessThan(order.indexOf(name))
        }
        const keys = new Map(distinct.map((c) => [c.name, random.next().value]))
        const shuffled = distinct.toSorted((a, b) => keys.get(a.name)! - keys.get(b.name)!)
        expect(dependencyOrder(shuffled)).toEqual(order)
      }),
    )
  })
})
