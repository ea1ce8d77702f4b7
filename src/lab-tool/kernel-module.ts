import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import type { KernelDefinition } from '../define-kernel.ts';
import { formatNames, type KernelRegistration } from '../lab/types.ts';
import { FileError, fileError } from '../terminal/file-error.ts';
import { errorMessage } from '../util/error-message.ts';
import { features, nameFault, namePattern } from './header.ts';
import { linesOf, type LoadedFile, type LocalKernel, type Origin, readText } from './kernels.ts';
import { importFresh, placeInTrace } from './module-hooks.ts';

const text = z.string({ error: 'expected a string' }).min(1, 'must not be empty');
const number = z.number({ error: 'expected a finite number' });
const shape = z.strictObject({
  name: text.refine((name) => namePattern.test(name), { error: ({ input }) => nameFault(String(input)) }),
  op: text,
  source: z.union(
    [
      text,
      z.instanceof(URL),
      z.custom<(overrides: Record<string, number>) => string>((value) => typeof value === 'function'),
    ],
    {
      error: 'expected WGSL, a file URL, or a function that returns WGSL',
    },
  ),
  entry_point: text.optional(),
  dispatch: z.union([text, z.strictObject({ x: text, y: text.optional(), z: text.optional() })], {
    error: 'expected an expression, or {x, y?, z?} with expressions',
  }),
  overrides: z.record(text, number).optional(),
  tunables: z.record(text, z.array(number).min(1, 'expected at least one value')).optional(),
  requires: z.array(z.enum(features, { error: `expected one of ${features.join(', ')}` })).optional(),
  dtypes: z.array(z.enum(formatNames, { error: `expected one of ${formatNames.join(', ')}` })).optional(),
  bind: z.union([text, z.array(text)], { error: 'expected a glob or a list of globs' }).optional(),
});

/** Reads a module whose default export is a kernel or a list of kernels. Throws `FileError` if it cannot be read. */
export async function readModuleKernels(path: string): Promise<LoadedFile> {
  const absolute = resolve(path);
  const own = await ownText(path);
  const { exports, failure, imported } = await importFresh(absolute);
  const dependencies = [...imported];
  const alone = (kernel: LocalKernel) => ({ kernels: [kernel], dependencies });
  if (failure) return alone(thrownBy(path, own, 'the module failed to load', failure.thrown));
  const definitions = (exports as { default?: unknown }).default;
  if (definitions === undefined)
    return alone(faulty(path, own, 'no default export; write `export default defineKernel({...})`'));
  const kernels: LocalKernel[] = [];
  for (const [index, definition] of [definitions].flat().entries()) {
    const where = Array.isArray(definitions) ? `default[${index}]` : 'default';
    kernels.push(await readDefinition(definition, { path, own, where, dependencies }));
  }
  if (kernels.length === 0) kernels.push(faulty(path, own, 'the default export is an empty list'));
  return { kernels, dependencies };
}

interface Module {
  readonly path: string;
  /** Text of the module. */
  readonly own: string;
  readonly where: string;
  readonly dependencies: string[];
}

async function readDefinition(definition: unknown, module: Module): Promise<LocalKernel> {
  const { path, own, where } = module;
  const checked = shape.safeParse(definition);
  if (!checked.success) {
    const messages = checked.error.issues.map(
      (issue) => `${[where, ...issue.path].join('.')}: ${issue.message}`,
    );
    return faulty(path, own, ...messages);
  }
  const { name, op, entry_point, dispatch, overrides, tunables, requires, dtypes, bind } = checked.data;
  let source: string;
  let origin: Origin;
  try {
    ({ source, origin } = await readSource(checked.data as KernelDefinition, module));
  } catch (error) {
    return thrownBy(path, own, `${where}.source`, error);
  }
  const registration: KernelRegistration = {
    name,
    op,
    source,
    dispatch: typeof dispatch === 'string' ? { x: dispatch } : dispatch,
    ...(entry_point === undefined ? {} : { entry_point }),
    ...(overrides === undefined ? {} : { overrides }),
    ...(tunables === undefined ? {} : { tunables }),
    ...(requires === undefined ? {} : { requires }),
    ...(dtypes === undefined ? {} : { dtypes }),
  };
  return { registration, label: name, origin, bind: [bind ?? []].flat(), places: new Map(), faults: [] };
}

/** The WGSL and its origin: a separate file, the module, or generated text. */
async function readSource({ source, overrides = {} }: KernelDefinition, { path, own, dependencies }: Module) {
  if (source instanceof URL) {
    if (source.protocol !== 'file:') throw new Error(`expected a file: URL, got ${source.href}`);
    const file = fileURLToPath(source);
    dependencies.push(file);
    const wgsl = await readText(file, file);
    return { source: wgsl, origin: { file, lines: linesOf(wgsl), above: 0, before: 0 } };
  }
  const written: unknown = typeof source === 'function' ? source(overrides) : source;
  if (typeof written !== 'string')
    throw new Error(`expected the function to return WGSL, got ${typeof written}`);
  const wgsl = written.replaceAll(/\r\n?/g, '\n');
  const at = own.indexOf(wgsl);
  if (at === -1)
    return { source: wgsl, origin: { file: `${path}<wgsl>`, lines: linesOf(wgsl), above: 0, before: 0 } };
  const above = own.slice(0, at);
  const before = at - (above.lastIndexOf('\n') + 1);
  return {
    source: wgsl,
    origin: { file: path, lines: linesOf(own), above: linesOf(above).length - 1, before },
  };
}

async function ownText(path: string): Promise<string> {
  try {
    if ((await stat(path)).isDirectory()) throw new FileError(path, 'it is a directory; name a file in it');
    return (await readFile(path, 'utf8')).replaceAll(/\r\n?/g, '\n');
  } catch (error) {
    throw error instanceof FileError ? error : fileError(path, error);
  }
}

/** Result for a module without a valid kernel, with the reasons. */
const faulty = (path: string, own: string, ...messages: string[]): LocalKernel => ({
  label: path,
  origin: { file: path, lines: linesOf(own), above: 0, before: 0 },
  bind: [],
  places: new Map(),
  faults: messages.map((message) => ({ code: 'module', severity: 'error', message })),
});

function thrownBy(path: string, own: string, where: string, thrown: unknown): LocalKernel {
  const place = placeInTrace(thrown, resolve(path));
  const kernel = faulty(path, own, `${where}: ${errorMessage(thrown)}`);
  return { ...kernel, faults: kernel.faults.map((fault) => ({ ...fault, ...place })) };
}
