/** The thread that checks the list while the server answers, and that seals it or takes its seal. */
import { messageOf } from './error.ts'
import { checkListFile } from './sqlite/proxies.ts'

/** What is wrong with the list, or why that cannot be told now. */
export type Checked = { problems: readonly string[] } | { failed: string }

declare const self: Worker

function check(file: string): Checked {
  try {
    return { problems: checkListFile(file) }
  } catch (error) {
    return { failed: messageOf(error) }
  }
}

self.onmessage = ({ data: file }: MessageEvent<string>) => self.postMessage(check(file))
