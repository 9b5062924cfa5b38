/** Holds what the server does about keys, plans and usage that prove damaged while it runs. */
import { afterAll, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { StoreError } from '../../src/lib/errors.ts'
import { ACCESS_FILE } from '../../src/sqlite/data-directory.ts'
import { openServerRegistry } from '../../src/sqlite/server-registry.ts'
import { overwriteRoots } from '../support/damage.ts'
import { dataDirectory, T0 } from '../support/fixtures.ts'
import { cleanUp, onCleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

/** Ticks for which damage stays refused: many more than happen before a check has ended. */
const REFUSED_TICKS = 300

const damaged = expect.stringMatching(/is damaged.*; restore .*; answering 503 until that is over$/)

function serving() {
  const dir = dataDirectory()
  const file = join(dir, ACCESS_FILE)
  const intact = readFileSync(file)
  const said: string[] = []
  const registry = openServerRegistry(dir, sentence => void said.push(sentence))
  onCleanUp(registry.close)
  /** Ticks, more often than every second, until `isOver`; returns whether it was ever found to work. */
  async function tickUntil(isOver: () => boolean): Promise<boolean> {
    let hasWorked = false
    while (!isOver()) {
      registry.tick()
      hasWorked ||= registry.health().works
      await Bun.sleep(5)
    }
    return hasWorked
  }
  const list = () => registry.keys.list(T0)
  return { file, intact, said, registry, list, tickUntil }
}

test('damaged keys are refused and said once, until they are whole again and a check has passed', async () => {
  const { file, intact, said, registry, list, tickUntil } = serving()
  overwriteRoots(file, 'keys') // it can still be opened, and written elsewhere
  expect(list).toThrow(expect.objectContaining({ isDamage: true }))
  let ticks = 0
  expect(await tickUntil(() => ticks++ === REFUSED_TICKS)).toBeFalse()
  expect(list).toThrow(StoreError)
  expect(() => registry.usage.probe()).toThrow(StoreError)
  expect(said).toEqual([damaged])
  writeFileSync(file, intact)
  await tickUntil(() => registry.health().works)
  expect(list()).toHaveLength(1)
  expect(said).toEqual([damaged, `${file} works again`])
})

test('damage that no request meets is found by a check after the start', async () => {
  const { file, said, registry, list, tickUntil } = serving()
  overwriteRoots(file, 'keys')
  await tickUntil(() => said.length > 0)
  expect(registry.health().works).toBeFalse()
  expect(list).toThrow(StoreError)
  expect(said).toEqual([damaged])
})
