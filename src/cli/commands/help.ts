/** `help`: the manual, one topic a file in `data/manual`; the help of commands is in `program.ts`. */
import { isatty } from 'node:tty'
import { type Pager, pagerOf } from '../../config/environment.ts'
import { command, print } from '../command.ts'
import { compressedManual } from '../manual-file.ts' with { type: 'macro' }

const readManual = (): { [topic: string]: string } =>
  JSON.parse(Bun.zstdDecompressSync(Buffer.from(compressedManual(), 'base64')).toString())

export const topics = (): string[] => Object.keys(readManual())

/** The topics with their first sentences, as lines under a heading. */
export function listTopics(): string {
  const manual = Object.entries(readManual())
  const width = Math.max(...manual.map(([topic]) => topic.length))
  const lines = manual.map(([topic, text]) => `  ${topic.padEnd(width)}  ${text.split('\n')[2]}\n`)
  return `\nTopics of the manual, for proxylist help TOPIC:\n${lines.join('')}`.trimEnd()
}

/** Shows text with the program that `$PAGER` names; false where the shell does not find it. */
async function page(text: string, { command: shown, env }: Pager): Promise<boolean> {
  const stdin = Buffer.from(text)
  const child = Bun.spawn(['sh', '-c', shown], { env, stdin, stdout: 'inherit', stderr: 'inherit' })
  return (await child.exited) !== 127
}

export const helpCommand = command({
  name: 'help',
  summary: 'show a topic of the manual or the help of a command',
  arguments: '[topic]',
  choices: topics,
  settings: [],
  example: 'proxylist help feeds',
  endsAtSignal: 'by itself', // Ctrl-C is for the pager
  async run({ args: [topic = ''] }) {
    const text = readManual()[topic] ?? '' // program.ts has looked it up
    const pager = isatty(1) ? pagerOf() : null
    if (pager === null || !(await page(text, pager))) await print(text)
  },
})
