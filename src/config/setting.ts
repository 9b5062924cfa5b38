/** Owns what a setting is: an option of the command line with its default, help and parser. */

/** One option. `value` names its argument; an option without one is a switch. */
export type Setting<T, Sure extends boolean = boolean> = {
  value?: string
  help: string
  /** Whether the flag may be given several times; `read` gets all of its strings, a line each. */
  isRepeatable?: boolean
  /** The string used when neither the flag nor the environment has one; without it, `undefined`. */
  fallback?: string
  /** Parses the string. @throws Expected saying what is accepted. */
  read: (text: string) => T
  /** Whether there is always a value: a fallback, or off for a switch. */
  sure: Sure
}
type Definition<T> = Omit<Setting<T>, 'sure'>

export const setting = <T>(definition: Definition<T>): Setting<T, true> => ({
  ...definition,
  sure: true,
})
export const optional = <T>(definition: Definition<T>): Setting<T, false> => ({
  ...definition,
  sure: false,
})
