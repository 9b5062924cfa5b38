/** The worker that checks the list while the server answers, and stamps it or removes its stamp. */
import { systemClock } from '../lib/clock.ts'
import { messageOf } from '../lib/errors.ts'
import { inSection, type Section } from '../lib/worker.ts'
import { type Fingerprint, fingerprintOf } from './integrity/file-stamp.ts'
import { checkListFile } from './proxies/store.ts'

/** The problems of the list, and the file that was checked; or why it could not be checked. */
export type Checked =
  | { kind: 'checked'; problems: readonly string[]; fingerprint: Fingerprint | null }
  | { kind: 'failed'; message: string }

/** The list is stamped in the section, so that the server can wait for that. */
export type CheckTask = { file: string; section: Section }

declare const self: Worker

function check({ file, section }: CheckTask): Checked {
  try {
    const fingerprint = fingerprintOf(file)
    const stamping = (stamp: () => void): void => inSection(section, stamp, undefined)
    return { kind: 'checked', problems: checkListFile(file, systemClock, stamping), fingerprint }
  } catch (error) {
    return { kind: 'failed', message: messageOf(error) }
  }
}

self.onmessage = ({ data }: MessageEvent<CheckTask>) => self.postMessage(check(data))
