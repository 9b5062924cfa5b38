/** The thread that copies databases, so that the main one can show how far it is. */

import { messageOf } from '../../lib/errors.ts'
import type { FromBackupThread } from './backup.ts'
import { type Copy, copyDatabase } from './copy.ts'

declare const self: Worker

self.onmessage = ({ data: copies }: MessageEvent<readonly Copy[]>) => {
  let message: FromBackupThread
  try {
    message = { counts: Object.assign({}, ...copies.map(copyDatabase)) }
  } catch (error) {
    message = { failure: messageOf(error) }
  }
  self.postMessage(message)
}
