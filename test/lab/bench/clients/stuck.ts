/**
 * Clients that ask for the full list and stop reading after its first bytes: they wait without an
 * event loop, so that not even the runtime reads. A script, see `runAsScript`.
 */
import { readFileSync } from 'node:fs'
import { runAsScript } from '../../support/script.ts'

export type StuckInput = { port: number; targetsFile: string; clients: number; seconds: number }
/** Clients whose answer had begun. */
export type StuckResult = { begun: number }

/** Longest wait for the first bytes. */
const BEGIN_MS = 30_000

async function run({ port, targetsFile, clients, seconds }: StuckInput): Promise<StuckResult> {
  const targets = readFileSync(targetsFile, 'utf8').trimEnd().split('\n')
  const { promise: allBegun, resolve } = Promise.withResolvers<void>()
  let begun = 0
  for (const target of targets.slice(0, clients)) {
    await Bun.connect({
      hostname: '127.0.0.1',
      port,
      socket: {
        open: socket =>
          void socket.write(`GET ${target} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`),
        data(socket) {
          socket.pause()
          begun += 1
          if (begun === clients) resolve()
        },
      },
    })
  }
  await Promise.race([allBegun, Bun.sleep(BEGIN_MS)])
  Bun.sleepSync(seconds * 1000)
  return { begun }
}

if (import.meta.main) await runAsScript(run)
