/** The worker that checks the list, with a low priority: requests do not notice. */
import { doTask, lowerPriority } from '../lib/worker.ts'
import { checkListFile } from './proxies/store.ts'

declare const self: Worker

lowerPriority()
self.onmessage = ({ data: file }: MessageEvent<string>) => doTask(self, () => checkListFile(file))
