import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { compileFunction, constants } from 'node:vm';
import type { XGrammarLibrary } from '../grammar/index.ts';
import { dependencyFile } from './node-package.ts';

/** Limit of WebAssembly memory for grammars: several times the need of a vocabulary of 256,000 tokens. */
const maxMemory = 768 * 2 ** 20;

/**
 * Loads `@mlc-ai/web-xgrammar`. The file is a CommonJS script in a package that declares ES modules, so Node's `import`
 * fails; it is evaluated as a script here. Its WebAssembly is embedded in the file.
 */
export async function loadGrammarLibrary(): Promise<XGrammarLibrary> {
  const file = dependencyFile('@mlc-ai/web-xgrammar/lib/index.js');
  if (file === undefined) throw new Error('@mlc-ai/web-xgrammar is not installed: install lathe again');
  const source = await readFile(file, 'utf8');
  const module = { exports: {} };
  const run = compileFunction(source, ['module', 'exports', 'require', '__filename', '__dirname'], {
    filename: file,
    // The script imports `node:module`.
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  }) as (...scope: unknown[]) => void;
  run(module, module.exports, createRequire(file), file, dirname(file));
  return module.exports as XGrammarLibrary;
}

/**
 * Limits the WebAssembly memory of this thread. Growth beyond the limit fails as if memory were exhausted.
 * @returns a function for the size of the largest memory in bytes
 */
export function limitWasmMemory(maxBytes = maxMemory): () => number {
  let bytes = 0;
  const { prototype } = WebAssembly.Memory;
  const { grow } = prototype as { grow: (this: WebAssembly.Memory, pages: number) => number };
  prototype.grow = function limited(this: WebAssembly.Memory, pages: number): number {
    const wanted = this.buffer.byteLength + pages * 65_536;
    if (wanted > maxBytes) throw new RangeError(`grammars must not use more than ${maxBytes} bytes`);
    bytes = Math.max(bytes, wanted);
    return grow.call(this, pages);
  };
  return () => bytes;
}
