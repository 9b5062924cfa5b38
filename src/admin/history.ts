/**
 * The samples of the last 24 hours, one a minute: in memory, and in a file of fixed slots, so
 * that a restart keeps them. A minute has its slot by its number, so time needs no order: what a
 * clock that jumps has left behind is outside of the window, or overwritten a day later.
 */
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  statSync,
  writeSync,
} from 'node:fs'
import { reasonOf } from '../lib/errors.ts'

/** The file in the data directory. */
export const HISTORY_FILE = 'console-history'

/** Minutes that are kept: 24 hours. */
export const MINUTES = 1440

/** What is measured in a minute, in the order of a slot; `null` is not known. */
export const MEASURES = [
  ...(['ok', 'notFound', 'rejected', 'refused', 'failed'] as const),
  ...(['p50Ms', 'p99Ms', 'rows', 'fresh', 'keys', 'rssBytes'] as const),
]
export type Measure = (typeof MEASURES)[number]

/** A minute, counted from 1970-01-01, and what was measured in it. */
export type Sample = { readonly minute: number } & { readonly [M in Measure]: number | null }

/** A slot is the minute, the measures (NaN: not known) and a checksum of both, as 64-bit floats. */
const SLOT_NUMBERS = MEASURES.length + 2
const SLOT_BYTES = SLOT_NUMBERS * Float64Array.BYTES_PER_ELEMENT
/** The first slot says what the file is. */
const HEADER = Buffer.alloc(SLOT_BYTES)
HEADER.write('proxylist console history 1\n')
export const FILE_BYTES = (MINUTES + 1) * SLOT_BYTES

const checksumOf = (numbers: Float64Array): number =>
  Bun.hash.crc32(Buffer.from(numbers.buffer, 0, SLOT_BYTES - Float64Array.BYTES_PER_ELEMENT))

/** The bytes of a slot. */
export function encodeSlot(sample: Sample): Buffer {
  const numbers = new Float64Array(SLOT_NUMBERS)
  numbers[0] = sample.minute
  for (const [i, measure] of MEASURES.entries()) numbers[i + 1] = sample[measure] ?? Number.NaN
  numbers[SLOT_NUMBERS - 1] = checksumOf(numbers)
  return Buffer.from(numbers.buffer)
}

/** The sample in the bytes of a slot; `null` for one that is empty or damaged. */
export function decodeSlot(bytes: Uint8Array): Sample | null {
  const numbers = new Float64Array(new Uint8Array(bytes).buffer)
  const [minute = 0, ...values] = numbers
  if (!(Number.isSafeInteger(minute) && minute > 0)) return null
  if (numbers[SLOT_NUMBERS - 1] !== checksumOf(numbers)) return null
  const entries = MEASURES.map((measure, i): [Measure, number | null] => {
    const value = values[i] ?? Number.NaN
    return [measure, Number.isFinite(value) ? value : null]
  })
  return { minute, ...(Object.fromEntries(entries) as { [M in Measure]: number | null }) } // of MEASURES
}

const slotOf = (minute: number): number => minute % MINUTES

export type HistoryParts = {
  file: string
  /** Locks the file against other servers; `null` while one of them has it. May throw. */
  lock: () => (() => void) | null
  /** Gives a file to the user of the service. */
  adopt: (file: string) => void
  say: (sentence: string) => void
}

type Slots = (Sample | null)[]

function writeSlot(fd: number, sample: Sample): void {
  const at = (slotOf(sample.minute) + 1) * SLOT_BYTES
  writeSync(fd, encodeSlot(sample), 0, SLOT_BYTES, at)
}

/** Reads an open file into slots that are empty; begins it again if it is no whole history. */
function readSlots(fd: number, slots: Slots): void {
  const bytes = Buffer.alloc(FILE_BYTES)
  const { size } = fstatSync(fd)
  const isWhole = size === FILE_BYTES && readSync(fd, bytes, 0, FILE_BYTES, 0) === FILE_BYTES
  if (!isWhole || !bytes.subarray(0, SLOT_BYTES).equals(HEADER)) {
    ftruncateSync(fd, 0)
    ftruncateSync(fd, FILE_BYTES)
    writeSync(fd, HEADER, 0, SLOT_BYTES, 0)
    return
  }
  for (const slot of slots.keys()) {
    const found = decodeSlot(bytes.subarray((slot + 1) * SLOT_BYTES, (slot + 2) * SLOT_BYTES))
    if (found !== null && slotOf(found.minute) === slot) slots[slot] ??= found
  }
}

/** The file of a history, opened while this server may have it. */
function createFile({ file, lock, adopt }: HistoryParts, slots: Slots) {
  let release: (() => void) | null = null
  let fd: number | null = null

  /** Whether the open file is still the one in its place. */
  const isInPlace = (open: number): boolean =>
    statSync(file, { throwIfNoEntry: false })?.ino === fstatSync(open).ino

  function disconnect(): void {
    if (fd !== null) closeSync(fd)
    fd = null
  }

  return {
    disconnect,
    /** Opens the file, and writes what it lacks. Does nothing while another server has it. */
    connect(): void {
      release ??= lock()
      if (release === null) return
      // Opening a pipe would wait for its other end.
      if (statSync(file, { throwIfNoEntry: false })?.isFile() === false) {
        throw new Error(`${HISTORY_FILE} is not a file`)
      }
      closeSync(openSync(file, 'a', 0o600))
      adopt(file)
      fd = openSync(file, 'r+')
      readSlots(fd, slots)
      for (const sample of slots) if (sample !== null) writeSlot(fd, sample)
    },
    /** Writes a sample; false if the file is not open, or was replaced. */
    write(sample: Sample): boolean {
      if (fd !== null && !isInPlace(fd)) disconnect()
      if (fd === null) return false
      writeSlot(fd, sample)
      return true
    },
    close(): void {
      disconnect()
      release?.()
      release = null
    },
  }
}

export type History = ReturnType<typeof openHistory>

/**
 * The history in `file`. While another server has the file, or it cannot be written, samples stay in
 * memory; each `add` tries again.
 */
export function openHistory(parts: HistoryParts) {
  const slots: Slots = Array.from({ length: MINUTES }, () => null)
  const file = createFile(parts, slots)
  let problem = ''

  /** Does `work` on the file; a failure is said once, until it is over. */
  function attempt(work: () => void): void {
    try {
      work()
      problem = ''
    } catch (error) {
      file.disconnect()
      const reason = reasonOf(error)
      if (reason !== problem) {
        parts.say(`the charts of the console are kept in memory only: ${reason}`)
      }
      problem = reason
    }
  }

  attempt(file.connect)
  return {
    /** Keeps the sample of a minute, in the place of the one a day before. */
    add(sample: Sample): void {
      slots[slotOf(sample.minute)] = sample
      attempt(() => {
        if (!file.write(sample)) file.connect()
      })
    },
    /** The samples of the 24 hours until a minute, oldest first. */
    until: (minute: number): Sample[] =>
      slots
        .filter(sample => sample !== null)
        .filter(sample => sample.minute <= minute && sample.minute > minute - MINUTES)
        .sort((a, b) => a.minute - b.minute),
    close: (): void => attempt(file.close),
  }
}
