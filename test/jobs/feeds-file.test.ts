/** The file of feeds changes while a server runs: ticks by hand, on a real file. */
import { afterAll, expect, test } from 'bun:test'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { watchFeedsFile } from '../../src/jobs/feeds-file.ts'
import { CommandError } from '../../src/lib/errors.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

/** A file that is watched; `reads` counts how often it was read, `failure` is what reading throws. */
function watched() {
  const file = join(temporaryDirectory(), 'feeds.conf')
  writeFileSync(file, 'a')
  const said: string[] = []
  const failures: unknown[] = []
  const state = { reads: 0, failure: null as Error | null, changes: { added: 0, removed: 0 } }
  const tick = watchFeedsFile({
    file,
    read() {
      state.reads += 1
      if (state.failure) throw state.failure
      return []
    },
    change: () => ({ changed: 0, ...state.changes }),
    say: sentence => void said.push(sentence.replace(file, 'FILE')),
    onFailure: failure => void failures.push(failure),
  })
  return { file, said, failures, state, tick }
}

test('a file is read again when it has changed, once it is no longer being written', async () => {
  const { file, said, state, tick } = watched()
  await tick()
  await tick() // it may have changed between the start of the server and the first tick
  await tick()
  expect([state.reads, said]).toEqual([1, []])
  state.changes = { added: 2, removed: 1 }
  for (const text of ['ab', 'abc']) {
    writeFileSync(file, text)
    await tick()
    expect(state.reads).toBe(1)
  }
  await tick()
  await tick()
  expect([state.reads, said]).toEqual([2, ['FILE was read again: 2 added, 1 removed']])
})

test('a file that is broken or missing is said once, and its end', async () => {
  const { file, said, state, tick } = watched()
  await tick()
  await tick()
  state.failure = new CommandError('FILE:1: wrong', 2)
  rmSync(file)
  for (let n = 0; n < 3; n += 1) await tick()
  expect([state.reads, said]).toEqual([2, ['FILE:1: wrong; the feeds stay as they were']])
  state.failure = null
  writeFileSync(file, 'a')
  for (let n = 0; n < 3; n += 1) await tick()
  expect([state.reads, said.at(-1)]).toEqual([3, 'FILE was read again: no feed changed'])
})

test('a temporary failure is reported, and the file is read at the next tick again', async () => {
  const { failures, state, tick } = watched()
  state.failure = new Error('busy')
  for (let n = 0; n < 3; n += 1) await tick()
  expect([state.reads, failures]).toEqual([2, [state.failure, state.failure]])
  state.failure = null
  await tick()
  await tick()
  expect(state.reads).toBe(3)
})
