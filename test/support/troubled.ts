/** A server of the program of which much needs attention at once, and what mends it. */
import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { smallDisk } from './disk.ts'
import { dataDirectory, T0 } from './fixtures.ts'
import { createClock, proxylist } from './program.ts'
import { startConsole } from './service.ts'
import { temporaryDirectory } from './temporary.ts'

const row = (ip: string, age: number) => ({ ip: `${ip}:80`, type: 'http', age })

/**
 * Its clock is an hour behind, its list stale, its feed missing, a key about to end, and, where this user
 * may mount one, its disk full.
 */
export async function startTroubled() {
  const clock = createClock()
  clock.setClock(T0 - 3_600_000)
  const made = dataDirectory([row('192.0.2.1', -300), row('192.0.2.2', 7200)])
  const disk = smallDisk('40m')
  const dir = disk === null ? made : join(disk, 'data')
  if (disk !== null) cpSync(made, dir, { recursive: true })
  const feed = join(temporaryDirectory(), 'feed.txt')
  const server = await startConsole(dir, ['--feed', feed], clock.env)
  const ask = (path: string): Promise<Response> =>
    fetch(`${server.admin}${path}`, {
      headers: { authorization: `Bearer ${server.url.split('#token=')[1]}` },
    })
  await server.says(/feed .* cannot be read/)
  let ms = T0 - 3_600_000
  const run = (...args: string[]) => proxylist([...args, '--data', dir], { env: clock.env })
  const [{ id }] = JSON.parse((await run('keys', 'list', '--json')).stdout)
  const endsAt = (when: string) => run('keys', 'set', id, '--expires', when)
  await endsAt('2026-11-24')
  return {
    ...{ server, ask, run },
    reasons: ['list_stale', 'feed_failing', 'key_expiring', ...(disk ? ['disk'] : []), 'clock'],
    /** Moves the clock on, so that all is read again. */
    readAgain(): void {
      ms += 10_000
      clock.setClock(ms)
    },
    async mend(): Promise<void> {
      ms = T0
      clock.setClock(ms)
      writeFileSync(feed, 'http://192.0.2.9:80\n')
      for (const done of [await run('fetch', '--feed', feed), await endsAt('never')]) {
        if (done.exitCode !== 0) throw new Error(done.stderr)
      }
      if (disk !== null) Bun.spawnSync(['mount', '-o', 'remount,size=200m', disk])
      // What was read while it was half mended is read again.
      ms += 20_000
      clock.setClock(ms)
    },
  }
}
