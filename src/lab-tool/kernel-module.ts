import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import type { KernelDefinition } from '../define-kernel.ts';
import { formatNames, type KernelRegistration } from '../lab/types.ts';
import { FileError, toFileError } from '../terminal/file-error.ts';
import { errorMessage } from '../util/error-message.ts';
import { features, kernelNameError, kernelNamePattern } from '../lab/kernel-header.ts';
import { linesOf, type LoadedFile, type LocalKernel, type SourceOrigin, readText } from './local-kernels.ts';
import { importUncached, locationInStackTrace } from './module-hooks.ts';

const text = z.string({ error: 'expected a string' }).min(1, 'must not be empty');
const number = z.number({ error: 'expected a finite number' });
const definitionSchema = z.strictObject({
  name: text.refine((name) => kernelNamePattern.test(name), {
    error: ({ input }) => kernelNameError(String(input)),
  }),
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
  const moduleText = await readModuleText(path);
  const { exports, failure, imported } = await importUncached(absolute);
  const dependencies = [...imported];
  const singleKernel = (kernel: LocalKernel) => ({ kernels: [kernel], dependencies });
  if (failure)
    return singleKernel(kernelFromException(path, moduleText, 'the module failed to load', failure.thrown));
  const definitions = (exports as { default?: unknown }).default;
  if (definitions === undefined)
    return singleKernel(
      kernelWithErrors(path, moduleText, 'no default export; write `export default defineKernel({...})`'),
    );
  const kernels: LocalKernel[] = [];
  for (const [index, definition] of [definitions].flat().entries()) {
    const where = Array.isArray(definitions) ? `default[${index}]` : 'default';
    kernels.push(await readDefinition(definition, { path, moduleText, where, dependencies }));
  }
  if (kernels.length === 0)
    kernels.push(kernelWithErrors(path, moduleText, 'the default export is an empty list'));
  return { kernels, dependencies };
}

interface Module {
  readonly path: string;
  /** Text of the module. */
  readonly moduleText: string;
  readonly where: string;
  readonly dependencies: string[];
}

async function readDefinition(definition: unknown, module: Module): Promise<LocalKernel> {
  const { path, moduleText, where } = module;
  const parsed = definitionSchema.safeParse(definition);
  if (!parsed.success) {
    const messages = parsed.error.issues.map(
      (issue) => `${[where, ...issue.path].join('.')}: ${issue.message}`,
    );
    return kernelWithErrors(path, moduleText, ...messages);
  }
  const { name, op, entry_point, dispatch, overrides, tunables, requires, dtypes, bind } = parsed.data;
  let source: string;
  let origin: SourceOrigin;
  try {
    ({ source, origin } = await readSource(parsed.data as KernelDefinition, module));
  } catch (error) {
    return kernelFromException(path, moduleText, `${where}.source`, error);
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
async function readSource(
  { source, overrides = {} }: KernelDefinition,
  { path, moduleText, dependencies }: Module,
) {
  if (source instanceof URL) {
    if (source.protocol !== 'file:') throw new Error(`expected a file: URL, got ${source.href}`);
    const file = fileURLToPath(source);
    dependencies.push(file);
    const wgsl = await readText(file, file);
    return { source: wgsl, origin: { file, lines: linesOf(wgsl), above: 0, before: 0 } };
  }
  const generated: unknown = typeof source === 'function' ? source(overrides) : source;
  if (typeof generated !== 'string')
    throw new Error(`expected the function to return WGSL, got ${typeof generated}`);
  const wgsl = generated.replaceAll(/\r\n?/g, '\n');
  const at = moduleText.indexOf(wgsl);
  if (at === -1)
    return { source: wgsl, origin: { file: `${path}<wgsl>`, lines: linesOf(wgsl), above: 0, before: 0 } };
  const above = moduleText.slice(0, at);
  const before = at - (above.lastIndexOf('\n') + 1);
  return {
    source: wgsl,
    origin: { file: path, lines: linesOf(moduleText), above: linesOf(above).length - 1, before },
  };
}

async function readModuleText(path: string): Promise<string> {
  try {
    if ((await stat(path)).isDirectory()) throw new FileError(path, 'it is a directory; name a file in it');
    return (await readFile(path, 'utf8')).replaceAll(/\r\n?/g, '\n');
  } catch (error) {
    throw error instanceof FileError ? error : toFileError(path, error);
  }
}

/** Result for a module without a valid kernel, with the reasons. */
const kernelWithErrors = (path: string, moduleText: string, ...messages: string[]): LocalKernel => ({
  label: path,
  origin: { file: path, lines: linesOf(moduleText), above: 0, before: 0 },
  bind: [],
  places: new Map(),
  faults: messages.map((message) => ({ code: 'module', severity: 'error', message })),
});

function kernelFromException(path: string, moduleText: string, where: string, thrown: unknown): LocalKernel {
  const place = locationInStackTrace(thrown, resolve(path));
  const kernel = kernelWithErrors(path, moduleText, `${where}: ${errorMessage(thrown)}`);
  return { ...kernel, faults: kernel.faults.map((fault) => ({ ...fault, ...place })) };
}
