/**
 * Reading the text of metrics in tests; and Prometheus' own judgement: `promtool`, of the Debian package
 * prometheus. Where it is not installed, tests that need it are skipped.
 */

type SampleLine = { name: string; labels: { [label: string]: string }; value: number }

/** A line: a name, perhaps labels, a value. */
const LINE = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/s
const LABEL = /([a-z]+)="((?:[^"\\]|\\.)*)"(?:,|$)/gs

/** The samples of a text. @throws on a line that is neither a sample nor a comment. */
export function samplesOf(text: string): SampleLine[] {
  const lines = text.split('\n').filter(line => line !== '' && !line.startsWith('#'))
  return lines.map(line => {
    const [, name = '', labels = '', value = ''] = LINE.exec(line) ?? []
    if (name === '') throw new Error(`not a sample: ${line}`)
    const pairs = [...labels.matchAll(LABEL)].map(([, label = '', given = '']) => [label, given])
    return { name, labels: Object.fromEntries(pairs), value: Number(value) }
  })
}

/** The value of the one sample with this name and these labels among its own; `null` without one. */
export function valueOf(
  text: string,
  name: string,
  labels: { [label: string]: string } = {},
): number | null {
  const found = samplesOf(text).filter(
    sample =>
      sample.name === name &&
      Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
  )
  if (found.length > 1) throw new Error(`${found.length} samples of ${name}`)
  return found[0]?.value ?? null
}

const PROMTOOL = Bun.which('promtool')

if (PROMTOOL === null) {
  process.stderr.write('tests of metrics with promtool are skipped: install prometheus\n')
}

/** Whether there is a promtool; `test.if(HAS_PROMTOOL)` skips a test where there is none. */
export const HAS_PROMTOOL = PROMTOOL !== null

/** What promtool says of its arguments and stdin; `''` when it finds nothing wrong. */
export async function promtool(args: readonly string[], stdin = ''): Promise<string> {
  if (PROMTOOL === null) throw new Error('there is no promtool')
  const child = Bun.spawn([PROMTOOL, ...args], {
    stdin: Buffer.from(stdin),
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  // It warns on stderr, with status 0 or 3, of what is not good style.
  return code === 0 && stderr === '' ? '' : `status ${code}\n${stdout}${stderr}`
}
