/** A judge and proxies on loopback, in a process of their own, below the rest: in reality they are elsewhere. */
import { createServer } from 'node:net'
import { systemClock } from '../../../../src/lib/clock.ts'
import type { Address } from '../../../../src/proxies/proxy.ts'
import {
  type Behaviour,
  http,
  page,
  says,
  socks,
  startProxy,
} from '../../../support/fake-proxies.ts'
import { startTestJudge } from '../../../support/judge.ts'
import { launch } from '../../../support/launch.ts'

export type World = {
  judge: { port: number; tlsPort: number }
  /** The port of a proxy of any type at each address of 127.0.0.0/8. */
  everywhere: number
  /** A page that says what it was sent: proxy-verifier has no judge. */
  rival: string
  proxies: { [kind: string]: readonly Address[] }
}

/** So many of each kind: one is asked by a few connections at a time. */
const EACH = 16

const KINDS: { readonly [kind: string]: Behaviour } = {
  http: http(),
  https: http({ plain: page(403), tunnel: 'forward' }),
  socks5: socks([5]),
  liar: says(page(200, 'welcome')),
  closes: client => void client.end(),
}

/** Speaks the type that it is asked in. */
const polyglot: Behaviour = client => {
  client.once('data', bytes => {
    client.pause()
    client.unshift(bytes)
    const behave = bytes[0] === 4 || bytes[0] === 5 ? socks([4, 5]) : http()
    behave(client)
    client.resume()
  })
}

async function makeWorld(): Promise<World> {
  const { port, tlsPort } = await startTestJudge({ clock: systemClock })
  const proxies: { [kind: string]: Address[] } = { nobody: [{ ip: '127.66.0.2', port: 9 }] }
  for (const [kind, behave] of Object.entries(KINDS)) {
    const some = await Promise.all(Array.from({ length: EACH }, () => startProxy(behave)))
    proxies[kind] = some.map(({ ip, port: at }) => ({ ip, port: at }))
  }
  const { port: everywhere } = await startProxy(polyglot, '0.0.0.0')
  const hanging = createServer(client => void client.on('error', () => {}))
  await new Promise<void>(resolve => hanging.listen(0, '0.0.0.0', 8192, resolve))
  const bound = hanging.address()
  proxies.hangs = [{ ip: '127.66.0.1', port: typeof bound === 'object' && bound ? bound.port : 0 }]
  const rival = Bun.serve({
    ...{ hostname: '127.0.0.1', port: 0 },
    fetch: (request, server) =>
      Response.json({ ip_addr: server.requestIP(request)?.address, ...request.headers.toJSON() }),
  })
  return { judge: { port, tlsPort }, everywhere, rival: rival.url.href, proxies }
}

/** Starts the process; it runs until the part of the run ends. */
export async function startWorld(): Promise<World> {
  const world = launch(['nice', '-n', '10', process.execPath, import.meta.path])
  while (!world.written.stdout.endsWith('\n')) {
    if (!world.isRunning()) throw new Error(`the proxies ended: ${world.written.stderr}`)
    await Bun.sleep(20)
  }
  return JSON.parse(world.written.stdout)
}

if (import.meta.main) process.stdout.write(`${JSON.stringify(await makeWorld())}\n`)
