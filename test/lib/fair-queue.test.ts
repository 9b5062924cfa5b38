/** The order of work in turns (src/lib/fair-queue.ts, contract B9), on a clock of its own. */
import { expect, test } from 'bun:test'
import { nextTurn } from '../../src/lib/errors.ts'
import {
  createCalls,
  createFairQueue,
  createLines,
  type Owner,
  type Work,
} from '../../src/lib/fair-queue.ts'

const plan = (id: string): Owner => ({ id, isTrial: false })
const trial = (id: string): Owner => ({ id, isTrial: true })

/** Turns on a clock that only work moves. */
function createWorld() {
  let nowMs = 0
  const turns = createFairQueue(() => nowMs)
  const done: string[] = []
  const doneAtMs = new Map<string, number>()
  let lanes = 0
  /** Work of so many milliseconds, with a pause after each of its steps. */
  function* work(name: string, ms: number, stepMs = 1): Work {
    for (let left = ms; left > 0; left -= stepMs) {
      nowMs += stepMs
      done.push(name)
      if (left > stepMs) yield
    }
    doneAtMs.set(name, nowMs)
  }
  return {
    done,
    nowMs: () => nowMs,
    /** How long work took from now on, once it is done. */
    add(owner: Owner, name: string, ms: number, { lane = ++lanes, stepMs = 1 } = {}) {
      const sinceMs = nowMs
      turns.add(owner, lane, work(name, ms, stepMs))
      return () => (doneAtMs.get(name) ?? Number.NaN) - sinceMs
    },
    run(slices = Infinity): void {
      for (let n = 0; n < slices && turns.doSlice(); n += 1);
    },
  }
}

test('work is done in the order in which it came, if it is of one owner and lane', () => {
  const { add, run, done } = createWorld()
  for (const name of ['find', 'pull', 'cancel']) add(plan('a'), name, 9, { lane: 7 })
  run()
  expect([...new Set(done)]).toEqual(['find', 'pull', 'cancel'])
  expect(done).toHaveLength(27)
})

test('what is done quickly does not wait for what takes long, of one key', () => {
  const { add, run } = createWorld()
  add(plan('heavy'), 'long', 2000)
  run(50)
  const quickMs = add(plan('other'), 'quick', 10)
  run()
  expect(quickMs()).toBeLessThanOrEqual(20)
})

test('a key with many long answers gets no more than a key with one', () => {
  const { add, run } = createWorld()
  const many = Array.from({ length: 4 }, (_, n) => add(plan('many'), `many ${n}`, 400))
  const oneMs = add(plan('one'), 'one', 400)
  run()
  expect(oneMs()).toBeLessThanOrEqual(810)
  expect(Math.max(...many.map(ms => ms()))).toBe(2000)
})

test('no crowd of addresses keeps the answer of a plan waiting for more than a slice or two', () => {
  const { add, run } = createWorld()
  for (let n = 0; n < 41; n += 1) add(trial(`192.0.2.${n}`), `demo ${n}`, 1000)
  run(20)
  const quickMs = add(plan('paying'), 'count=1', 10)
  run(10)
  expect(quickMs()).toBeLessThanOrEqual(20)
})

test('demo and temporary keys get a tenth of the time at least', () => {
  const { add, run } = createWorld()
  for (let n = 0; n < 20; n += 1) add(plan(`key ${n}`), `paying ${n}`, 1000)
  const demoMs = add(trial('192.0.2.1'), 'demo', 100)
  run()
  expect(demoMs()).toBeGreaterThan(500)
  expect(demoMs()).toBeLessThanOrEqual(1100)
})

test('addresses have turns among themselves', () => {
  const { add, run } = createWorld()
  add(trial('192.0.2.1'), 'long', 1000)
  const otherMs = add(trial('192.0.2.2'), 'other', 100)
  run()
  expect(otherMs()).toBeLessThanOrEqual(220)
})

test('a key does not gain by sending its work piece by piece', () => {
  const { add, run, done } = createWorld()
  add(plan('whole'), 'whole', 400)
  for (let n = 0; n < 50; n += 1) {
    add(plan('pieces'), 'piece', 8)
    run(4)
  }
  const shares = Map.groupBy(done, name => name)
  const ratio = (shares.get('piece')?.length ?? 0) / (shares.get('whole')?.length ?? 1)
  expect(ratio).toBeLessThan(1.3)
})

test('who has used much waits for nobody longer after a crowd has come and gone', () => {
  const { add, run } = createWorld()
  add(plan('regular'), 'downloads of a day', 10_000)
  run()
  for (let n = 0; n < 500; n += 1) {
    add(plan(`one of many ${n}`), 'once', 5)
    run()
  }
  add(plan('new'), 'long', 10_000)
  run(50)
  const quickMs = add(plan('regular'), 'quick', 5)
  run()
  expect(quickMs()).toBeLessThanOrEqual(50)
})

test('a step that takes longer than a slice ends it', () => {
  const { add, run, done } = createWorld()
  add(plan('a'), 'a', 40, { stepMs: 20 })
  add(plan('b'), 'b', 4)
  run()
  expect(done).toEqual(['a', 'b', 'b', 'b', 'b', 'a'])
})

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
