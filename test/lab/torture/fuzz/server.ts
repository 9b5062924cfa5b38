/** A server whose whole output is checked: for keys, and for unexpected lines on stderr. */
import { launchServer } from '../../../support/launch.ts'
import { isReflected } from './keys.ts'

/** A key may span two chunks of output. */
const OVERLAP = 2_000
const EXPECTED = /^(?:listening on \S+|stopping|)$/

/** Starts a server; its access log is read as it is written, because it grows large. */
export async function startChecked(binary: string, data: string) {
  const options = ['--data', data, '--listen', '127.0.0.1:0', '--trust-proxy', '127.0.0.1']
  const server = await launchServer([binary, 'serve', ...options, '--grace', '1s'], {
    stdout: 'pipe',
  })
  const { written, isRunning, port } = server
  const log = { bytes: 0, reflected: 0 }
  async function readLog(): Promise<void> {
    let last = ''
    for await (const chunk of server.stdout ?? []) {
      const text = Buffer.from(chunk).toString('latin1')
      log.bytes += text.length
      if (isReflected(last + text)) log.reflected += 1
      last = text.slice(-OVERLAP)
    }
  }
  const logRead = readLog()
  return {
    port,
    isRunning,
    /** Lines of stderr other than those of a normal run. */
    complaints: () => written.stderr.split('\n').filter(line => !EXPECTED.test(line)),
    /** Stops the server; gives its exit status, the size of its output and keys found in it. */
    async stop() {
      const exitCode = await server.stop()
      await logRead
      const bytes = log.bytes + written.stderr.length
      return { exitCode, bytes, reflected: log.reflected + Number(isReflected(written.stderr)) }
    },
  }
}
