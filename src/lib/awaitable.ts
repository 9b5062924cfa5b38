/** A value, or a promise of it: what a store gives that answers at once or later. */
export type Awaitable<T> = T | Promise<T>
