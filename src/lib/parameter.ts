/** The parameters of a query string, without TypeBox: workers import this file. */

/** `pattern` checks a parameter; `accepts` completes the sentence of an error; the rest is for documents. */
export type Parameter = {
  pattern: string
  accepts: string
  list?: boolean
  min?: number
  max?: number
  maxLength?: number
  values?: readonly string[]
  item?: string
  /** Whether `true` and `false`, in any case, mean `1` and `0`. */
  isFlag?: boolean
}

export const textMatching = (
  pattern: string,
  accepts: string,
  more: Partial<Parameter> = {},
): Parameter => ({ pattern, accepts, ...more })

const anyOf = (values: readonly string[]): string => `(?:${values.map(RegExp.escape).join('|')})`

/** The largest integer of a parameter: 15 digits. */
export const INTEGER_MAX = 999_999_999_999_999

/** Decimal digits. The bounds are not in the pattern. */
export const integer = (min: number, max: number, unit = ''): Parameter =>
  textMatching('^[0-9]{1,15}$', `an integer from ${min} to ${max}${unit}`, { min, max })
export const oneOf = (values: readonly string[]): Parameter =>
  textMatching(`^${anyOf(values)}$`, values.join(' or '), { values })
export const flag = textMatching('^[10]$', '1 or 0, or true or false', {
  ...{ values: ['1', '0'], isFlag: true },
})
export const listMatching = (item: string, accepts: string, more: Partial<Parameter>): Parameter =>
  textMatching(`^${item}(?:,${item})*$`, `a comma-separated list of ${accepts}`, {
    list: true,
    ...more,
  })
export const listOf = (values: readonly string[]): Parameter =>
  listMatching(anyOf(values), values.join(', '), { values })

export const itemsOf = (text: string): string[] => text.split(',')

/** The values that a text names, in the order of `values`. */
export function chosenOf<T extends string>(values: readonly T[], text: string): readonly T[] {
  const named = new Set<string>(itemsOf(text))
  return values.filter(value => named.has(value))
}
