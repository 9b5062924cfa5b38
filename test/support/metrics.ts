/** Reading the text of metrics in tests. */

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
