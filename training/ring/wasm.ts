/** The parts of the WebAssembly API that this file uses. Node.js's type declarations do not contain them. */
interface WebAssemblyApi {
  validate(bytes: Uint8Array): boolean;
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Memory: new (pages: { initial: number }) => Memory;
  readonly Instance: new (module: object, imports: { ring: { memory: object } }) => { readonly exports: object };
}

export interface Memory {
  readonly buffer: ArrayBuffer;
}

const wasm = (globalThis as unknown as { WebAssembly?: WebAssemblyApi }).WebAssembly;
const PAGE_BYTES = 64 * 1024;
const compiled = new Map<Uint8Array, object | null>();

/** Compiles a module only once per process. Returns null if WebAssembly or SIMD is unavailable. */
function moduleOf(bytes: Uint8Array): object | null {
  let module = compiled.get(bytes);
  if (module === undefined) {
    module = wasm?.validate(bytes) ? new wasm.Module(bytes) : null;
    compiled.set(bytes, module);
  }
  return module;
}

export function createMemory(bytes: number): Memory {
  return wasm === undefined ? { buffer: new ArrayBuffer(bytes) } : new wasm.Memory({ initial: Math.ceil(bytes / PAGE_BYTES) });
}

/**
 * Instantiates a module that imports `memory` as `ring.memory`. Returns the module's exports, or null if WebAssembly or SIMD is
 * unavailable.
 */
export function instantiate<Exports extends object>(bytes: Uint8Array, memory: Memory): Exports | null {
  const module = moduleOf(bytes);
  if (wasm === undefined || module === null) {
    return null;
  }
  return new wasm.Instance(module, { ring: { memory } }).exports as Exports;
}
