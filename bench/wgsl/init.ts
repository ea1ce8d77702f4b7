/** Writes the tasks to a folder: what each asks for, and its naive baseline as the file to start from. */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { contracts } from '../../kernels/contracts.ts';
import { renderHeader } from '../../src/lab/kernel-header.ts';
import { renderStub } from '../../src/lab/stubs.ts';
import { kernelTasks, type KernelTask, layerTask } from './tasks.ts';

/** @throws Error when the folder is not empty */
export function writeTasks(folder: string, wgsl: ReadonlyMap<string, string>): void {
  if (existsSync(folder) && readdirSync(folder).length > 0)
    throw new Error(`--init: expected a new or empty folder, but ${folder} has files`);
  mkdirSync(join(folder, layerTask.id), { recursive: true });
  for (const task of kernelTasks) {
    const { id, op, format } = task;
    const { source, dispatch, overrides, requires } = renderStub(wgsl, op, 'plain', format);
    const body = source
      .split('\n')
      .filter((line) => !line.startsWith('//!'))
      .join('\n')
      .trimStart();
    const header = renderHeader({ op, dispatch, overrides, requires: [...requires] });
    writeFileSync(join(folder, `${id}.wgsl`), `${header}\n${body}`);
  }
  writeFileSync(join(folder, 'TASKS.md'), tasksText());
  process.stdout.write(`${folder}: TASKS.md and ${kernelTasks.length} kernels to start from\n`);
}

export const tasksText = (): string => `# Tasks

${kernelTasks.map(describe).join('\n')}
## ${layerTask.id} (level ${layerTask.level})

${layerTask.from}: any number of files in \`${layerTask.id}/\`, each with directives \`//! op: OP\`, \`//! dispatch: ...\` and \`//! bind: GLOB\`
over the components of the layer, such as \`layers.0.ffn.norm\`. Components without a kernel keep the built-in one.
`;

function describe({ id, level, op, format, from, dims, varies }: KernelTask): string {
  const { summary, bindings } = contracts.get(op) ?? { summary: '', bindings: [] };
  const size = Object.entries(dims).map(
    ([name, value]) => `${name} ${value}${varies[name] === undefined ? '' : ' (varies)'}`,
  );
  const list = bindings.map(
    ({ name, role, dtype, shape }, n) =>
      `${n} \`${name}\` (${[role, dtype, role === 'uniform' ? undefined : `[${shape.join(', ')}]`].filter(Boolean).join(' ')})`,
  );
  return `## ${id} (level ${level})

${from}. Op \`${op}\`${format === undefined ? '' : `, weights in ${format}`}: ${summary}.

- Size: ${size.join(', ')}
- Bindings: ${list.join(', ')}
`;
}
