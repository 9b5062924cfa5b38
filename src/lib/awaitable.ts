/** A value or a promise of it: a store may answer at once or later. */
export type Awaitable<T> = T | Promise<T>
