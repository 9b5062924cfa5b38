/** Numbers in sentences for the operator. Pure. */

/** `1,234` */
export const counted = (n: number): string => n.toLocaleString('en-US')

/** `1 standby`, `2 standbys` */
export const several = (n: number, thing: string): string =>
  `${counted(n)} ${thing}${n === 1 ? '' : 's'}`
