/** The worker that checks the list while the server answers, and stamps it or removes its stamp. */
import { systemClock } from '../../lib/clock.ts'
import { messageOf } from '../../lib/errors.ts'
import { checkListFile } from '../proxies/store.ts'
import { type Fingerprint, fingerprintOf } from './file-stamp.ts'

/** The problems of the list, and the file that was checked; or why it could not be checked. */
export type Checked =
  | { kind: 'checked'; problems: readonly string[]; fingerprint: Fingerprint | null }
  | { kind: 'failed'; message: string }

declare const self: Worker

function check(file: string): Checked {
  try {
    const fingerprint = fingerprintOf(file)
    return { kind: 'checked', problems: checkListFile(file, systemClock), fingerprint }
  } catch (error) {
    return { kind: 'failed', message: messageOf(error) }
  }
}

self.onmessage = ({ data: file }: MessageEvent<string>) => self.postMessage(check(file))
