/** The worker that checks the list, with a low priority: requests do not notice. */
import { lowerPriority, toErrorMessage } from '../lib/worker.ts'
import type { CheckReply, CheckTask } from './check.ts'
import { checkListFile } from './proxies/store.ts'

declare const self: Worker

function check({ file }: CheckTask): CheckReply {
  try {
    return { kind: 'checked', problems: checkListFile(file) }
  } catch (error) {
    return { kind: 'thrown', error: toErrorMessage(error) }
  }
}

lowerPriority()
self.onmessage = ({ data }: MessageEvent<CheckTask>) => self.postMessage(check(data))
