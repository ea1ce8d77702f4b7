/** Reads a folder of submissions: `TASK.wgsl` for each task, and `layer/*.wgsl`. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { kernelRegistration } from '../../src/lab/request-shapes.ts';
import type { KernelRegistration } from '../../src/lab/types.ts';
import { readHeader } from '../../src/lab/kernel-header.ts';
import { contracts } from '../../kernels/contracts.ts';
import { kernelTasks, layerTask } from './tasks.ts';

export interface LayerKernel {
  readonly registration: KernelRegistration;
  /** Globs over components. */
  readonly bind: readonly string[];
}

export interface Submissions {
  /** By task. */
  readonly kernels: ReadonlyMap<string, KernelRegistration>;
  readonly layer: readonly LayerKernel[];
}

const registrationSchema = kernelRegistration(() => [...contracts.keys()]);

/** @throws Error with a line for each fault of any file */
export function readSubmissions(folder: string): Submissions {
  if (!existsSync(folder)) throw new Error(`--kernels: there is no folder ${folder}`);
  const faults: string[] = [];
  const read = (path: string, place: string, op?: string, format?: string) => {
    const source = readFileSync(path, 'utf8');
    const named = {
      source,
      name: basename(path, '.wgsl'),
      ...(format === undefined ? {} : { dtypes: [format] }),
    };
    const parsed = registrationSchema.safeParse(op === undefined ? named : { ...named, op });
    if (!parsed.success) {
      for (const { path: at, message } of parsed.error.issues)
        faults.push(`${place}: ${[at.join('.'), message].filter(Boolean).join(': ')}`);
      return undefined;
    }
    const stated = readHeader(source.split('\n')).op;
    if (op !== undefined && stated !== undefined && stated !== op) {
      faults.push(`${place}: op: expected ${op}, got '${stated}'`);
      return undefined;
    }
    return { registration: parsed.data, source };
  };

  const kernels = new Map<string, KernelRegistration>();
  const entries = readdirSync(folder, { withFileTypes: true });
  for (const { name } of entries.filter((entry) => entry.isFile() && entry.name.endsWith('.wgsl'))) {
    const id = basename(name, '.wgsl');
    const task = kernelTasks.find((one) => one.id === id);
    if (!task) {
      faults.push(`${name}: expected the name of a task (${kernelTasks.map((one) => one.id).join(', ')})`);
      continue;
    }
    const kernel = read(join(folder, name), name, task.op, task.format);
    if (kernel) kernels.set(id, kernel.registration);
  }
  const layer: LayerKernel[] = [];
  const layerFolder = join(folder, layerTask.id);
  const files = existsSync(layerFolder) ? readdirSync(layerFolder) : [];
  for (const name of files.filter((file) => file.endsWith('.wgsl')).sort()) {
    const place = `${layerTask.id}/${name}`;
    const kernel = read(join(layerFolder, name), place);
    if (!kernel) continue;
    const { bind } = readHeader(kernel.source.split('\n'));
    if (bind.length === 0)
      faults.push(`${place}: it needs a directive '//! bind: GLOB' over components of the layer`);
    else layer.push({ registration: kernel.registration, bind });
  }
  if (faults.length > 0) throw new Error(faults.join('\n'));
  if (kernels.size + layer.length === 0)
    throw new Error(`--kernels: ${folder} has no file TASK.wgsl; make them with --init ${folder}`);
  return { kernels, layer };
}
