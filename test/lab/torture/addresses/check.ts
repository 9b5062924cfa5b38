/** Comparing the program's client addresses, in process, with those of the oracle. */
import { clientBucket } from '../../../../src/access/entitlements.ts'
import { readRanges } from '../../../../src/config/parsers.ts'
import { createClientIp } from '../../../../src/http/client-ip.ts'
import { randomOf } from '../../../support/random.ts'
import {
  anyCombination,
  bucketOf,
  type Combination,
  clientOf,
  HOPS_MAX,
  headerOf,
  isBelieved,
} from './oracle.ts'

export type Checked = {
  /** Combinations of each kind. */
  kinds: { [kind in keyof typeof KINDS]: number }
  /** How many buckets there were. */
  buckets: number
  /** Combinations in which an untrusted peer changed its bucket. */
  changed: string[]
  /** Combinations whose bucket is not the oracle's. */
  wrong: string[]
}

const isUntrusted = ({ ranges, peer }: Combination): boolean =>
  !isBelieved(ranges, peer?.means ?? null)

/** Kinds of combinations; a check must include each. */
const KINDS = {
  'untrusted peers': isUntrusted,
  'unix sockets': ({ peer }: Combination) => peer === null,
  'malformed entries': ({ entries }: Combination) =>
    entries?.some(({ means }) => means === null) ?? false,
  'chains longer than HOPS_MAX': ({ entries }: Combination) => (entries?.length ?? 0) > HOPS_MAX,
}

/** Two names for each bucket: a bucket of one may not be several of the other. */
function createPairing() {
  const theirs = new Map<string, string>()
  const ours = new Map<string, string>()
  return {
    /** Whether the names agree with all earlier ones. */
    agrees(their: string, our: string): boolean {
      if (!theirs.has(their) && !ours.has(our)) {
        theirs.set(their, our)
        ours.set(our, their)
      }
      return theirs.get(their) === our && ours.get(our) === their
    },
    size: () => theirs.size,
  }
}

const describe = ({ ranges, peer }: Combination, header: string | null): string =>
  JSON.stringify({
    trusted: ranges.map(({ text }) => text).join(),
    peer: peer?.text ?? 'unix',
    header: header?.slice(0, 300) ?? null,
  })

/** The bucket that the program counts a combination in, and that of its peer without a header. */
function bucketsOf({ ranges, peer }: Combination, header: string | null) {
  const trusted = ranges.length === 0 ? undefined : readRanges(ranges.map(r => r.text).join())
  const address = createClientIp(trusted)
  const text = peer?.text ?? null
  return { bucket: clientBucket(address(text, header)), alone: clientBucket(address(text, null)) }
}

export function checkCombinations(seed: number, count: number): Checked {
  const random = randomOf(seed, 'addresses')
  const pairing = createPairing()
  const combinations = Array.from({ length: count }, () => anyCombination(random))
  const changed: string[] = []
  const wrong: string[] = []
  for (const combination of combinations) {
    const header = combination.entries && headerOf(random, combination.entries)
    const { bucket, alone } = bucketsOf(combination, header)
    if (isUntrusted(combination) && bucket !== alone) changed.push(describe(combination, header))
    const expected = bucketOf(clientOf(combination))
    if (pairing.agrees(expected, bucket)) continue
    wrong.push(`${bucket} is not ${expected}: ${describe(combination, header)}`)
  }
  const counts = Object.entries(KINDS).map(([kind, is]) => [kind, combinations.filter(is).length])
  const kinds = Object.fromEntries(counts) as Checked['kinds'] // the names of KINDS
  return { kinds, buckets: pairing.size(), changed, wrong }
}
