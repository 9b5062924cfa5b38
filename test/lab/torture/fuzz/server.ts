/** Owns a server whose every word is read: whether it holds a key, and what it complains of. */
import { childEnvironment, keepTrack, stop } from '../../bench/processes.ts'
import { isReflected } from './keys.ts'

/** A key may lie across two pieces of output. */
const OVERLAP = 2_000
const EXPECTED = /^(?:listening on \S+|stopping|)$/

async function watch(stream: ReadableStream<Uint8Array>, take: (text: string) => void) {
  for await (const piece of stream) take(Buffer.from(piece).toString('latin1'))
}

/** Starts `command`, which says where it listens. */
export async function startWatched(command: readonly string[]) {
  const child = keepTrack(
    Bun.spawn([...command], {
      env: childEnvironment(),
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    }),
  )
  const seen = { bytes: 0, reflected: 0, stderr: '' }
  const { promise: where, resolve, reject } = Promise.withResolvers<string>()

  function reader(more: (text: string) => void): (text: string) => void {
    let last = ''
    return text => {
      seen.bytes += text.length
      if (isReflected(last + text)) seen.reflected += 1
      last = text.slice(-OVERLAP)
      more(text)
    }
  }
  const drained = Promise.all([
    watch(
      child.stdout,
      reader(() => {}),
    ),
    watch(
      child.stderr,
      reader(text => {
        seen.stderr += text
        const found = /listening on (\S+)\n/.exec(seen.stderr)?.[1]
        if (found) resolve(found)
      }),
    ),
  ])
  void child.exited.then(code => reject(new Error(`serve ended with ${code}: ${seen.stderr}`)))
  return {
    /** `http://127.0.0.1:PORT` or `unix:PATH`. */
    where: await where,
    pid: child.pid,
    seen,
    /** Lines of stderr that say more than that it runs. */
    complaints: () => seen.stderr.split('\n').filter(line => !EXPECTED.test(line)),
    isAlive: () => child.exitCode === null && child.signalCode === null,
    /** Ends it; gives its exit status once everything it said is read. */
    async stop(): Promise<number> {
      await stop(child)
      await drained
      return child.exited
    },
  }
}
