/**
 * Holds that an import which the disk cannot hold does not lock anybody out: keys are admitted again
 * within seconds, and nobody has to do anything. Needs the right to mount small disks.
 */
import { afterAll, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ask } from '../support/answer.ts'
import { smallDisk } from '../support/disk.ts'
import { ASK, addKeys, addList, KEY, T0 } from '../support/fixtures.ts'
import { proxylist } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const ROWS = 60_000
/** From one that holds hardly anything to one that holds the list, its WAL, and both. */
const SIZES = ['2m', '6m', '10m', '14m', '20m', '40m']

/** Takes a second where the machine is not busy. */
const RECOVERY_MS_MAX = 120_000

/** Rows that a plain list has, as many as `ROWS`. */
function manyRows(): string {
  const file = join(temporaryDirectory(), 'many.txt')
  const line = (n: number) => `http://10.${n >> 16}.${(n >> 8) & 255}.${n & 255}:80\n`
  writeFileSync(file, Array.from({ length: ROWS }, (_, n) => line(n)).join(''))
  return file
}

/** Imports `file` beside a server on a disk of this size; returns the exit status. */
async function importOn(disk: string, file: string): Promise<number> {
  const dir = join(disk, 'data')
  addList(dir, [{ ip: '192.0.2.1:80', type: 'http' }])
  addKeys(dir, { free: {} }, [{ key: KEY, plan: 'free' }], T0)
  const server = await startChild(dir)
  const { exitCode, stderr } = await proxylist(['import', file, '--data', dir])
  if (exitCode !== 0) expect(stderr).toContain('the disk is full')
  try {
    const untilMs = performance.now() + RECOVERY_MS_MAX
    while (!(await ask(server, ASK)).startsWith('200 ')) {
      if (performance.now() > untilMs) throw new Error(`nobody is admitted any more on ${disk}`)
      await Bun.sleep(5)
    }
  } finally {
    await server.stop()
  }
  return exitCode
}

const first = smallDisk(SIZES[0] ?? '')

if (first !== null) {
  test('an import that fills the disk locks nobody out, whatever of it fits', async () => {
    const file = manyRows()
    const statuses: number[] = []
    for (const size of SIZES) {
      const disk = size === SIZES[0] ? first : smallDisk(size)
      if (disk === null) throw new Error('no more disks')
      statuses.push(await importOn(disk, file))
    }
    expect([statuses[0], statuses.at(-1)]).toEqual([1, 0])
  })
}
