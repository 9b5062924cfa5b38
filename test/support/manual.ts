/** The topics of the manual, `data/manual/*.md`, which `proxylist help TOPIC` shows. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './program.ts'

export const TOPICS = readdirSync(join(ROOT, 'data/manual'))
  .map(name => name.replace(/\.md$/, ''))
  .sort()

export const fileOf = (topic: string): string => `data/manual/${topic}.md`
/** The text of a topic. */
export const manual = (topic: string): string => readFileSync(join(ROOT, fileOf(topic)), 'utf8')
