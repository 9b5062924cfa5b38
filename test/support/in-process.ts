/** Owns the service in process, its clock moved by hand. */
import { createGuard, type Guard } from '../../src/access/auth-throttle.ts'
import { createAnswers } from '../../src/api/response-cache.ts'
import { type List, openList, openRegistry, type Registry } from '../../src/app.ts'
import { readRanges } from '../../src/config/parsers.ts'
import { createService } from '../../src/http/app.ts'
import { createClientAddress } from '../../src/http/client-ip.ts'
import type { AccessEntry } from '../../src/lib/log.ts'
import { answerOf } from './answer.ts'
import { T0 } from './fixtures.ts'
import type { ServeOptions, Service } from './service.ts'
import { onCleanUp } from './temporary.ts'

function guardAtRest(): Guard {
  const guard = createGuard()
  guard.release()
  return guard
}

export async function startInProcess(dir: string, options: ServeOptions): Promise<Service> {
  let nowMs = T0
  const lines: string[] = []
  const registry: Registry = openRegistry(dir, true)
  const list: List = openList(dir, true)
  const provider = options.providerService ?? 'the service'
  const clientAddress = createClientAddress(readRanges('127.0.0.1'))
  const app = createService({
    access: registry.access,
    answers: createAnswers({
      select: list.proxies.select,
      listVersion: list.proxies.version,
      provider,
      bytesMax: 2 ** 20,
    }),
    provider,
    clock: () => nowMs,
    log: {
      access: (entry: AccessEntry) => void lines.push(JSON.stringify(entry)),
      say: sentence => void lines.push(sentence),
      close: async () => {},
    },
    errors: options.errors ?? 'json',
    clientAddress: (_, forwardedFor) => clientAddress('127.0.0.1', forwardedFor),
    guard: options.guard ?? guardAtRest(),
    probe: registry.usage.probe,
  })
  let isOpen = true
  const stop = async (): Promise<void> => {
    if (!isOpen) return
    isOpen = false
    list.close()
    registry.close()
  }
  onCleanUp(stop)
  return {
    request: async (path, init) =>
      answerOf(await app.handle(new Request(`http://127.0.0.1${path}`, init))),
    setClock: seconds => {
      nowMs = T0 + seconds * 1000
    },
    output: () => lines.join('\n'),
    stop,
  }
}
