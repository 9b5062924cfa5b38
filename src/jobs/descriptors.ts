/** Saying that hardly any file descriptor is left: new connections then wait, and nothing else shows why. */
import { areDescriptorsLeft } from '../lib/descriptors.ts'
import { SECOND_MS } from '../lib/time.ts'
import { type Job, repeat } from './runner.ts'

const FEW = 8
const EVERY_MS = 2 * SECOND_MS

/** Says when few descriptors are left, and when there are enough again; `areFew`: which it is. */
export function watchDescriptors(say: (sentence: string) => void): Job & { areFew: () => boolean } {
  let areFew = false
  const job = repeat(() => {
    if (areDescriptorsLeft(areFew ? 2 * FEW : FEW) !== areFew) return
    areFew = !areFew
    say(
      areFew
        ? `fewer than ${FEW} file descriptors are left, without which new connections wait: raise LimitNOFILE or ulimit -n`
        : 'there are enough file descriptors again',
    )
  }, EVERY_MS)
  return { ...job, areFew: () => areFew }
}
