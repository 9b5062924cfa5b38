/** The bare `Bun.serve` the program is compared with: one answer from memory, to everything. */
import { readFileSync } from 'node:fs'

export type BareInput = {
  /** 0 is any free one. */
  port: number
  status: number
  headers: { [name: string]: string }
  bodyFile: string
}

if (import.meta.main) {
  const input: BareInput = JSON.parse(process.argv[2] ?? '')
  const { port, status, headers } = input
  const body = new Uint8Array(readFileSync(input.bodyFile))
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port,
    reusePort: false,
    development: false,
    fetch: () => new Response(body, { status, headers }),
  })
  process.stderr.write(`listening on http://127.0.0.1:${server.port}\n`)
}
