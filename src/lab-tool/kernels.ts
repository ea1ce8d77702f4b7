import { readFile } from 'node:fs/promises';
import { basename, extname } from 'node:path';
import type { Finding, KernelRegistration } from '../lab/types.ts';
import { FileError, fileError } from '../terminal/file-error.ts';
import { nameFault, namePattern, type Place, readHeader } from './header.ts';
import { type KernelFlags, underFlags } from './kernel-flags.ts';

/** The text that a finding's line and column mean, and where it lies. */
export interface Origin {
  /** As the author named it. */
  readonly file: string;
  readonly lines: readonly string[];
  /** Lines of the file before the kernel's first one. */
  readonly above: number;
  /** Characters before the kernel in its first line. */
  readonly before: number;
}

/** A kernel of a file, ready for the gate unless it has faults. */
export interface LocalKernel {
  readonly registration?: KernelRegistration;
  /** Name, or the file's where there is none. */
  readonly label: string;
  readonly origin: Origin;
  /** Globs that the author wrote to the kernel. */
  readonly bind: readonly string[];
  /** Of directives, in the origin. */
  readonly places: ReadonlyMap<string, Place>;
  /** What makes it unfit to be sent. */
  readonly faults: readonly Finding[];
}

export interface LoadedFile {
  readonly kernels: readonly LocalKernel[];
  /** Further files that it was made from. */
  readonly dependencies: readonly string[];
}

/** A text file without its byte order mark, with plain line ends. Throws `FileError`. */
export async function readText(path: string | URL, label: string): Promise<string> {
  let bytes: Buffer;
  try {
    bytes = await readFile(path);
  } catch (error) {
    throw fileError(label, error);
  }
  try {
    // The decoder drops a byte order mark, which WGSL does not allow.
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes).replaceAll(/\r\n?/g, '\n');
  } catch {
    throw new FileError(label, 'it is not UTF-8 text');
  }
}

export const isModule = (path: string): boolean => /^\.[cm]?[jt]s$/.test(extname(path));
export const linesOf = (text: string): string[] => text.split('\n');

/** Reads a `.wgsl` file; flags win over its directives. */
export async function readWgslKernel(path: string, flags: KernelFlags): Promise<LoadedFile> {
  const source = await readText(path, path);
  const origin = { file: path, lines: linesOf(source), above: 0, before: 0 };
  const header = underFlags(readHeader(origin.lines), flags);
  const faults = [...header.faults];
  const missing = (message: string) =>
    faults.push({ code: 'directive', severity: 'error', message, line: 1, column: 1, length: 1 });
  const name = header.name ?? nameOfFile(path);
  if (!namePattern.test(name))
    missing(`the file's name is no kernel's name; write \`//! name: my_kernel\` (${nameFault(name)})`);
  if (header.op === undefined && !header.places.has('op'))
    missing('no op: write `//! op: rms_norm` at the top of the file, or give --op');
  if (header.dispatch === undefined && !header.places.has('dispatch'))
    missing('no dispatch: write `//! dispatch: tokens` at the top of the file, or give --dispatch-x');
  if (source.trim() === '') missing('the file is empty');

  const kernel = { label: name, origin, bind: header.bind, places: header.places, faults };
  const { op, dispatch, entry_point, overrides, tunables, requires, dtypes } = header;
  if (faults.length > 0 || op === undefined || dispatch === undefined)
    return { kernels: [kernel], dependencies: [] };
  const registration = {
    name,
    op,
    source,
    dispatch,
    ...(entry_point === undefined ? {} : { entry_point }),
    ...(Object.keys(overrides).length === 0 ? {} : { overrides }),
    ...(Object.keys(tunables).length === 0 ? {} : { tunables }),
    ...(requires.length === 0 ? {} : { requires }),
    ...(dtypes.length === 0 ? {} : { dtypes }),
  };
  return { kernels: [{ ...kernel, registration }], dependencies: [] };
}

const nameOfFile = (path: string): string =>
  basename(path, extname(path)).toLowerCase().replaceAll(/\s+/g, '_');
