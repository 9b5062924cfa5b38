/** The admin listener in process, on the stores that `serve` uses, its clock moved by hand. */
import type { ImportParts } from '../../src/admin/import.ts'
import { createLogTap } from '../../src/admin/live-log.ts'
import { createApp } from '../../src/app.ts'
import { type Console, createConsole, makeToken, watchAttention } from '../../src/console.ts'
import { observeData } from '../../src/sqlite/metrics.ts'
import { openServerList } from '../../src/sqlite/server-list.ts'
import { openServerRegistry } from '../../src/sqlite/server-registry.ts'
import { type Answer, answerOf, shortOf } from '../support/answer.ts'
import { T0 } from '../support/fixtures.ts'
import { APP_SETTINGS } from '../support/in-process.ts'
import { onCleanUp } from '../support/temporary.ts'

/** Where the listener in process is. */
const WHERE = { kind: 'tcp', hostname: '127.0.0.1', port: 8081 } as const
export const HOST = '127.0.0.1:8081'

type ConsoleOptions = {
  metricsOpen?: boolean
  runImport?: ImportParts['run']
  feeds?: Parameters<typeof createConsole>[0]['feeds']
}

/** The parts of a request; `json` becomes its body. */
type Asking = {
  method?: string
  headers?: { [name: string]: string }
  json?: unknown
  body?: string
  signal?: AbortSignal
}

/** Asks a console, without header fields of its own and as its page does. */
function createAsk(handle: Console['handle'], token: string) {
  const askBare = async (path: string, { json, ...rest }: Asking = {}) => {
    const body = json === undefined ? rest.body : JSON.stringify(json)
    const request = new Request(`http://${HOST}${path}`, {
      ...(rest.method !== undefined && { method: rest.method }),
      ...(rest.signal && { signal: rest.signal }),
      headers: { host: HOST, ...rest.headers },
      ...(body !== undefined && { body }),
    })
    return answerOf(await handle(request, WHERE))
  }
  /** With the token, and with the type of JSON where there is some. */
  const ask = (path: string, asking: Asking = {}): Promise<Answer> =>
    askBare(path, {
      ...asking,
      headers: {
        authorization: `Bearer ${token}`,
        ...(asking.json !== undefined && { 'content-type': 'application/json' }),
        ...asking.headers,
      },
    })
  return { askBare, ask }
}

/** A service with its console on a data directory. */
export function startConsole(dir: string, options: ConsoleOptions = {}) {
  const { metricsOpen = false, runImport = null, feeds = null } = options
  let nowMs = T0
  const said: string[] = []
  const lines: string[] = []
  const say = (sentence: string): void => void said.push(sentence)
  const clock = () => nowMs
  const registry = openServerRegistry(dir, say)
  const list = openServerList(dir, 'the service', clock, say)
  const tap = createLogTap({
    ...{ hasLines: true, say, close: async () => {} },
    line: text => void lines.push(text),
    sayRepeated: say,
  })
  const { keys, usage } = registry
  const app = createApp(
    { keys, usage, proxies: list, streamer: list.streamer, stats: list.stats },
    APP_SETTINGS,
    clock,
    tap.log,
  )
  const observed = observeData(dir, registry, list)
  const attention = watchAttention({ observed, registry, clock, app })
  const admin = createConsole({
    ...{
      app,
      attention: attention.read,
      registry,
      tap,
      runImport,
      feeds,
      clock,
      log: tap.log,
    },
    settings: { data: dir, metricsOpen, providerService: 'the service' },
    observed,
  })
  const { token } = makeToken(dir)
  let isOpen = true
  const stop = (): void => {
    if (!isOpen) return
    isOpen = false
    admin.close()
    list.close()
    registry.close()
  }
  onCleanUp(stop)

  const { askBare, ask } = createAsk(admin.handle, token)
  return {
    ...{ admin, attention, app, registry, list, token, said, lines, ask, askBare, stop },
    /** The value of a JSON answer. */
    value: async (path: string, asking: Asking = {}) => JSON.parse((await ask(path, asking)).text),
    /** The status, then the error's code or the whole body. */
    async short(path: string, asking: Asking = {}): Promise<string> {
      const { status, text } = await ask(path, asking)
      return shortOf(status, text)
    },
    /** Asks the service itself. */
    async api(path: string): Promise<string> {
      const answer = await app.handle(new Request(`http://127.0.0.1${path}`))
      return shortOf(answer.status, await answer.text())
    },
    setClock(seconds: number): void {
      nowMs = T0 + seconds * 1000
    },
  }
}
