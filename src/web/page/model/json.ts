/** Reading documents of the service whose members may lack or have another type. Pure. */
export type Json = { readonly [name: string]: unknown }

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null
export const object = (value: unknown): Json => (isObject(value) ? value : {})
export const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])
export const number = (value: unknown): number => (typeof value === 'number' ? value : 0)
export const text = (value: unknown): string => (typeof value === 'string' ? value : '')
export const strings = (value: unknown): string[] =>
  list(value).filter(item => typeof item === 'string')
