/** Queues of work by name (src/lib/fair-queue.ts). */
import { expect, test } from 'bun:test'
import { nextTurn } from '../../src/lib/errors.ts'
import { createLines } from '../../src/lib/fair-queue.ts'

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
