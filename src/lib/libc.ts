/** The C library, for calls that the runtime lacks. */

const NAMES = ['libc.so.6', `libc.musl-${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}.so.1`]

/** Opens the library, with `bun:ffi` loaded on demand. @throws Error on systems that forbid machine code */
export async function openLibc<const Symbols extends Record<string, import('bun:ffi').FFIFunction>>(
  symbols: Symbols,
) {
  const { dlopen } = await import('bun:ffi')
  let failure: unknown
  for (const name of NAMES) {
    try {
      return dlopen(name, symbols).symbols
    } catch (error) {
      failure ??= error
    }
  }
  throw failure
}
