import { readFile } from 'node:fs/promises';
import { basename, extname } from 'node:path';
import type { Finding, KernelRegistration } from '../lab/types.ts';
import { FileError, toFileError } from '../terminal/file-error.ts';
import { kernelNameError, kernelNamePattern, type FileLocation, readHeader } from '../lab/kernel-header.ts';
import { type KernelFlags, mergeFlags, readKernelFlags } from './kernel-flags.ts';

/** Where the WGSL of a kernel is in its file, to convert locations of findings. */
export interface SourceOrigin {
  /** Path as given by the author. */
  readonly file: string;
  readonly lines: readonly string[];
  /** Number of lines of the file before the kernel. */
  readonly above: number;
  /** Number of characters before the kernel in its first line. */
  readonly before: number;
}

/** A kernel that was read from a file. It can be registered if it has no faults. */
export interface LocalKernel {
  readonly registration?: KernelRegistration;
  /** Name of the kernel, or of the file. */
  readonly label: string;
  readonly origin: SourceOrigin;
  /** Globs over components to bind it to. */
  readonly bind: readonly string[];
  /** Location of each directive, by key. */
  readonly places: ReadonlyMap<string, FileLocation>;
  /** Errors that prevent its registration. */
  readonly faults: readonly Finding[];
}

export interface LoadedFile {
  readonly kernels: readonly LocalKernel[];
  /** Other files that it was built from. */
  readonly dependencies: readonly string[];
}

/** Reads a text file. Removes the byte order mark and converts line endings to `\n`. Throws `FileError`. */
export async function readText(path: string | URL, label: string): Promise<string> {
  let bytes: Buffer;
  try {
    bytes = await readFile(path);
  } catch (error) {
    throw toFileError(label, error);
  }
  try {
    // The decoder removes a byte order mark, which WGSL does not allow.
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes).replaceAll(/\r\n?/g, '\n');
  } catch {
    throw new FileError(label, 'it is not UTF-8 text');
  }
}

export const isModule = (path: string): boolean => /^\.[cm]?[jt]s$/.test(extname(path));
export const linesOf = (text: string): string[] => text.split('\n');

/** Reads a `.wgsl` file; flags win over its directives. */
export const readWgslKernel = async (path: string, flags: KernelFlags): Promise<LoadedFile> =>
  readWgslSource(await readText(path, path), path, flags);

/** Reads the text of a kernel file. */
export function readWgslSource(
  source: string,
  path: string,
  flags: KernelFlags = readKernelFlags({}),
): LoadedFile {
  const origin = { file: path, lines: linesOf(source), above: 0, before: 0 };
  const header = mergeFlags(readHeader(origin.lines), flags);
  const faults = [...header.faults];
  const addError = (message: string) =>
    faults.push({ code: 'directive', severity: 'error', message, line: 1, column: 1, length: 1 });
  const name = header.name ?? nameOfFile(path);
  if (!kernelNamePattern.test(name))
    addError(
      `the file name is not a valid kernel name; add \`//! name: my_kernel\` (${kernelNameError(name)})`,
    );
  if (header.op === undefined && !header.places.has('op'))
    addError('op is missing: add `//! op: rms_norm` at the top of the file, or pass --op');
  if (header.dispatch === undefined && !header.places.has('dispatch'))
    addError('dispatch is missing: add `//! dispatch: tokens` at the top of the file, or pass --dispatch-x');
  if (source.trim() === '') addError('the file is empty');

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
