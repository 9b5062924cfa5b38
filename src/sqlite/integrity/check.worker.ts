/** The thread that checks the list while the server answers, and that seals it or takes its seal. */
import { messageOf } from '../../api/errors.ts'
import { checkListFile } from '../proxies/store.ts'
import { type Mark, markOf } from './file-stamp.ts'

/** What is wrong with the list, and of which files; or why that cannot be told now. */
export type Checked = { problems: readonly string[]; mark: Mark | null } | { failed: string }

declare const self: Worker

function check(file: string): Checked {
  try {
    const mark = markOf(file)
    return { problems: checkListFile(file), mark }
  } catch (error) {
    return { failed: messageOf(error) }
  }
}

self.onmessage = ({ data: file }: MessageEvent<string>) => self.postMessage(check(file))
