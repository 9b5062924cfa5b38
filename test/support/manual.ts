/** The topics of the manual, `data/manual/*.md`, which `proxylist help TOPIC` shows. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './program.ts'

export const TOPICS = readdirSync(join(ROOT, 'data/manual'))
  .map(name => name.replace(/\.md$/, ''))
  .sort()

/** The path of a topic, from the root of the project. */
export const fileOf = (topic: string): string => `data/manual/${topic}.md`

/** The text of a topic. */
export const manual = (topic: string): string => readFileSync(join(ROOT, fileOf(topic)), 'utf8')

/** The first list below a heading of a topic; with GOLDEN=write it is replaced by `actual` first. */
export function listBelow(topic: string, heading: string, actual: string): string {
  const [before = '', below = ''] = manual(topic).split(`\n## ${heading}\n`)
  const [shown = ''] = /^- (?:.+\n?)+/m.exec(below) ?? []
  if (process.env.GOLDEN === 'write') {
    const text = `${before}\n## ${heading}\n${below.replace(shown, () => `${actual}\n`)}`
    writeFileSync(join(ROOT, fileOf(topic)), text)
    return actual
  }
  return shown.trimEnd()
}
