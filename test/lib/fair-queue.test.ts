/** Queues of work and calls by owner (src/lib/fair-queue.ts), on a clock of its own. */
import { expect, test } from 'bun:test'
import { nextTurn } from '../../src/lib/errors.ts'
import { createCalls, createLines, type Owner } from '../../src/lib/fair-queue.ts'

const plan = (id: string): Owner => ({ id, isTrial: false })
const trial = (id: string): Owner => ({ id, isTrial: true })

test('in a line, so much work of an owner runs at once, in the order in which it came', async () => {
  const { inLine } = createLines(2)
  const begun: string[] = []
  const ends: (() => void)[] = []
  const ask = (owner: string, name: string) =>
    inLine(owner, () => {
      begun.push(name)
      const { promise, resolve, reject } = Promise.withResolvers<string>()
      ends.push(() => (name === 'fails' ? reject(new Error(name)) : resolve(name)))
      return promise
    })
  const failing = ask('a', 'fails')
  const all = ['a2', 'a3', 'a4'].map(name => ask('a', name))
  const other = ask('b', 'b1')
  expect(begun).toEqual(['fails', 'a2', 'b1'])
  ends[0]?.()
  await expect(failing).rejects.toThrow('fails')
  expect(begun).toEqual(['fails', 'a2', 'b1', 'a3'])
  for (let at = 1; at < 5; at += 1) {
    ends[at]?.()
    await nextTurn()
  }
  expect(await Promise.all([...all, other])).toEqual(['a2', 'a3', 'a4', 'b1'])
})

/** Calls that are made by name, at most so many in a turn of the event loop. */
function createNamedCalls(most: number, gone: readonly string[] = [], msEach = 0) {
  const made: string[] = []
  let nowMs = 0
  const parts = {
    ownerOf: ([owner]: [Owner, string]) => owner,
    call([, name]: [Owner, string]): string {
      made.push(name)
      nowMs += msEach
      if (name === 'fails') throw new Error(name)
      return name
    },
    left: ([, name]: [Owner, string]) => (gone.includes(name) ? 'gone' : null),
  }
  const ask = createCalls(most, parts, () => nowMs)
  /** What was made in each turn until nothing is left. */
  async function turns(): Promise<string[]> {
    const all: string[] = []
    while (made.length > 0) {
      all.push(made.splice(0).join(' '))
      await nextTurn()
    }
    return all
  }
  return { ask: (owner: Owner, name: string) => ask([owner, name]), turns }
}

test('few calls are made at once, without a promise; the others later, in turns between owners', async () => {
  const { ask, turns } = createNamedCalls(2)
  expect(ask(plan('a'), 'a1')).toBe('a1')
  for (const name of ['a2', 'a3', 'a4', 'a5']) ask(plan('a'), name)
  for (const name of ['b1', 'b2']) ask(plan('b'), name)
  expect(await turns()).toEqual(['a1 a2', 'a3 b1', 'a4 b2', 'a5'])
  await nextTurn()
  expect(ask(plan('a'), 'a6')).toBe('a6')
})

test('calls of plans come before those of demo and temp, which get a tenth', async () => {
  const { ask, turns } = createNamedCalls(1)
  ask(trial('first'), 'first')
  for (let n = 0; n < 3; n += 1) ask(trial(`t${n}`), 'T')
  for (let n = 0; n < 19; n += 1) ask(plan(`p${n}`), 'p')
  expect((await turns()).join('')).toBe(`first${'p'.repeat(9)}T${'p'.repeat(9)}TpT`)
})

test('a call that fails while it waits rejects, and others are made', async () => {
  const { ask, turns } = createNamedCalls(1)
  ask(plan('a'), 'a1')
  const failing = Promise.resolve(ask(plan('a'), 'fails')).catch((thrown: Error) => thrown.message)
  const last = ask(plan('a'), 'a3')
  expect(await turns()).toEqual(['a1', 'fails', 'a3'])
  expect(await Promise.all([failing, last])).toEqual(['fails', 'a3'])
})

test('a call that is wanted no more when its turn comes is not made, and does not count', async () => {
  const { ask, turns } = createNamedCalls(1, ['a1', 'a2', 'a3', 'a4'])
  const all = ['a1', 'a2', 'a3', 'a4', 'a5'].map(name => ask(plan('a'), name))
  expect(await turns()).toEqual(['a1', 'a5'])
  expect(await Promise.all(all)).toEqual(['a1', 'gone', 'gone', 'gone', 'a5'])
})

test('fewer calls are made in a turn, an eighth at least, as long as turns take long', async () => {
  const { ask, turns } = createNamedCalls(32, [], 1)
  for (let n = 0; n < 100; n += 1) ask(plan('a'), 'c')
  expect((await turns()).map(turn => turn.split(' ').length)).toEqual([32, 16, 8, 16, 8, 16, 4])
  const slow = createNamedCalls(32, [], 100)
  for (let n = 0; n < 66; n += 1) slow.ask(plan('a'), 'c')
  const sizes = (await slow.turns()).map(turn => turn.split(' ').length)
  expect(sizes).toEqual([32, 16, 8, 4, 4, 2])
})
