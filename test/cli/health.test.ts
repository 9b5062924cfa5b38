import { afterAll, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

import { ROOT } from '../support/program.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { runCommand } from '../support/transcript.ts'

afterAll(cleanUp)

/** A server that is ready or not, at a port or a socket. */
const serverAt = (where: { unix: string } | { hostname: string; port: number }, status: number) =>
  Bun.serve({
    ...(where as { hostname: string; port: number }),
    fetch: ({ url }) => new Response('ready\n', { status: url.endsWith('/readyz') ? status : 404 }),
  })

test('health exits 0 when a server is ready, and says why it is not', async () => {
  using ready = serverAt({ hostname: '127.0.0.1', port: 0 }, 200)
  using away = serverAt({ hostname: '127.0.0.1', port: 0 }, 503)
  const socket = join(temporaryDirectory(), 'health.sock')
  using _ = serverAt({ unix: socket }, 200)
  const ask = async (listen: string) => {
    const { exitCode, stdout, stderr } = await runCommand(['health', '--listen', listen])
    return { exitCode, stdout, stderr }
  }
  const good = { exitCode: 0, stdout: 'ready\n', stderr: '' }
  expect(await ask(`:${ready.port}`)).toEqual(good)
  expect(await ask(`unix:${socket}`)).toEqual(good)
  const there = `http://127.0.0.1:${away.port}`
  expect(await ask(`127.0.0.1:${away.port}`)).toEqual({
    ...{ exitCode: 1, stdout: '', stderr: `proxylist: ${there} answers with 503\n` },
  })
  expect(await ask(`unix:${socket}2`)).toEqual({
    ...{ exitCode: 1, stdout: '' },
    stderr: `proxylist: no server answers at unix:${socket}2 (ENOENT)\n`,
  })
})

test('health waits 5 s for a silent server', async () => {
  using silent = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const { exitCode, stderr } = await runCommand(['health', '--listen', `:${silent.port}`])
  expect([exitCode, stderr]).toEqual([
    1,
    `proxylist: no server answers at http://[::]:${silent.port} (no reply within 5 s)\n`,
  ])
}, 20_000)

test('the Containerfile runs health', () => {
  expect(readFileSync(join(ROOT, 'data/Containerfile'), 'utf8')).toContain(
    'HEALTHCHECK CMD ["proxylist", "health"]\n',
  )
})
