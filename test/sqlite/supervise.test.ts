/** Holds what a handle does for a store that fails: when it opens anew, and what it says. */
import { describe, expect, test } from 'bun:test'
import { Unavailable } from '../../src/api/errors.ts'
import { createHandle } from '../../src/sqlite/supervise.ts'

const sqliteError = (message: string): Error =>
  Object.assign(new Error(message), { name: 'SQLiteError' })
const WORN = sqliteError('worn')
const BUSY = sqliteError('busy')

/** A handle on numbered stores, what is wrong with them at the moment, and what was said. */
function handleOn(first: boolean) {
  const trouble: { open?: Error; look?: Error; probe?: Error } = {}
  const said: string[] = []
  const closed: number[] = []
  const raise = (failure: Error | undefined): void => {
    if (failure) throw failure
  }
  let opened = first ? 1 : 0
  const handle = createHandle(first ? { number: 1 } : null, {
    name: 'the file',
    reopen() {
      raise(trouble.open)
      opened += 1
      return { number: opened }
    },
    close: ({ number }) => void closed.push(number),
    look: () => raise(trouble.look),
    probe: () => raise(trouble.probe),
    isWorn: failure => failure === WORN || failure instanceof Unavailable,
    explain: failure => `the file: ${failure instanceof Error ? failure.message : failure}`,
    say: sentence => void said.push(sentence),
  })
  const number = () => handle.use(store => store.number)
  const fail = (failure: Error) => {
    expect(() => handle.use(() => raise(failure))).toThrow(failure)
  }
  return { handle, trouble, said, closed, number, fail }
}
const END = '; answering 503 until that is over'

test('a store that fails is not closed under the work around the one that failed', () => {
  const { handle, closed } = handleOn(true)
  const inner = () =>
    handle.use(() => {
      throw WORN
    })
  expect(() =>
    handle.use(() => {
      try {
        inner()
      } finally {
        expect(closed).toEqual([])
      }
    }),
  ).toThrow(WORN)
  expect(closed).toEqual([1])
})

describe('a store that fails', () => {
  test('is kept when a new one would not help, and told of once', () => {
    const { handle, trouble, said, closed, number, fail } = handleOn(true)
    for (const _ of [1, 2, 3]) fail(BUSY)
    trouble.probe = BUSY
    for (const _ of [1, 2]) handle.tend()
    expect([number(), closed]).toEqual([1, []])
    expect(said).toEqual([`the file: busy${END}`])
    trouble.probe = undefined as never
    for (const _ of [1, 2]) handle.tend()
    expect(said.slice(1)).toEqual(['the file works again'])
  })

  test('is closed when it is worn, and opened anew by the next look', () => {
    const { handle, closed, number, fail, said } = handleOn(true)
    fail(WORN)
    expect(closed).toEqual([1])
    expect(number).toThrow(Unavailable)
    const before = handle.generation()
    handle.tend()
    expect(number()).toBe(2)
    expect(handle.generation()).toBe(before + 1)
    expect(said).toEqual([`the file: worn${END}`, 'the file works again'])
  })

  test('is opened again and again until that can be done', () => {
    const { handle, trouble, number, said } = handleOn(false)
    trouble.open = new Unavailable('gone')
    for (const _ of [1, 2, 3]) handle.tend()
    expect(number).toThrow(Unavailable)
    trouble.open = undefined as never
    handle.tend()
    expect(number()).toBe(1)
    expect(said).toEqual([`the file: gone${END}`, 'the file works again'])
  })

  test('is given up when a look finds another file in its place', () => {
    const { handle, trouble, closed } = handleOn(true)
    trouble.look = new Unavailable('replaced')
    handle.tend()
    expect(closed).toEqual([1])
  })

  test('what follows from a failure is not told, what was found out about it is', () => {
    const { handle, trouble, said, fail } = handleOn(true)
    fail(BUSY)
    fail(sqliteError('no such table'))
    trouble.look = new Unavailable('damaged')
    for (const _ of [1, 2]) handle.tend()
    expect(said).toEqual([`the file: busy${END}`, `the file: damaged${END}`])
  })

  test('our own mistakes are nobody else’s', () => {
    const { said, closed, fail } = handleOn(true)
    fail(new TypeError('a mistake'))
    expect([said, closed]).toEqual([[], []])
  })
})

test('a handle that is closed opens nothing any more', () => {
  const { handle, closed, number } = handleOn(true)
  handle.close()
  handle.tend()
  expect(closed).toEqual([1])
  expect(number).toThrow(Unavailable)
})
