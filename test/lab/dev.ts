/**
 * `make dev`: the service on the sample list, started again when a source file changes, and
 * pages that show the change by themselves. What reloads a page is added here, on its way to the
 * browser, so the program has none of it.
 */
import { watch } from 'node:fs'
import { join } from 'node:path'
import { freePort, launchServer, type Server } from '../support/launch.ts'
import { ROOT } from '../support/program.ts'

const LISTEN = { hostname: '127.0.0.1', port: 8080 }
/** Editors write a file in several steps. */
const SETTLED_MS = 100
/** Where pages read when the service was started, and where their script is. */
const STARTED = '/-/dev-started'
const SCRIPT = '/-/dev.js'

/** Runs in the page: it loads again once the service was started again. */
const RELOAD = `let known
setInterval(async () => {
  const started = await fetch('${STARTED}', { cache: 'no-store' })
    .then(answer => answer.text(), () => known)
  if (known !== undefined && started !== known) location.reload()
  known = started
}, 500)`

let startedMs = Date.now()
let service: Promise<Server>
const start = (port: number): Promise<Server> =>
  launchServer(
    [
      ...[process.execPath, join(ROOT, 'src/main.ts'), 'serve', '--sample'],
      ...['--data', join(ROOT, '.run'), '--listen', `127.0.0.1:${port}`],
    ],
    { stdout: 'inherit' },
  )

/** Starts the service again. A change that it does not start with is said, and waited for. */
async function restart(): Promise<void> {
  const before = service
  service = before.then(
    server => server.stop().then(() => start(PORT)),
    () => start(PORT),
  )
  try {
    await service
    startedMs = Date.now()
    process.stderr.write('restarted\n')
  } catch (thrown) {
    process.stderr.write(`${thrown instanceof Error ? thrown.message : thrown}\n`)
  }
}

/** Passes a request on, and adds the script to pages. */
async function pass(request: Request): Promise<Response> {
  const { pathname, search } = new URL(request.url)
  if (pathname === STARTED) return new Response(String(startedMs))
  if (pathname === SCRIPT) {
    return new Response(RELOAD, { headers: { 'content-type': 'text/javascript' } })
  }
  const { port } = await service
  const headers = new Headers(request.headers)
  headers.set('accept-encoding', 'identity')
  headers.delete('if-none-match')
  const url = `http://127.0.0.1:${port}${pathname}${search}`
  const answer = await fetch(url, { method: request.method, headers, redirect: 'manual' })
  if (!answer.headers.get('content-type')?.startsWith('text/html')) return answer
  const page = (await answer.text()).replace(
    '</head>',
    `<script type="module" src="${SCRIPT}"></script></head>`,
  )
  const fields = new Headers(answer.headers)
  fields.delete('content-length')
  return new Response(page, { status: answer.status, headers: fields })
}

const PORT = freePort()
service = start(PORT)
await service
Bun.serve({ ...LISTEN, development: false, reusePort: false, fetch: pass })
process.stderr.write(`http://${LISTEN.hostname}:${LISTEN.port} shows what src/ holds\n`)

let timer: ReturnType<typeof setTimeout> | undefined
watch(join(ROOT, 'src'), { recursive: true }, () => {
  clearTimeout(timer)
  timer = setTimeout(restart, SETTLED_MS)
})

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, async () => {
    await service.then(server => server.stop()).catch(() => {})
    process.exit(0)
  })
}
