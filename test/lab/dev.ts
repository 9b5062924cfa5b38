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
/** Where pages hear that they are to load again; streams that say nothing are ended by Bun. */
const CHANGES = '/-/dev-changes'
const SCRIPT = '/-/dev.js'
const HEARTBEAT_MS = 5000

/** Runs in the page: it loads again at each change, and when this process is back. */
const RELOAD = `const listen = async (isBack = false) => {
  try {
    const { body } = await fetch('${CHANGES}')
    if (isBack) return location.reload()
    const reader = body.pipeThrough(new TextDecoderStream()).getReader()
    for (let part = await reader.read(); !part.done; part = await reader.read())
      if (part.value.includes('changed')) return location.reload()
  } catch {}
  setTimeout(listen, 500, true)
}
listen()`

const pages = new Set<ReadableStreamDefaultController<string>>()

/** A stream of lines for a page: empty ones, and one that says that it changed. */
function changes(): Response {
  let own: ReadableStreamDefaultController<string> | null = null
  const stream = new ReadableStream<string>({
    start(controller) {
      own = controller
      pages.add(controller)
    },
    cancel() {
      if (own !== null) pages.delete(own)
    },
  })
  return new Response(stream.pipeThrough(new TextEncoderStream()))
}

const tell = (line: string): void => {
  for (const page of pages) page.enqueue(`${line}\n`)
}

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
    tell('changed')
    process.stderr.write('restarted\n')
  } catch (thrown) {
    process.stderr.write(`${thrown instanceof Error ? thrown.message : thrown}\n`)
  }
}

/** Passes a request on, and adds the script to pages. */
async function pass(request: Request): Promise<Response> {
  const { pathname, search } = new URL(request.url)
  if (pathname === CHANGES) return changes()
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
Bun.serve({ ...LISTEN, idleTimeout: 60, development: false, reusePort: false, fetch: pass })
process.stderr.write(`http://${LISTEN.hostname}:${LISTEN.port} shows what src/ holds\n`)
setInterval(tell, HEARTBEAT_MS, '')

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
