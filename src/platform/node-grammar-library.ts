import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { compileFunction, constants } from 'node:vm';
import type { Library } from '../grammar/index.ts';
import { packageRoot } from './node-package.ts';

/** WebAssembly memory that grammars may take: a few times what a vocabulary of 256,000 tokens needs. */
const mostMemory = 768 * 2 ** 20;

/**
 * `@mlc-ai/web-xgrammar` is a script in the old form within a package that says it has modules, so Node's `import`
 * cannot read it; here it is read as the script it is. Its WebAssembly is in the same file.
 */
export async function loadGrammarLibrary(): Promise<Library> {
  const file = join(packageRoot(), 'node_modules/@mlc-ai/web-xgrammar/lib/index.js');
  const source = await readFile(file, 'utf8');
  const module = { exports: {} };
  const run = compileFunction(source, ['module', 'exports', 'require', '__filename', '__dirname'], {
    filename: file,
    // It imports `node:module` by itself.
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  }) as (...scope: unknown[]) => void;
  run(module, module.exports, createRequire(file), file, dirname(file));
  return module.exports as Library;
}

/**
 * Bounds the WebAssembly memory of this thread: growth beyond it fails, as if the machine had no more.
 * @returns how many bytes the largest memory has
 */
export function limitMemory(most = mostMemory): () => number {
  let bytes = 0;
  const { prototype } = WebAssembly.Memory;
  const { grow } = prototype as { grow: (this: WebAssembly.Memory, pages: number) => number };
  prototype.grow = function limited(this: WebAssembly.Memory, pages: number): number {
    const wanted = this.buffer.byteLength + pages * 65_536;
    if (wanted > most) throw new RangeError(`grammars may not take more than ${most} bytes`);
    bytes = Math.max(bytes, wanted);
    return grow.call(this, pages);
  };
  return () => bytes;
}
