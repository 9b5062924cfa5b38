/** The C library, for what the runtime cannot do by itself. */

/** As glibc and as musl name it. */
const NAMES = ['libc.so.6', `libc.musl-${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}.so.1`]

/**
 * Opens it. The module that does is loaded only when needed: few processes do.
 * @throws Error where it cannot be loaded, as on a system that forbids to make machine code.
 */
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
