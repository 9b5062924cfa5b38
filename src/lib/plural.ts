/** Numbers in sentences for the operator. Pure. */

/** `1,234` */
export const formatCount = (n: number): string => n.toLocaleString('en-US')

/** `1 server`, `2 servers` */
export const several = (n: number, thing: string, things = `${thing}s`): string =>
  `${formatCount(n)} ${n === 1 ? thing : things}`

const UNITS = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
] as const

/** `45 seconds`, `90 minutes`, `3 days`: in the largest unit that gives at least 2. */
export function spanOf(seconds: number): string {
  const [unit, size] = UNITS.find(([, size]) => seconds >= 2 * size) ?? UNITS[3]
  return several(Math.round(seconds / size), unit)
}
