/** `make dev`: the service on the sample list, started again when a source file changes. */
import { watch } from 'node:fs'
import { join } from 'node:path'
import { launch } from '../support/launch.ts'
import { ROOT } from '../support/program.ts'

/** Editors write a file in several steps. */
const SETTLED_MS = 100

const start = () =>
  launch(
    [
      ...[process.execPath, join(ROOT, 'src/main.ts'), 'serve', '--sample'],
      ...['--data', join(ROOT, '.run'), '--listen', '127.0.0.1:8080'],
    ],
    { stdout: 'inherit', stderr: 'inherit' },
  )

let service = start()
let timer: ReturnType<typeof setTimeout> | undefined
watch(join(ROOT, 'src'), { recursive: true }, () => {
  clearTimeout(timer)
  timer = setTimeout(async () => {
    await service.stop()
    service = start()
  }, SETTLED_MS)
})

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, async () => {
    await service.stop()
    process.exit(0)
  })
}
