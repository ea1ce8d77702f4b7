import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Variant } from '../../kernels/assemble.ts';
import type { Kernel } from '../../kernels/define.ts';
import { repository } from './host.ts';

const folder = join(repository, 'kernels');
const files = readdirSync(folder).filter((name) => name.endsWith('.ts'));
const modules = await Promise.all(
  files.map((name) => import(pathToFileURL(join(folder, name)).href) as Promise<Record<string, unknown>>),
);

const isKernel = (value: unknown): value is Kernel<Variant, never> =>
  typeof value === 'object' && value !== null && 'grid' in value && 'variants' in value;

/** All built-in kernels: everything that the modules in `kernels/` define with `defineKernel`. */
export const kernels: readonly Kernel<Variant, never>[] = modules.flatMap((module) =>
  Object.values(module).filter(isKernel),
);
